// What metrics.jsonl says of a run, as a page draws it: of any number of rows so many points.
#pragma once
#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace pal {

// Points in the order of their coming, of which means of neighbours are kept.
class Curve {
 public:
  static constexpr size_t kMost = 400;  // points that are kept; a screen shows no more

  void add(double x, double y);
  const std::vector<std::pair<double, double>>& points() const { return points_; }
  // Of all that were added.
  int64_t count() const { return count_; }
  double mean() const { return mean_; }
  double lowest() const { return lowest_; }
  double highest() const { return highest_; }
  double last() const { return last_; }

 private:
  std::vector<std::pair<double, double>> points_;  // each of each_ that were added, the last of in_
  int64_t each_ = 1, in_ = 0;
  int64_t count_ = 0;
  double mean_ = 0, lowest_ = 0, highest_ = 0, last_ = 0;
};

class RunCurves {
 public:
  // The rows of a text; lines that are no rows, as a killed run may leave, are passed over.
  void read(std::istream& text);
  // The rows that a file has beyond those of the call before; a row under way is left for the next.
  void follow(const std::filesystem::path& file);

  Curve loss, rate, tokens, valid_loss;
  std::map<std::string, Curve> metrics;  // of validations
  int64_t step = 0;
  double epoch = 0;

 private:
  void add(const std::string& line);
  std::streamoff followed_ = 0;  // bytes
};

}  // namespace pal
