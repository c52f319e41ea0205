// Batch norm and frame norm over the batches that several ranks hold at one time, in parts: each
// rank's sums, an all_gather of them, and what they are applied to. Every rank has the same numbers
// in the same order, so all get the same bits.
#pragma once
#include <cmath>

#include "core/host_device.h"
#include "core/op.h"
#include "core/val.h"

namespace pal {

extern const OpDef moments_over_ranks_op, norm_gradient_apply_op, norm_gradient_sums_op,
    norm_moments_op;
[[gnu::weak]] extern const Backend moments_over_ranks_cuda, norm_gradient_apply_cuda,
    norm_gradient_sums_cuda, norm_moments_cuda;

struct NormRowsAttrs {
  bool batch_first = false;  // where there are lengths: frames lie as (B, T, .., C)
  auto fields() const { return std::tuple{field("batch_first", batch_first)}; }
};

struct NormEpsAttrs {
  float eps = 1e-5f;
  auto fields() const { return std::tuple{field("eps", eps)}; }
};

struct NormStatistics {
  Val mean, rstd, variance;  // (C), of all ranks' rows
};
struct NormGradients {
  Val dx, dgamma, dbeta;  // these two of this rank's rows: gradients are summed later
};

// The nodes of an operator's `over_ranks`. x (.., C); with lengths (B) rows count in valid frames
// alone, else all do.
NormStatistics statistics_over_ranks(Val x, Val lengths, float eps, NormRowsAttrs attrs,
                                     int64_t ranks);
struct NormGradientOperands {
  Val dy, x, gamma, mean, rstd, lengths;
};
NormGradients gradients_over_ranks(const NormGradientOperands& in, NormRowsAttrs attrs,
                                   int64_t ranks);

// Places of operands in the parts: of lengths, which may be absent, and of what all ranks say.
constexpr size_t kLengthsOfMoments = 1, kLengthsOfSums = 4, kAllSums = 5, kLengthsOfApply = 6;

// What every rank says of its rows, (ranks, 2 C + 1): two numbers a channel, then how many rows (a
// float: beyond 2^24 it is rounded like the others). They are added up in the order of ranks, in
// double.
struct RankSums {
  const float* all;
  int64_t ranks, channels;

  PAL_HD const float* of(int64_t rank) const { return all + rank * (2 * channels + 1); }
  PAL_HD double rows(int64_t rank) const { return double(of(rank)[2 * channels]); }
  // Of all ranks; 1 where there is none.
  PAL_HD double all_rows() const {
    double n = 0;
    for (int64_t q = 0; q < ranks; ++q) n += rows(q);
    return n > 1 ? n : 1;
  }
  // Of the first numbers, C of them, or the second.
  PAL_HD double sum(int64_t c, bool second) const {
    double s = 0;
    for (int64_t q = 0; q < ranks; ++q) s += double(of(q)[second ? channels + c : c]);
    return s;
  }
  // Where they are means and squared distances from them: those of all rows (Chan et al. 1979).
  // Null: not wanted.
  PAL_HD void put_moments(int64_t c, float eps, float* mean, float* rstd, float* variance) const {
    const double n = all_rows();
    double center = 0, m2 = 0;
    for (int64_t q = 0; q < ranks; ++q) center += rows(q) * double(of(q)[c]);
    center /= n;
    for (int64_t q = 0; q < ranks; ++q) {
      const double distance = double(of(q)[c]) - center;
      m2 += double(of(q)[channels + c]) + rows(q) * distance * distance;
    }
    if (mean) mean[c] = float(center);
    if (rstd) rstd[c] = float(1 / std::sqrt(m2 / n + double(eps)));
    if (variance) variance[c] = float(m2 / (n > 2 ? n - 1 : 1));
  }
};

}  // namespace pal
