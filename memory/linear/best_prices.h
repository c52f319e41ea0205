// The best prices for a list of known answers: a linear program with a few rows and many columns.
#pragma once
#include <vector>

namespace pal {

// Answer i costs time[i] less the gains of the rows: of row k gain[i][k] for each unit of its
// price.
struct KnownAnswers {
  std::vector<double> time;
  std::vector<std::vector<double>> gain;
};

// Prices z >= 0 for which the least over i of time[i] + sum_k z[k] gain[i][k] is largest, and that
// value. The prices sum to at most `most` where `together`, else each is at most that. By the
// primal simplex method on the dual; prices are as exact as doubles are.
struct BestPrices {
  std::vector<double> z;
  double value = 0;
};
BestPrices best_prices(const KnownAnswers& known, double most, bool together);

}  // namespace pal
