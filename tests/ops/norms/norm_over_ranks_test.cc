// Batch and frame norm over ranks as threads: against sums in f64 over the whole batch, with
// batches of any sizes and lengths; the same bits on every rank.
#include "ops/norms/norm_over_ranks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "core/builder.h"
#include "core/error.h"
#include "core/rewrite.h"
#include "ops/norms/batch_norm.h"
#include "ops/norms/frame_norm.h"
#include "tests/support/eval.h"
#include "tests/support/thread_group.h"

namespace pal::test {
namespace {

constexpr double kF32 = 1.0 / (1 << 24);  // half the distance of two floats, relative
constexpr float kEps = 1e-3f;

// Of one rank: x and dy (B, T, C), of which frames t < lengths[b] count.
struct RankBatch {
  int64_t batch, frames, channels;
  std::vector<float> x, dy, lengths;

  template <class F> void each_row(F f) const {
    for (int64_t row = 0; row < batch * frames; ++row) {
      if (float(row % frames) < lengths[size_t(row / frames)]) f(size_t(row * channels));
    }
  }
};

RankBatch made(int64_t batch, int64_t frames, int64_t channels, unsigned seed, float shift = 0) {
  std::mt19937 rng(seed);
  RankBatch r{batch, frames, channels, {}, {}, {}};
  std::uniform_real_distribution<float> spread(-2, 2);
  for (int64_t i = 0; i < batch * frames * channels; ++i) {
    r.x.push_back(shift + spread(rng)), r.dy.push_back(spread(rng) + 0.5f);
  }
  r.lengths.assign(size_t(batch), float(frames));
  return r;
}

struct Numbers {
  std::vector<float> y, mean, rstd, variance, dx, dgamma, dbeta;
};

// The parts that the operator has for so many ranks, with its operands in order.
std::vector<Val> append(Builder& b, const OpDef& op, const Attrs& attrs, int64_t ranks,
                        const std::vector<Val>& in) {
  Specs specs;
  for (Val v : in) specs.push_back(v.spec());
  const FusedPattern parts = op.over_ranks(specs, attrs, ranks);
  std::map<ValueId, Val> now;
  for (size_t i = 0; i < in.size(); ++i) now[parts.in[i]] = in[i];
  for (const Node& node : parts.program.nodes) {
    std::vector<Val> operands;
    for (ValueId v : node.in) operands.push_back(v == kNone ? Val{} : now.at(v));
    const std::vector<Val> made = b.emit(*node.op, operands, node.attrs);
    for (size_t i = 0; i < made.size(); ++i) now[node.out[i]] = made[i];
  }
  std::vector<Val> out;
  for (ValueId v : parts.out) out.push_back(now.at(v));
  return out;
}

// Rank by rank. `frames`: frame norm, else batch norm, of which all rows count.
std::vector<Numbers> run(const std::vector<RankBatch>& batches, bool frames,
                         DType type = DType::f32) {
  const auto ranks = int64_t(batches.size());
  std::vector<Numbers> out(batches.size());
  as_ranks(int(ranks), [&](std::shared_ptr<Group> group) {
    const size_t rank = group ? size_t(group->rank()) : 0;
    const RankBatch& r = batches[rank];
    Builder b;
    const TensorSpec spec{{r.batch, r.frames, r.channels}, type}, vector{{r.channels}};
    const Val x = b.input("x", spec), dy = b.input("dy", spec);
    const Val gamma = b.input("gamma", vector), beta = b.input("beta", vector);
    std::vector<Val> s, g;
    if (frames) {
      const Val lengths = b.input("lengths", {{r.batch}, DType::i32});
      const FrameNormAttrs attrs{kEps, true};
      s = append(b, frame_norm_op, attrs, ranks, {x, gamma, beta, lengths});
      g = append(b, frame_norm_grad_op, attrs, ranks, {dy, x, gamma, lengths, s[1], s[2]});
    } else {
      s = append(b, batch_norm_op, BatchNormAttrs{kEps}, ranks, {x, gamma, beta});
      g = append(b, batch_norm_grad_op, {}, ranks, {dy, x, gamma, s[1], s[2]});
    }
    for (const Val v : g) s.push_back(v);
    for (size_t i = 0; i < s.size(); ++i) b.output(std::to_string(i), s[i]);
    Device device = cpu_device(1);
    device.group = group;
    KernelCache cache(device);
    Evaluator eval(b.take(), {.cache = &cache});
    eval.set("x", r.x), eval.set("dy", r.dy);
    eval.set("gamma", made(1, 1, r.channels, 8, 3).x),
        eval.set("beta", made(1, 1, r.channels, 9).x);
    if (frames) eval.set("lengths", r.lengths);
    eval.run();
    const auto got = [&](int i) { return eval.floats(std::to_string(i)); };
    out[rank] = {got(0), got(1), got(2), got(3), got(4), got(5), got(6)};
  });
  return out;
}

// In f64 over all ranks' rows. A sum of floats may be off by so many roundings as a chunk has rows,
// and by one where it travels.
void expect_of_the_whole(const std::vector<RankBatch>& batches, const std::vector<Numbers>& got) {
  const auto channels = size_t(batches[0].channels);
  const std::vector<float> gamma = made(1, 1, int64_t(channels), 8, 3).x;
  const std::vector<float> beta = made(1, 1, int64_t(channels), 9).x;
  for (size_t c = 0; c < channels; ++c) {
    double rows = 0, mean = 0, m2 = 0, sum = 0, dot = 0, most = 0;
    for (const RankBatch& r : batches) {
      r.each_row([&](size_t at) {
        ++rows, mean += double(r.x[at + c]);
        most = std::max(most, std::abs(double(r.x[at + c])));
      });
    }
    const double n = std::max(rows, 1.0);
    mean /= n;
    for (const RankBatch& r : batches) {
      r.each_row([&](size_t at) { m2 += std::pow(double(r.x[at + c]) - mean, 2); });
    }
    const double rstd = 1 / std::sqrt(m2 / n + double(kEps));
    for (const RankBatch& r : batches) {
      r.each_row([&](size_t at) {
        sum += double(r.dy[at + c]), dot += double(r.dy[at + c]) * (double(r.x[at + c]) - mean);
      });
    }
    dot *= rstd;
    const double near = 64 * kF32;
    for (size_t q = 0; q < batches.size(); ++q) {
      const RankBatch& r = batches[q];
      const Numbers& own = got[q];
      EXPECT_NEAR(double(own.mean[c]), mean, near * most);
      EXPECT_NEAR(double(own.rstd[c]), rstd, near * rstd);
      EXPECT_NEAR(double(own.variance[c]), m2 / std::max(rows - 1, 1.0), near * (m2 / n));
      double own_sum = 0, own_dot = 0;
      std::vector<char> counts(r.x.size(), 0);
      r.each_row([&](size_t at) {
        counts[at + c] = 1;
        const double xhat = (double(r.x[at + c]) - mean) * rstd, dy = double(r.dy[at + c]);
        own_sum += dy, own_dot += dy * xhat;
        const double scale = double(gamma[c]) * rstd, off = near * (1 + most * rstd);
        ASSERT_NEAR(double(own.y[at + c]), double(gamma[c]) * xhat + double(beta[c]), 6 * off);
        ASSERT_NEAR(double(own.dx[at + c]), scale * (dy - sum / n - xhat * dot / n),
                    6 * scale * off);
      });
      const double many = double(r.x.size() / channels) + 1;
      EXPECT_NEAR(double(own.dbeta[c]), own_sum, near * many);
      EXPECT_NEAR(double(own.dgamma[c]), own_dot, near * many * (1 + most * rstd));
      for (size_t at = c; at < counts.size(); at += channels) {
        if (counts[at]) continue;
        ASSERT_EQ(own.y[at], 0);
        ASSERT_EQ(own.dx[at], 0);
      }
    }
  }
}

void expect_one_statistic(const std::vector<Numbers>& all) {
  for (const Numbers& rank : all) {
    EXPECT_EQ(rank.mean, all[0].mean);
    EXPECT_EQ(rank.rstd, all[0].rstd);
    EXPECT_EQ(rank.variance, all[0].variance);
  }
}

TEST(NormOverRanks, BatchNormIsThatOfTheWholeBatch) {
  for (const int ranks : {1, 2, 3, 4, 8}) {
    std::vector<RankBatch> batches;
    for (int q = 0; q < ranks; ++q) batches.push_back(made(3, 50, 7, unsigned(q), float(q)));
    const std::vector<Numbers> got = run(batches, false);
    expect_of_the_whole(batches, got);
    expect_one_statistic(got);
  }
}

// Batches of other sizes, sequences of other lengths; ranks of which no frame counts.
TEST(NormOverRanks, FramesAreCountedWhereverTheyAre) {
  std::vector<RankBatch> batches{made(3, 40, 5, 1), made(3, 20, 5, 2, 1), made(2, 30, 5, 3, -2)};
  batches[0].lengths = {40, 7, 0}, batches[1].lengths = {1, 20, 3}, batches[2].lengths = {0, 0};
  const std::vector<Numbers> got = run(batches, true);
  expect_of_the_whole(batches, got);
  expect_one_statistic(got);
  for (RankBatch& r : batches) r.lengths.assign(r.lengths.size(), 0);
  const std::vector<Numbers> none = run(batches, true);
  expect_of_the_whole(batches, none);
  for (const float x : none[0].variance) EXPECT_EQ(x, 0);
}

// Every rank holds its mean and its distances from that, so none of it cancels.
TEST(NormOverRanks, VarianceSurvivesALargeMean) {
  std::vector<RankBatch> batches;
  for (int q = 0; q < 4; ++q) batches.push_back(made(2, 100, 3, unsigned(q), 4096));
  const std::vector<Numbers> got = run(batches, false);
  for (size_t c = 0; c < 3; ++c) {
    double mean = 0, m2 = 0, n = 0;
    for (const RankBatch& r : batches) {
      r.each_row([&](size_t at) { mean += double(r.x[at + c]), ++n; });
    }
    mean /= n;
    for (const RankBatch& r : batches) {
      r.each_row([&](size_t at) { m2 += std::pow(double(r.x[at + c]) - mean, 2); });
    }
    EXPECT_NEAR(double(got[0].variance[c]), m2 / (n - 1), 1e-5 * m2 / n);
  }
}

// In 16 bits statistics are those of the rounded x, in f32.
TEST(NormOverRanks, TakesSixteenBits) {
  std::vector<RankBatch> batches;
  for (int q = 0; q < 2; ++q) batches.push_back(made(3, 30, 5, unsigned(q), float(q)));
  for (RankBatch& r : batches) {
    for (float& x : r.x) x = std::round(x * 16) / 16;  // held exactly
  }
  const std::vector<Numbers> exact = run(batches, false), half = run(batches, false, DType::bf16);
  for (size_t q = 0; q < 2; ++q) {
    EXPECT_EQ(exact[q].mean, half[q].mean);
    EXPECT_EQ(exact[q].rstd, half[q].rstd);
    for (size_t i = 0; i < exact[q].y.size(); ++i) {
      ASSERT_NEAR(exact[q].y[i], half[q].y[i], std::abs(exact[q].y[i]) / 200 + 1e-6f);
    }
  }
}

// A length for each sequence, wherever the batch's axis is.
TEST(NormOverRanks, RefusesLengthsOfAnotherBatch) {
  const TensorSpec x{{4, 3, 5}}, vector{{5}}, all{{2, 11}};
  const std::pair<const OpDef*, Specs> parts[] = {
      {&norm_moments_op, {x}},
      {&norm_gradient_sums_op, {x, x, vector, vector}},
      {&norm_gradient_apply_op, {x, x, vector, vector, vector, all}}};
  for (const auto& part : parts) {
    const OpDef* const op = part.first;
    const Specs& operands = part.second;
    for (const bool batch_first : {false, true}) {
      const auto takes = [&](const TensorSpec& lengths) {
        Specs in = operands;
        in.push_back(lengths);
        try {
          infer_specs(*op, in, NormRowsAttrs{batch_first});
        } catch (const ProgramError&) {
          return false;
        }
        return true;
      };
      const int64_t batch = batch_first ? 4 : 3;
      EXPECT_TRUE(takes({{batch}, DType::i32})) << op->name;
      EXPECT_FALSE(takes({{7 - batch}, DType::i32})) << op->name;
      EXPECT_FALSE(takes({{batch}})) << op->name;
      EXPECT_FALSE(takes({{batch, 1}, DType::i32})) << op->name;
    }
  }
}

}  // namespace
}  // namespace pal::test
