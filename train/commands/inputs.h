// What a command works through, one after the other, from a pipe of any length: what cannot be used
// is named and counted, and the rest goes on.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
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

// {"NAME":[row,row,..],..} on standard output, row by row.
class PrintedRows {
 public:
  explicit PrintedRows(std::string name) : name_(std::move(name)) {}
  void add(const nlohmann::json& row);
  // `more`: what else stands in the object.
  void end(const nlohmann::json& more = nlohmann::json::object());

 private:
  void begin();
  std::string name_;
  bool first_ = true;
};

}  // namespace pal
