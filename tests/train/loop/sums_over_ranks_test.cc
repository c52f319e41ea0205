// Sums of gradients over ranks, of whole numbers, which are exact in whatever order.
#include "train/loop/sums_over_ranks.h"

#include <gtest/gtest.h>

#include "ops/kernels/ranks.h"
#include "tests/support/eval.h"
#include "tests/support/thread_group.h"

namespace pal::test {
namespace {

constexpr int kSumRanks = 4;
constexpr int64_t kGradients[] = {2000, 5, 700};  // elements of each

float gradient(int rank, int64_t elements, int64_t i) {
  return float((i * 7 + rank * 5 + elements) % 9) - 4;
}
float summed_gradient(int64_t elements, int64_t i) {
  float sum = 0;
  for (int rank = 0; rank < kSumRanks; ++rank) sum += gradient(rank, elements, i);
  return sum;
}

// What one rank has of the sums, which travel one by one, and of their squares.
void expect_sums(const std::shared_ptr<Group>& group, Shard shard) {
  TrainConfig config;
  config.accumulate = kSumRanks, config.reduction = "ordered", config.shard = shard;
  const Update update(config, kSumRanks, group->per_node());
  Builder b;
  std::vector<Val> gradients;
  for (const int64_t n : kGradients) {
    gradients.push_back(b.input("x" + std::to_string(n), {Shape{n}}));
  }
  const std::vector<Val> sums = sum_over_ranks(b, gradients, update, 1);
  ASSERT_EQ(sums.size(), gradients.size());
  std::vector<Val> squares;
  if (update.has_pieces()) {
    squares = squares_of_pieces(sums, gradients, update);
    ASSERT_EQ(squares.size(), sums.size());
  }
  for (size_t k = 0; k < sums.size(); ++k) {
    b.output("sum" + std::to_string(k), sums[k]);
    if (update.has_pieces()) b.output("squares" + std::to_string(k), squares[k]);
  }
  Device device = cpu_device(1);
  device.group = group;
  KernelCache cache(device);
  Evaluator eval(b.take(), {.cache = &cache});
  for (const int64_t n : kGradients) {
    std::vector<float> own;
    for (int64_t i = 0; i < n; ++i) own.push_back(gradient(group->rank(), n, i));
    eval.set("x" + std::to_string(n), own);
  }
  eval.run();
  for (size_t k = 0; k < sums.size(); ++k) {
    const int64_t n = kGradients[k];
    const std::vector<float> sum = eval.floats("sum" + std::to_string(k));
    const int64_t piece = update.has_pieces() ? piece_elements(n, kSumRanks) : n;
    const int64_t begin = update.has_pieces() ? group->rank() * piece : 0;
    ASSERT_EQ(int64_t(sum.size()), piece);
    for (int64_t i = 0; i < piece && begin + i < n; ++i) {
      ASSERT_EQ(sum[size_t(i)], summed_gradient(n, begin + i)) << n << ": " << begin + i;
    }
    if (!update.has_pieces()) continue;
    float all = 0;
    for (int64_t i = 0; i < n; ++i) all += summed_gradient(n, i) * summed_gradient(n, i);
    EXPECT_EQ(eval.floats("squares" + std::to_string(k)), std::vector<float>{all}) << n;
  }
}

TEST(SumsOverRanks, AreWholeOrEachRanksPieceOnOneMachineAndOnTwo) {
  for (const Shard shard : {Shard::none, Shard::optimizer}) {
    for (const int per_node : {kSumRanks, kSumRanks / 2}) {
      as_ranks(
          kSumRanks,
          [&](const std::shared_ptr<Group>& group) {
            SCOPED_TRACE(std::to_string(int(shard)) +
                         ", ranks a node: " + std::to_string(per_node));
            expect_sums(group, shard);
          },
          per_node);
    }
  }
}

}  // namespace
}  // namespace pal::test
