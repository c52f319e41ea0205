// What is fuzzed: a body that any bytes may be given to, and bytes to begin with. The same bodies
// run under libFuzzer (scripts/fuzz) and, briefly, as ordinary tests (fuzz_test.cc). The CMake list
// of the fuzzers is made of the functions that are declared here.
#pragma once
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"

namespace pal {

struct FuzzTarget {
  std::vector<std::string> seeds;   // small, and most of them valid
  std::vector<std::string> scraps;  // what means something in this format
  // Returns whether the bytes were accepted. Any exception, any finding of a sanitizer, and a
  // message of several lines are defects; being refused is none.
  bool (*body)(std::string_view bytes);
};

FuzzTarget fuzz_config();         // YAML, and the options in it
FuzzTarget fuzz_vocabulary();     // vocabulary files, ours and others'
FuzzTarget fuzz_sentencepiece();  // SentencePiece models
FuzzTarget fuzz_text();           // parallel text, down to batches
FuzzTarget fuzz_safetensors();    // checkpoints
FuzzTarget fuzz_image();          // JPEG and PNG
FuzzTarget fuzz_cifar();          // CIFAR's binaries, packed or not
FuzzTarget fuzz_idx();            // IDX: images and their labels
FuzzTarget fuzz_sound();          // WAV and what else libsndfile reads
FuzzTarget fuzz_mfcc();           // cepstral coefficients
FuzzTarget fuzz_manifest();       // lists of recordings
FuzzTarget fuzz_profile();        // device profiles
FuzzTarget fuzz_place();          // pal place's files
FuzzTarget fuzz_link();           // links between devices
FuzzTarget fuzz_ladder();         // buckets.txt of a run
FuzzTarget fuzz_metrics();        // metrics.jsonl of a run
FuzzTarget fuzz_times();          // times.json of a run
FuzzTarget fuzz_algorithms();     // algorithms.txt of a run and of the cache
FuzzTarget fuzz_position();       // where a checkpoint says that its run stands
FuzzTarget fuzz_budget();         // DIR/budget of pal corun
FuzzTarget fuzz_front();          // fronts that the cache keeps

inline void require(bool holds, const char* what) {
  if (!holds) throw std::logic_error(what);
}

// A refusal as users see it: one line that says something.
inline void require_one_line(const std::string& message) {
  require(!message.empty() && message.find('\n') == std::string::npos, "message of one line");
}

// Whether `read` accepts; a refusal is one line that names the file.
template <typename Read> bool accepts(const std::string& name, const Read& read) {
  try {
    read();
    return true;
  } catch (const UsageError& error) {
    const std::string message = error.what();
    require_one_line(message);
    require(message.find(name) != std::string::npos, "the file is named");
    return false;
  }
}

// What means something in any JSON, and in one format.
std::vector<std::string> json_scraps(std::vector<std::string> own);

// An empty folder of this process in the system's folder for temporary files.
std::string new_folder(const char* name);

// A file in memory that holds these bytes.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes);
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::string path() const;

 private:
  int descriptor_;
};

}  // namespace pal
