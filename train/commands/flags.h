// The flags of a command, declared one by one; those that several commands have. CLI11 stays behind
// this header and cli.h.
#pragma once
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "train/config/config.h"
#include "train/translation/beam.h"

namespace CLI {
class App;
}

namespace pal {

struct FlagRules {
  const char* type = "";  // what the help calls the value: FILE
  bool required = false;
  bool repeatable = false;         // of a list: one value each time
  bool optional = false;           // the value may be left out, and is then empty
  const char* excludes = nullptr;  // the name of a flag declared before
};

class Flags {
 public:
  explicit Flags(CLI::App& app) : app_(app) {}
  // Where the value goes must outlive the parsing. A name without dashes is a word of its own.
  // T: bool (a flag without a value), string, path, int64_t, double, an optional int64_t, or a list
  // of strings or paths.
  template <class T> void add(const char* name, T& value, const char* help, FlagRules rules = {});
  // Neither flag without the other.
  void pair(const char* one, const char* other);
  // To be called when they are read: the words of the command line that give all flags but one.
  std::function<std::vector<std::string>()> words_without(const std::string& name) const;

 private:
  CLI::App& app_;
};

void add_json(Flags& flags, bool& json, const char* excludes = nullptr);
void add_models(Flags& flags, std::string& model);
void add_strict(Flags& flags, bool& strict);
void add_beam(Flags& flags, BeamOptions& beam);

// UsageError where a flag's value is out of range.
void check_range(const char* flag, int64_t value, int64_t least, int64_t most = INT64_MAX);

// "30,40": the lengths of a bucket; UsageError.
std::pair<int64_t, int64_t> parse_bucket(const std::string& text);

// --config and --set, with the flags that stand for options.
struct ConfigFlags {
  std::string config;
  std::vector<std::string> set;

  void add(Flags& flags);
  // The configuration with `overrides` after those of --set; `name` becomes the file's. `fallback`
  // is the file without --config; none: that is a UsageError of `command`.
  Config read(const std::string& command, const std::filesystem::path& fallback,
              const std::vector<Override>& overrides, std::string& name) const;
};

}  // namespace pal
