// A list of recordings and what is said in them: .csv or .tsv with a header line, or .jsonl with an
// object a line.
#pragma once
#include <string>
#include <vector>

#include "data/text.h"

namespace pal {

struct ManifestEntry {
  std::string path;  // as it stands there: relative to the manifest's folder, or absolute
  std::string transcript;
  std::string speaker, split;  // empty where the list does not say
  int64_t line = 0;
};

// Columns (or keys) by name: path (also file, audio_filepath), transcript (also text), and, if
// there, speaker and split; others are passed over. Fields of a .csv may be in quotes. UsageError
// "FILE:LINE: ..." on anything else.
std::vector<ManifestEntry> read_manifest(const CorpusFile& file);

}  // namespace pal
