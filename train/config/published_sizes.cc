// Which files a plan reads of each kind of data, and which options take their place.
#include "train/config/published_sizes.h"

#include "train/config/wording.h"

namespace pal {
namespace {

namespace fs = std::filesystem;

// What a plan would read, and the sizes in its place: empty where the configuration lacks one.
struct Sources {
  std::vector<fs::path> files;
  std::string sizes;
};

// Stated in a file or on the command line; a default is no size of the data.
bool stated(const AnyOption& option) { return !option.origin.empty(); }

std::string words(int64_t count, const std::string& kind) { return thousands(count) + " " + kind; }

Sources sources_of(const ParallelTextConfig& data) {
  const ParallelFiles train = parallel_files(data, "train");
  Sources out{{train.source, train.target}, ""};
  for (const auto* file : {&data.source_vocab, &data.target_vocab, &data.sentencepiece_file}) {
    if (const auto& name = file->get()) out.files.push_back(data_path(data, *name));
  }
  const auto &source = *data.source_vocab_size, &target = *data.target_vocab_size;
  if (*data.tokenizer == "sentencepiece") {
    if (stated(data.sentencepiece_size) && !*data.sentencepiece_file)
      out.sizes =
          words(*data.sentencepiece_size, *data.shared_vocabulary ? "pieces" : "pieces each");
  } else if (source && *data.shared_vocabulary) {
    out.sizes = words(*source, "words");
  } else if (source && target) {
    out.sizes = words(*source, "source words, ") + words(*target, "target words");
  }
  if (!out.sizes.empty()) out.sizes += ", sentences of up to " + std::to_string(*data.max_length);
  return out;
}

Sources sources_of(const TextConfig& data) {
  Sources out{{data_path(data, *data.train)}, ""};
  if (*data.vocab_size) {
    out.sizes = words(**data.vocab_size, "words");
  } else if (*data.tokenizer == "sentencepiece" && stated(data.sentencepiece_size)) {
    out.sizes = words(*data.sentencepiece_size, "pieces");
  }
  if (!out.sizes.empty()) out.sizes += ", samples of " + std::to_string(*data.length);
  return out;
}

Sources sources_of(const ImageConfig& data) {
  Sources out;
  for (const std::string& name : *data.train) out.files.push_back(data_path(data, name));
  const std::string side = std::to_string(*data.image_size);
  if (*data.classes) out.sizes = words(**data.classes, "classes, images of ") + side + " x " + side;
  return out;
}

Sources sources_of(const SpeechConfig& data) {
  Sources out{{data_path(data, *data.train)}, ""};
  if (stated(data.max_seconds) && !*data.labels)
    out.sizes = "recordings of up to " + yaml_text(*data.max_seconds) + " seconds";
  return out;
}

}  // namespace

std::string use_published_sizes(Config& config) {
  return std::visit(
      [](auto& data) -> std::string {
        const Sources sources = sources_of(data);
        if (*data.synthetic || sources.sizes.empty()) return "";
        for (const fs::path& file : sources.files) {
          std::error_code ignored;
          if (fs::exists(file, ignored)) continue;
          data.synthetic = true;
          return "data not found (" + file.string() +
                 "): planned with the configuration's published sizes: " + sources.sizes;
        }
        return "";
      },
      config.data);
}

}  // namespace pal
