// The one file that knows the SentencePiece library.
#include "data/sentencepiece.h"

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <optional>
#include <unordered_map>

#include "core/error.h"
#include "data/atomic_file.h"

namespace pal {

namespace spm = sentencepiece;

struct SentencePiece::Model {
  spm::SentencePieceProcessor processor;
  std::string bytes;
  std::vector<std::string> pieces;
};

namespace {

// The lines of several texts, one after the other: all, or every so many, so that `most` are left.
class Lines final : public spm::SentenceIterator {
 public:
  Lines(std::span<const std::vector<std::string>* const> texts, size_t most) : texts_(texts) {
    size_t count = 0;
    for (const auto* text : texts) count += text->size();
    step_ = std::max<size_t>(1, (count + most - 1) / most);
    settle();
  }
  bool done() const override { return text_ == texts_.size(); }
  void Next() override {
    line_ += step_;
    settle();
  }
  const std::string& value() const override { return (*texts_[text_])[line_]; }
  spm::util::Status status() const override { return {}; }

 private:
  void settle() {
    while (text_ < texts_.size() && line_ >= texts_[text_]->size()) {
      line_ -= texts_[text_++]->size();
    }
  }

  std::span<const std::vector<std::string>* const> texts_;
  size_t step_ = 1, text_ = 0, line_ = 0;
};

// The library's messages, on one line and without its source's place: "Internal: file.cc(12)
// [condition] What it is."
std::string reason_of(const spm::util::Status& status) {
  std::string text = status.ToString();
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  }
  const size_t bracket = text.rfind("] ");
  if (bracket != std::string::npos && bracket + 2 < text.size()) text.erase(0, bracket + 2);
  while (!text.empty() && (text.back() == ' ' || text.back() == '.')) text.pop_back();
  return text;
}

}  // namespace

SentencePiece SentencePiece::from_bytes(std::string bytes, const std::string& where) {
  auto model = std::make_shared<Model>();
  std::optional<std::string> fault;
  try {
    const spm::util::Status status = model->processor.LoadFromSerializedProto(bytes);
    if (!status.ok()) fault = reason_of(status);
  } catch (const std::exception&) {  // of the trie that the library keeps pieces in
    fault = "its pieces cannot be looked up";
  }
  if (fault) {
    throw UsageError("[sentencepiece] " + where + ": is no SentencePiece model (" + *fault +
                     "); give a .model file that spm_train wrote");
  }
  model->bytes = std::move(bytes);
  const spm::SentencePieceProcessor& p = model->processor;
  for (int id = 0; id < p.GetPieceSize(); ++id) {
    if (!p.IsUnknown(id) && !p.IsControl(id) && !p.IsUnused(id)) {
      model->pieces.push_back(p.IdToPiece(id));
    }
  }
  return SentencePiece(std::move(model));
}

SentencePiece SentencePiece::train(std::span<const std::vector<std::string>* const> texts,
                                   const Options& options) {
  // Sums over sentences are split by num_threads: a fixed number gives the same model on any
  // machine. Our own specials stand in for all of the library's but <unk>, which it must have.
  const std::unordered_map<std::string, std::string> arguments = {
      {"model_type", options.model},
      {"vocab_size", std::to_string(options.pieces + 1)},
      {"hard_vocab_limit", "false"},
      {"num_threads", "8"},
      {"unk_id", "0"},
      {"bos_id", "-1"},
      {"eos_id", "-1"},
      {"pad_id", "-1"},
      {"unk_surface", " <unk> "},
      {"minloglevel", "2"}};
  // The library ends the process when it finds nothing to learn from.
  const bool any = std::any_of(texts.begin(), texts.end(), [](const auto* text) {
    return std::any_of(text->begin(), text->end(), [](const std::string& line) {
      return line.find_first_not_of(" \t") != std::string::npos;
    });
  });
  std::string bytes;
  spm::util::Status status;
  if (any) {
    Lines lines(texts, options.most_lines);
    status = spm::SentencePieceTrainer::Train(arguments, &lines, &bytes);
  }
  if (!any || !status.ok()) {
    throw UsageError(
        "[sentencepiece] cannot learn " + std::to_string(options.pieces) +
        " pieces of the training text: " + (any ? reason_of(status) : "it has no words") +
        "; change data.sentencepiece_size, or give more text");
  }
  return from_bytes(std::move(bytes), "the trained model");
}

SentencePiece SentencePiece::load(const CorpusFile& file) {
  const std::string where = file.path + (file.key.empty() ? "" : " (" + file.key + ")");
  const std::unique_ptr<FILE, int (*)(FILE*)> in(std::fopen(file.path.c_str(), "rb"), &std::fclose);
  const auto fail = [&](const char* why) {
    throw UsageError("[sentencepiece] " + where + ": " + why +
                     "; give a .model file that spm_train wrote" +
                     (file.hint.empty() ? "" : "; " + file.hint));
  };
  if (!in) fail(errno == ENOENT ? "no such file" : std::strerror(errno));
  std::string bytes;
  char block[1 << 16];
  size_t count = 0;
  while ((count = std::fread(block, 1, sizeof block, in.get())) > 0) bytes.append(block, count);
  if (std::ferror(in.get())) fail("cannot be read to its end");  // a folder, for one
  if (bytes.empty()) fail("is empty");
  return from_bytes(std::move(bytes), where);
}

void SentencePiece::save(const std::string& path) const {
  AtomicFile file(path);
  file.write(model_->bytes.data(), model_->bytes.size());
  file.commit();
}

const std::vector<std::string>& SentencePiece::pieces() const { return model_->pieces; }

std::vector<std::string> SentencePiece::encode(std::string_view line) const {
  std::vector<std::string> pieces;
  const spm::util::Status status = model_->processor.Encode(line, &pieces);
  if (!status.ok()) throw ProgramError("[sentencepiece] encoding: " + reason_of(status));
  return pieces;
}

std::string SentencePiece::decode(std::span<const std::string> pieces) const {
  std::string line;
  const std::vector<std::string> list(pieces.begin(), pieces.end());
  const spm::util::Status status = model_->processor.Decode(list, &line);
  if (!status.ok()) throw ProgramError("[sentencepiece] decoding: " + reason_of(status));
  return line;
}

bool SentencePiece::operator==(const SentencePiece& other) const {
  return model_ == other.model_ || model_->bytes == other.model_->bytes;
}

}  // namespace pal
