// Reading rows, and merging neighbours of a curve.
#include "train/report/run_curves.h"

#include <algorithm>
#include <fstream>
#include <istream>

#include "train/run_files/metrics.h"

namespace pal {
namespace {

// The mean of n numbers from that of the n - 1 before; no sum of them need be a number.
double joined(double mean, double value, int64_t n) {
  return mean * (double(n - 1) / double(n)) + value / double(n);
}

}  // namespace

void Curve::add(double x, double y) {
  ++count_;
  mean_ = joined(mean_, y, count_);
  lowest_ = count_ == 1 ? y : std::min(lowest_, y);
  highest_ = count_ == 1 ? y : std::max(highest_, y);
  last_ = y;
  if (in_ == each_ || points_.empty()) {
    if (points_.size() == kMost) {
      for (size_t i = 0; i < kMost / 2; ++i) {
        const auto [ax, ay] = points_[2 * i];
        const auto [bx, by] = points_[2 * i + 1];
        points_[i] = {ax / 2 + bx / 2, ay / 2 + by / 2};
      }
      points_.resize(kMost / 2);
      each_ *= 2;
    }
    points_.emplace_back(0, 0);
    in_ = 0;
  }
  ++in_;
  auto& [mean_x, mean_y] = points_.back();
  mean_x = joined(mean_x, x, in_), mean_y = joined(mean_y, y, in_);
}

void RunCurves::add(const std::string& line) {
  const auto found = row_in(line);
  if (!found) return;
  const nlohmann::ordered_json& row = *found;
  const int64_t at = row["step"].get<int64_t>();
  const auto add_to = [&](Curve& to, const char* key) {
    if (auto v = row.find(key); v != row.end() && v->is_number()) to.add(double(at), *v);
  };
  if (row["event"] == "step") {
    add_to(loss, "loss");
    add_to(rate, "lr");
    add_to(tokens, "tokens_per_s");
  } else if (row["event"] == "valid") {
    add_to(valid_loss, "loss");
    for (const auto& [key, value] : row.items()) {
      if (key == "event" || key == "step" || key == "epoch" || key == "loss") continue;
      add_to(metrics[key], key.c_str());
    }
  }
  step = std::max(step, at);
  if (row.contains("epoch") && row["epoch"].is_number()) {
    epoch = std::max(epoch, row["epoch"].get<double>());
  }
}

void RunCurves::read(std::istream& text) {
  for (std::string line; std::getline(text, line);) add(line);
}

void RunCurves::follow(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  in.seekg(followed_);
  for (std::string line; std::getline(in, line) && !in.eof();) {
    followed_ += std::streamoff(line.size()) + 1;
    add(line);
  }
}

}  // namespace pal
