// Any bytes as a vocabulary file: refused in one line that names the file, or words that keep
// their ids.
#include "data/vocabulary.h"
#include "tests/fuzz/fuzz.h"

namespace pal {
namespace {

bool check(Vocabulary (*load)(const CorpusFile&), const CorpusFile& file, Vocabulary& out) {
  if (!accepts(file.path, [&] { out = load(file); })) return false;
  for (int32_t id = Vocabulary::kSpecials; id < out.size(); ++id) {
    require(out.id(out.word(id)) == id, "a word has its id");
  }
  return true;
}

bool body(std::string_view bytes) {
  const MemoryFile memory(bytes);
  const CorpusFile file{memory.path(), "data.source_vocab"};
  Vocabulary ours, any;
  const bool read = check(Vocabulary::load_any, file, any);
  if (check(Vocabulary::load, file, ours)) {
    require(read && any.words() == ours.words(), "our own format is one of any");
  }
  if (read) Vocabulary::from_words(any.words(), "again");  // it can be saved and read again
  return read;
}

}  // namespace

FuzzTarget fuzz_vocabulary() {
  return {{"<pad>\n<unk>\n<s>\n</s>\na\nb\n\xC3\xA9\n", "<unk>\n<s>\n</s>\nRachel\n:\n",
           "the 120\nof 33\n<unk> 7\n", "a\t5\r\nb\t4\r\n", "one\ntwo\n",
           "\xEF\xBB\xBF"
           "1 2\n3 4\n"},
          {"<pad>", "<unk>", "<s>", "</s>", "\n", "\r\n", " ", "\t", " 12", "\t0", "\n\n",
           "\xEF\xBB\xBF", "\xC2\xA0", "\xE3\x80\x80", "\xFF", std::string(1, '\0')},
          body};
}

}  // namespace pal
