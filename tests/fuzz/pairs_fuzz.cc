// Any bytes as a pair of IDX files, and as a SentencePiece model: refused in one line that names a
// file, or as many images as it says, and pieces that lines are cut into.
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "data/image_set.h"
#include "data/sentencepiece.h"
#include "tests/fuzz/fuzz.h"

namespace pal {
namespace {

namespace fs = std::filesystem;

// The first byte tells how many bytes are labels, and the last of the rest are.
bool idx_body(std::string_view bytes) {
  if (bytes.empty()) return false;
  const size_t labels = std::min<size_t>(static_cast<unsigned char>(bytes[0]), bytes.size() - 1);
  const MemoryFile pixels(bytes.substr(1, bytes.size() - 1 - labels));
  const MemoryFile classes(bytes.substr(bytes.size() - labels));
  static const std::string folder = new_folder("idx");
  const fs::path images = folder + "/x-images-idx3-ubyte",
                 numbers = folder + "/x-labels-idx1-ubyte";
  fs::create_symlink(pixels.path(), images), fs::create_symlink(classes.path(), numbers);
  const bool accepted = accepts(folder, [&] {
    const ImageSet set = read_idx({&images, 1});
    require(set.size() > 0 && set.labels.size() == size_t(set.size()), "a label an image");
    require(set.pixels.size() == size_t(set.size()) * size_t(set.height * set.width * set.channels),
            "all their pixels");
    for (const int32_t label : set.labels) require(label >= 0 && label < 256, "labels");
  });
  fs::remove(images), fs::remove(numbers);
  return accepted;
}

bool sentencepiece_body(std::string_view bytes) {
  const MemoryFile memory(bytes);
  return accepts(memory.path(), [&] {
    const SentencePiece model = SentencePiece::load({memory.path(), "data.sentencepiece"});
    const std::vector<std::string> pieces = model.encode("one two, three!");
    require(model.decode(pieces).size() < 1000, "a line");
    require(SentencePiece::load({memory.path(), "data.sentencepiece"}) == model, "the same twice");
  });
}

std::string idx(const std::vector<unsigned char>& extents, size_t values) {
  std::string out = std::string("\0\0\x08", 3) + static_cast<char>(extents.size());
  for (const unsigned char extent : extents)
    out += std::string(3, '\0') + static_cast<char>(extent);
  return out + std::string(values, '\1');
}

std::string idx_pair(const std::string& images, const std::string& labels) {
  return static_cast<char>(labels.size()) + images + labels;
}

std::string trained(const char* kind) {
  std::vector<std::string> lines;
  for (int i = 0; i < 40; ++i) {
    lines.push_back("one two three, " + std::string(size_t(i % 7), 'a') + " b!");
  }
  const std::array<const std::vector<std::string>*, 1> texts{&lines};
  const std::string path = new_folder("pieces") + "/x.model";
  SentencePiece::train(texts, {.model = kind, .pieces = 24}).save(path);
  std::ostringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  fs::remove_all(fs::path(path).parent_path());
  return bytes.str();
}

}  // namespace

FuzzTarget fuzz_idx() {
  return {{idx_pair(idx({2, 3, 4}, 24), idx({2}, 2)), idx_pair(idx({1, 2, 2, 3}, 12), idx({1}, 1)),
           idx_pair(idx({2, 1, 1}, 2), idx({3}, 3)), idx_pair("\x1f\x8b\x08", "")},
          {std::string(4, '\0'), std::string("\0\0\x08\x03", 4), std::string("\0\0\0\1", 4),
           "\xff\xff\xff\xff", "\x1f\x8b", std::string(1, '\x0c')},
          idx_body};
}

FuzzTarget fuzz_sentencepiece() {
  return {{trained("unigram"), trained("bpe"), "x"},
          {std::string("\x0a\x0c\x0a\x06", 4), std::string("\x0a\x00", 2), "<unk>", "\xe2\x96\x81",
           std::string("\x12\x02\x18\x03", 4), "\xff\xff\xff\xff\x0f", std::string(4, '\0'),
           "nmt_nfkc"},
          sentencepiece_body};
}

}  // namespace pal
