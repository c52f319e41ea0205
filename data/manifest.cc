// Reading manifests.
#include "data/manifest.h"

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "core/error.h"

namespace pal {
namespace {

constexpr int kNoColumn = -1;

const std::initializer_list<const char*> kPathNames = {"path", "file", "audio_filepath"},
                                         kTranscriptNames = {"transcript", "text"};

// The fields of a line; a quoted one may hold the separator, and "" for a quote.
std::vector<std::string> fields_of(const std::string& line, char separator,
                                   const std::string& where) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quoted && c == '"' && i + 1 < line.size() && line[i + 1] == '"') {
      fields.back() += '"';
      ++i;
    } else if (separator == ',' && c == '"' && (quoted || fields.back().empty())) {
      quoted = !quoted;
    } else if (c == separator && !quoted) {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  if (quoted) throw UsageError(where + "a quote is opened and not closed");
  return fields;
}

int column_of(const std::vector<std::string>& header, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const auto at = std::find(header.begin(), header.end(), name);
    if (at != header.end()) return static_cast<int>(at - header.begin());
  }
  return kNoColumn;
}

std::vector<ManifestEntry> read_table(const std::vector<std::string>& lines, char separator,
                                      const std::string& path) {
  auto where = [&](size_t line) { return path + ":" + std::to_string(line + 1) + ": "; };
  const std::vector<std::string> header = fields_of(lines[0], separator, where(0));
  const int file = column_of(header, kPathNames), text = column_of(header, kTranscriptNames);
  const int speaker = column_of(header, {"speaker"}), split = column_of(header, {"split"});
  if (file == kNoColumn || text == kNoColumn) {
    throw UsageError(where(0) + "the first line names no column " +
                     (file == kNoColumn ? "path" : "transcript") +
                     "; a manifest begins with, say, path" + separator + "transcript");
  }
  std::vector<ManifestEntry> entries;
  for (size_t i = 1; i < lines.size(); ++i) {
    if (lines[i].empty()) continue;
    const std::vector<std::string> fields = fields_of(lines[i], separator, where(i));
    if (fields.size() != header.size()) {
      throw UsageError(where(i) + std::to_string(fields.size()) +
                       " fields, but the first line "
                       "names " +
                       std::to_string(header.size()));
    }
    auto at = [&](int column) { return column < 0 ? "" : fields[static_cast<size_t>(column)]; };
    entries.push_back({at(file), at(text), at(speaker), at(split), static_cast<int64_t>(i) + 1});
  }
  return entries;
}

std::vector<ManifestEntry> read_objects(const std::vector<std::string>& lines,
                                        const std::string& path) {
  std::vector<ManifestEntry> entries;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].empty()) continue;
    const std::string where = path + ":" + std::to_string(i + 1) + ": ";
    const nlohmann::json object = nlohmann::json::parse(lines[i], nullptr, false);
    if (!object.is_object()) throw UsageError(where + "want a JSON object on every line");
    auto text = [&](std::initializer_list<const char*> names) -> const std::string* {
      for (const char* name : names) {
        const auto at = object.find(name);
        if (at != object.end() && at->is_string()) return at->get_ptr<const std::string*>();
      }
      return nullptr;
    };
    const std::string *file = text(kPathNames), *said = text(kTranscriptNames);
    if (!file || !said) {
      throw UsageError(where + "no string " + (file ? "\"transcript\"" : "\"path\""));
    }
    const std::string *speaker = text({"speaker"}), *split = text({"split"});
    entries.push_back(
        {*file, *said, speaker ? *speaker : "", split ? *split : "", static_cast<int64_t>(i) + 1});
  }
  return entries;
}

}  // namespace

std::vector<ManifestEntry> read_manifest(const CorpusFile& file) {
  const std::vector<std::string> lines = read_lines(file);
  const std::string extension = std::filesystem::path(file.path).extension().string();
  std::vector<ManifestEntry> entries;
  if (extension == ".csv" || extension == ".tsv") {
    entries = read_table(lines, extension == ".csv" ? ',' : '\t', file.path);
  } else if (extension == ".jsonl" || extension == ".json") {
    entries = read_objects(lines, file.path);
  } else {
    throw UsageError(file.path + ": what kind of list is it? end its name in .csv, .tsv or .jsonl");
  }
  for (const ManifestEntry& entry : entries) {
    if (entry.path.empty()) {
      throw UsageError(file.path + ":" + std::to_string(entry.line) + ": names no file");
    }
  }
  if (entries.empty()) throw UsageError(file.path + ": lists no recording");
  return entries;
}

}  // namespace pal
