// What a command works through, one after the other, from a pipe of any length: what cannot be used
// is named and counted, and the rest goes on.
#pragma once
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace pal {

class Unusable {
 public:
  // `strict`: the first ends the command.
  explicit Unusable(bool strict) : strict_(strict) {}
  // Named in the log; behind the first few of them only counted. UsageError where strict.
  void add(const std::string& why);
  // Once all has been worked through: UsageError with `what` ("2 of 7 lines could not be
  // translated") where there were some.
  void finish(int64_t of, const std::string& things, const std::string& done) const;

 private:
  static constexpr int64_t kNamed = 20;
  bool strict_;
  int64_t count_ = 0;
};

// Calls use(file) for each, or, where they are "-" alone, for the names on standard input, one a
// line. Returns how many there were. What is no name goes to `unusable`.
int64_t each_file(const std::vector<std::filesystem::path>& files, Unusable& unusable,
                  const std::function<void(const std::filesystem::path&)>& use);
inline bool are_piped(const std::vector<std::filesystem::path>& files) {
  return files.size() == 1 && files[0] == "-";
}

// {"NAME":[row,row,..],"BEHIND":[..]} on standard output, row by row. The rows of the second list,
// where there is one, wait in a temporary file.
class PrintedRows {
 public:
  // `behind`: the name of the second list. Error with kExitFailed: no file for it can be written.
  explicit PrintedRows(std::string name, std::optional<std::string> behind = {});
  void add(const nlohmann::json& row);
  void add_behind(const nlohmann::json& row);
  void end();

 private:
  void begin();
  [[noreturn]] void fail() const;

  std::string name_;
  std::optional<std::string> behind_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> waiting_;
  bool first_ = true, first_behind_ = true;
};

}  // namespace pal
