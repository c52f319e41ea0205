// The simplex method with Bland's rule, which does not cycle.
#include "memory/linear/most_within.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "core/error.h"
#include "memory/linear/simplex.h"

namespace pal {
namespace {

constexpr double kZero = 1e-11;
constexpr double kNear = 1e-6;
constexpr int kMostCorners = 100'000;  // rounding may make a circle where there is none

// Solves a square system whose rows end with the right side; by Gauss, with pivots. All that the
// many steps to a corner have rounded is gone then.
std::vector<double> solved(std::vector<std::vector<double>> rows) {
  const size_t n = rows.size();
  for (size_t i = 0; i < n; ++i) {
    size_t largest = i;
    for (size_t r = i; r < n; ++r) {
      if (std::abs(rows[r][i]) > std::abs(rows[largest][i])) largest = r;
    }
    std::swap(rows[i], rows[largest]);
    pivot(rows, i, i);
  }
  std::vector<double> x;
  for (const auto& row : rows) x.push_back(row[n]);
  return x;
}

// Many steps with numbers that are nearly nothing may end at another corner.
void require(bool best) {
  if (!best) throw ProgramError("[linear] a corner that is not the best one");
}
void require_within(const std::vector<double>& at) {
  require(std::all_of(at.begin(), at.end(), [](double x) { return x > -kNear; }));
}
// What a limit is worth at the corner: none less than nothing, and no unknown gains more than its
// limits cost.
void require_best(const std::vector<std::vector<double>>& corner, const std::vector<size_t>& basic,
                  const std::vector<Limit>& limits, const std::vector<double>& gain) {
  const size_t n = gain.size(), m = limits.size();
  std::vector<std::vector<double>> prices(m, std::vector<double>(m + 1, 0));
  for (size_t i = 0; i < m; ++i) {
    for (size_t r = 0; r < m; ++r) prices[i][r] = corner[r][i];
    prices[i][m] = basic[i] < n ? gain[basic[i]] : 0;
  }
  const std::vector<double> price = solved(std::move(prices));
  require_within(price);
  for (size_t c = 0; c < n; ++c) {
    double cost = 0;
    for (size_t r = 0; r < m; ++r) cost += price[r] * limits[r].part[c];
    require(cost > gain[c] - kNear);
  }
}

}  // namespace

std::vector<double> most_within(const std::vector<Limit>& limits, const std::vector<double>& gain) {
  const size_t n = gain.size(), m = limits.size();
  // Each limit with what is left of it as one more unknown; the last row is what is to grow, the
  // last column the right side.
  std::vector<std::vector<double>> rows(m + 1, std::vector<double>(n + m + 1, 0));
  std::vector<size_t> basic(m);
  for (size_t r = 0; r < m; ++r) {
    for (size_t c = 0; c < n; ++c) rows[r][c] = limits[r].part[c];
    rows[r][n + r] = 1, rows[r][n + m] = limits[r].most, basic[r] = n + r;
  }
  for (size_t c = 0; c < n; ++c) rows[m][c] = -gain[c];
  for (int step = 0;; ++step) {
    if (step == kMostCorners) throw ProgramError("[linear] a linear program that does not end");
    size_t enters = 0;
    while (enters < n + m && rows[m][enters] >= -kZero) ++enters;
    if (enters == n + m) break;
    size_t leaves = m;
    for (size_t r = 0; r < m; ++r) {
      if (rows[r][enters] <= kZero) continue;
      if (leaves == m) {
        leaves = r;
        continue;
      }
      const double now = rows[r][n + m] / rows[r][enters];
      const double best = rows[leaves][n + m] / rows[leaves][enters];
      if (now < best || (now == best && basic[r] < basic[leaves])) leaves = r;
    }
    if (leaves == m) throw ProgramError("[linear] a linear program without bounds");
    pivot(rows, leaves, enters);
    basic[leaves] = enters;
  }
  std::vector<std::vector<double>> corner(m, std::vector<double>(m + 1, 0));
  for (size_t r = 0; r < m; ++r) {
    for (size_t i = 0; i < m; ++i) {
      const size_t c = basic[i];
      corner[r][i] = c < n ? limits[r].part[c] : c - n == r ? 1 : 0;
    }
    corner[r][m] = limits[r].most;
  }
  require_best(corner, basic, limits, gain);
  const std::vector<double> at = solved(std::move(corner));
  require_within(at);
  std::vector<double> x(n, 0);
  for (size_t i = 0; i < m; ++i) {
    if (basic[i] < n) x[basic[i]] = at[i];
  }
  return x;
}

}  // namespace pal
