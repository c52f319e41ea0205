// A dense tableau: minimize sum w_i time_i + most * elastic, with sum w_i = 1 and, of every row k,
// sum w_i gain_ik + slack_k = elastic_k. What is asked for are the reduced costs of the slacks.
#include "memory/linear/best_prices.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "memory/linear/simplex.h"

namespace pal {
namespace {

constexpr double kTiny = 1e-11;
constexpr int kMostPivots = 2000, kPivotsByCost = 1500;  // then by number, which cannot cycle

class Tableau {
 public:
  Tableau(const KnownAnswers& known, double most, bool together)
      : rows_(known.gain.empty() ? 0 : known.gain[0].size()),
        elastic_(together ? 1 : rows_),
        columns_(rows_ + elastic_ + known.time.size()),
        row_(rows_ + 2, std::vector<double>(columns_ + 1, 0)),
        basic_(rows_ + 1) {
    for (size_t k = 0; k < rows_; ++k) {
      row_[k][k] = 1, row_[k][rows_ + (together ? 0 : k)] = -1;
    }
    std::fill_n(cost().begin() + std::ptrdiff_t(rows_), elastic_, most);
    for (size_t i = 0; i < known.time.size(); ++i) {
      const size_t c = rows_ + elastic_ + i;
      for (size_t k = 0; k < rows_; ++k) row_[k][c] = known.gain[i][k];
      row_[rows_][c] = 1, cost()[c] = known.time[i];
    }
    row_[rows_][columns_] = 1;
    // The first answer, and what it takes to make it possible.
    for (size_t k = 0; k <= rows_; ++k) basic_[k] = k;
    pivot(rows_, rows_ + elastic_);
    if (together) {
      size_t worst = 0;
      for (size_t k = 1; k < rows_; ++k) {
        if (row_[k][columns_] < row_[worst][columns_]) worst = k;
      }
      if (rows_ > 0 && row_[worst][columns_] < 0) pivot(worst, rows_);
    } else {
      for (size_t k = 0; k < rows_; ++k) {
        if (row_[k][columns_] < 0) pivot(k, rows_ + k);
      }
    }
  }

  BestPrices run() {
    for (int i = 0; i < kMostPivots && step(i >= kPivotsByCost); ++i) {
    }
    BestPrices out{.value = -cost()[columns_]};
    for (size_t k = 0; k < rows_; ++k) out.z.push_back(std::max(0.0, cost()[k]));
    return out;
  }

 private:
  void pivot(size_t leaves, size_t enters) {
    pal::pivot(row_, leaves, enters);
    basic_[leaves] = enters;
  }
  // The last row: what an answer costs beyond those that are basic.
  std::vector<double>& cost() { return row_.back(); }

  bool step(bool by_number) {
    size_t enters = columns_;
    double least = -kTiny;
    for (size_t c = 0; c < columns_ && !(by_number && enters < columns_); ++c) {
      if (cost()[c] < least) enters = c, least = by_number ? least : cost()[c];
    }
    if (enters == columns_) return false;
    size_t leaves = rows_ + 1;
    double ratio = 0;
    for (size_t k = 0; k <= rows_; ++k) {
      if (row_[k][enters] <= kTiny) continue;
      const double r = row_[k][columns_] / row_[k][enters];
      const bool less =
          leaves > rows_ || r < ratio - kTiny || (r < ratio + kTiny && basic_[k] < basic_[leaves]);
      if (less) leaves = k, ratio = r;
    }
    if (leaves > rows_) return false;
    pivot(leaves, enters);
    return true;
  }

  const size_t rows_, elastic_, columns_;
  std::vector<std::vector<double>> row_;  // the last entry: the right-hand side
  std::vector<size_t> basic_;
};

}  // namespace

BestPrices best_prices(const KnownAnswers& known, double most, bool together) {
  return Tableau(known, most, together).run();
}

}  // namespace pal
