// What ranks exchange: pieces, wholes and sums, with ranks as threads; the tree of a sum; programs
// that would make ranks wait for each other.
#include "ops/exchange/exchange.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "core/builder.h"
#include "core/error.h"
#include "core/verify.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/sums/gates.h"
#include "ops/sums/square_tiles.h"
#include "tests/support/eval.h"
#include "tests/support/thread_group.h"

namespace pal {
namespace {

using test::as_ranks;
using test::Evaluator;

TEST(Pieces, HoldAllAndNoMoreThanAll) {
  for (int64_t n : {1, 5, 511, 512, 513, 4096, 5000, 1 << 20}) {
    for (int64_t ranks : {1, 2, 3, 4, 7, 64}) {
      const int64_t piece = piece_elements(n, ranks);
      EXPECT_GE(piece * ranks, n);
      EXPECT_LE(piece, n);
      if (piece < n) {
        EXPECT_EQ(piece % kPieceGrain, 0);
      }
      const Divided d{4 * n, 4 * piece};
      int64_t sum = 0;
      for (int q = 0; q < ranks; ++q) sum += d.bytes(q);
      EXPECT_EQ(sum, 4 * n);
      if (n >= ranks * kPieceGrain) {
        EXPECT_LT(piece, n / ranks + kPieceGrain);
      }
    }
  }
}

// Number i of rank q's tensor of so many elements.
float number(int rank, int64_t elements, int64_t i) {
  return float((i * 7 + rank * 13 + elements) % 101) - 50;
}

struct Sent {
  std::vector<std::vector<float>> outputs;
  int64_t bytes = 0;
};
// What every rank gets of make(xs), where x has so many elements.
std::vector<Sent> exchange(int ranks, const std::vector<int64_t>& sizes,
                           const std::function<std::vector<Val>(const std::vector<Val>&)>& make,
                           int per_node = 0) {
  std::vector<Sent> out(static_cast<size_t>(ranks));
  as_ranks(
      ranks,
      [&](std::shared_ptr<Group> group) {
        const int rank = group ? group->rank() : 0;
        Builder b;
        std::vector<Val> xs;
        for (size_t k = 0; k < sizes.size(); ++k) {
          xs.push_back(b.input("x" + std::to_string(k), {Shape{sizes[k]}}));
        }
        const std::vector<Val> ys = make(xs);
        for (size_t k = 0; k < ys.size(); ++k) b.output("y" + std::to_string(k), ys[k]);
        Device device = cpu_device(1);
        device.group = group;
        KernelCache cache(device);
        Evaluator eval(b.take(), {.cache = &cache});
        for (size_t k = 0; k < sizes.size(); ++k) {
          std::vector<float> x;
          for (int64_t i = 0; i < sizes[k]; ++i) x.push_back(number(rank, sizes[k], i));
          eval.set("x" + std::to_string(k), x);
        }
        eval.run();
        Sent& mine = out[size_t(rank)];
        for (size_t k = 0; k < ys.size(); ++k) {
          mine.outputs.push_back(eval.floats("y" + std::to_string(k)));
        }
        mine.bytes = group ? group->sent_bytes() : 0;
      },
      per_node);
  return out;
}

TEST(Exchange, RowsOfPieces) {
  const std::vector<int64_t> sizes{5, 1300, 4096};
  for (int ranks : {1, 2, 3, 4}) {
    const auto sent =
        exchange(ranks, sizes, [&](const std::vector<Val>& xs) { return all_to_all(xs, ranks); });
    for (int r = 0; r < ranks; ++r) {
      for (size_t k = 0; k < sizes.size(); ++k) {
        const int64_t n = sizes[k], piece = piece_elements(n, ranks);
        const std::vector<float>& rows = sent[size_t(r)].outputs[k];
        ASSERT_EQ(int64_t(rows.size()), ranks * piece);
        for (int q = 0; q < ranks; ++q) {
          for (int64_t i = 0; i < piece; ++i) {
            const int64_t at = r * piece + i;
            ASSERT_EQ(rows[size_t(q * piece + i)], at < n ? number(q, n, at) : 0)
                << ranks << " ranks, rank " << r << ", row " << q << ", element " << i;
          }
        }
      }
    }
  }
}

// Pieces that are summed and gathered are the whole sums; each rank sends what a ring would.
TEST(Exchange, SumsByPiecesAreSums) {
  const std::vector<int64_t> sizes{5, 1300, 4096};
  for (int ranks : {2, 3, 4}) {
    const auto by_tree = exchange(ranks, sizes, [&](const std::vector<Val>& xs) {
      std::vector<Val> pieces;
      std::vector<Shape> wholes;
      for (Val rows : all_to_all(xs, ranks)) pieces.push_back(pairwise_sum(rows));
      for (Val x : xs) wholes.push_back(x.shape());
      return all_gather(pieces, wholes, ranks);
    });
    const auto by_library =
        exchange(ranks, sizes, [&](const std::vector<Val>& xs) { return all_reduce(xs, ranks); });
    int64_t sent = 0;
    for (int r = 0; r < ranks; ++r) {
      for (size_t k = 0; k < sizes.size(); ++k) {
        std::vector<float> want(size_t(sizes[k]), 0);  // whole numbers: in any order the same
        for (int q = 0; q < ranks; ++q) {
          for (int64_t i = 0; i < sizes[k]; ++i) want[size_t(i)] += number(q, sizes[k], i);
        }
        EXPECT_EQ(by_tree[size_t(r)].outputs[k], want);
        EXPECT_EQ(by_library[size_t(r)].outputs[k], want);
      }
      sent += by_tree[size_t(r)].bytes;
    }
    // (N-1)/N of the bytes out and (N-1)/N back, of each of N ranks.
    EXPECT_EQ(sent, 2 * (ranks - 1) * 4 * (5 + 1300 + 4096));
  }
}

// Inside of machines first, then between them: the same pieces of the same sums, and as many bytes
// sent by each rank.
TEST(Exchange, SumsByLevelsAreSums) {
  const std::vector<int64_t> sizes{1, 5, 1024, 1300, 4096, 9000, 20000};
  for (const auto& [ranks, here] : {std::pair{4, 2}, {6, 2}, {8, 2}, {8, 4}, {8, 1}, {8, 8}}) {
    const auto flat = exchange(ranks, sizes, [&, n = ranks](const std::vector<Val>& xs) {
      std::vector<Val> pieces;
      for (Val rows : all_to_all(xs, n)) pieces.push_back(pairwise_sum(rows));
      return pieces;
    });
    const auto levels = exchange(
        ranks, sizes,
        [&, n = ranks, m = here](const std::vector<Val>& xs) {
          std::vector<Val> inside, pieces;
          std::vector<Shape> wholes;
          for (Val x : xs) wholes.push_back(x.shape());
          for (Val rows : all_to_all_inside(xs, n, m)) inside.push_back(pairwise_sum(rows));
          for (Val rows : all_to_all_between(inside, wholes, n, m))
            pieces.push_back(pairwise_sum(rows));
          return pieces;
        },
        here);
    int64_t sent = 0;
    for (size_t r = 0; r < flat.size(); ++r) {
      EXPECT_EQ(levels[r].outputs, flat[r].outputs) << ranks << " " << here << " " << r;
      sent += levels[r].bytes;
    }
    // Of every tensor all but a part: inside (M-1)/M of it by each rank, between (K-1)/K of 1/M.
    int64_t want = 0;
    for (const int64_t n : sizes) want += 4 * n * (ranks - 1);
    EXPECT_EQ(sent, want) << ranks << " " << here;
  }
}

TEST(Exchange, PiecesOfSums) {
  const std::vector<int64_t> sizes{5, 4000};
  const auto sums =
      exchange(3, sizes, [&](const std::vector<Val>& xs) { return reduce_scatter(xs, 3); });
  const auto pieces = exchange(3, sizes, [&](const std::vector<Val>& xs) {
    return std::vector<Val>{own_piece(all_reduce({xs[0]}, 3)[0], 3),
                            own_piece(all_reduce({xs[1]}, 3)[0], 3)};
  });
  for (size_t r = 0; r < 3; ++r) EXPECT_EQ(sums[r].outputs, pieces[r].outputs);
}

std::vector<float> tree(const std::vector<float>& rows, int64_t count) {
  const int64_t n = int64_t(rows.size()) / count;
  Builder b;
  b.output("y", pairwise_sum(b.input("x", {Shape{count, n}})));
  Evaluator eval(b.take());
  eval.set("x", rows);
  eval.run();
  return eval.floats("y");
}

// Of blocks of a power of two, and over them: the same bits as over all.
TEST(PairwiseSum, OfBlocksIsThatOfAll) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  constexpr int64_t n = 1000;
  for (int64_t count : {1, 2, 3, 4, 6, 8, 12, 13, 24}) {
    std::vector<float> rows(size_t(count * n));
    for (float& x : rows) x = normal(random);
    const std::vector<float> all = tree(rows, count);
    std::vector<float> in_turn(rows.begin(), rows.begin() + n);
    for (int64_t r = 1; r < count; ++r) {
      for (int64_t i = 0; i < n; ++i) in_turn[size_t(i)] += rows[size_t(r * n + i)];
    }
    if (count > 3) {
      EXPECT_NE(all, in_turn) << "a sum one after the other passes for a tree";
    }
    for (int64_t block = 1; block < count; block *= 2) {
      if (count % block != 0) continue;
      std::vector<float> sums;
      for (int64_t first = 0; first < count; first += block) {
        const std::vector<float> part(rows.begin() + first * n, rows.begin() + (first + block) * n);
        const std::vector<float> sum = tree(part, block);
        sums.insert(sums.end(), sum.begin(), sum.end());
      }
      EXPECT_EQ(tree(sums, count / block), all) << count << " rows in blocks of " << block;
    }
  }
}

// By way of tiles, of pieces, a sum of squares keeps its bits.
TEST(SquareTiles, OfPiecesAreThoseOfTheWhole) {
  for (const int64_t n : {5, 512, 1300, 16384, 40000}) {
    for (const int ranks : {1, 2, 3}) {
      const auto sums = exchange(ranks, {n}, [&](const std::vector<Val>& xs) {
        const Val x = scale(xs[0], 0.1f);
        if (ranks == 1) return std::vector<Val>{sum_of_squares(x), sum_tiles(square_tiles(x))};
        const Val whole = pairwise_sum(all_gather({x}, {Shape{ranks, n}}, ranks)[0]);
        const Val tiles = square_tiles(own_piece(whole, ranks));
        const Shape all{(n + kTile - 1) / kTile};
        return std::vector<Val>{sum_of_squares(whole),
                                sum_tiles(all_gather({tiles}, {all}, ranks)[0])};
      });
      for (const Sent& each : sums) EXPECT_EQ(each.outputs[0], each.outputs[1]) << n;
    }
  }
}

TEST(Exchange, NeedsItsRanks) {
  Builder b;
  b.output("y", all_reduce({b.input("x", {Shape{4}})}, 2)[0]);
  Evaluator eval(b.take());
  eval.set("x", {1, 2, 3, 4});
  try {
    eval.run();
    FAIL() << "a step of two ranks ran on one";
  } catch (const ProgramError& error) {
    EXPECT_NE(std::string(error.what()).find("for 2 ranks and there are 1"), std::string::npos)
        << error.what();
  }
}

// Two exchanges in another order on another rank would never end.
TEST(Exchange, KeepsItsOrder) {
  Builder b;
  const Val x = b.input("x", {Shape{4}}), y = b.input("y", {Shape{600}});
  b.output("a", all_reduce({x}, 2)[0]);
  b.output("b", all_reduce({y}, 2)[0]);
  Program program = b.take();
  EXPECT_NO_THROW(verify(program));
  EXPECT_EQ(program.node(1).waits, std::vector<NodeId>{0});
  EXPECT_THROW(verify(permuted(program, {1, 0})), ProgramError);
  Program forgotten = program;
  forgotten.node(1).waits.clear();
  EXPECT_THROW(verify(forgotten), ProgramError);
}

TEST(ThreadGroup, AnotherCallEndsAllWaiting) {
  EXPECT_THROW(as_ranks(2,
                        [](std::shared_ptr<Group> group) {
                          int64_t mine = 1, all[2];
                          group->share(&mine, all, group->rank() == 0 ? 8 : 4);
                        }),
               RankError);
}

}  // namespace
}  // namespace pal
