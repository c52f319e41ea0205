// PQ trees against all orders of a few leaves.
#include "memory/place/search/pq_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <random>
#include <set>

namespace pal::test {
namespace {

using LeafOrder = std::vector<PqTree::Leaf>;

std::vector<LeafOrder> all_orders(int n) {
  LeafOrder order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), PqTree::Leaf{0});
  std::vector<LeafOrder> all;
  do all.push_back(order);
  while (std::next_permutation(order.begin(), order.end()));
  return all;
}

bool lie_side_by_side(const LeafOrder& order, const LeafOrder& leaves) {
  size_t first = order.size(), last = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    if (std::find(leaves.begin(), leaves.end(), order[i]) == leaves.end()) continue;
    first = std::min(first, i), last = i;
  }
  return last - first + 1 == leaves.size();
}

// The orders that a tree stands for: those that it gives back when their ranks are asked for.
std::set<LeafOrder> orders_of(const PqTree& tree, int n) {
  std::set<LeafOrder> out;
  for (const LeafOrder& order : all_orders(n)) {
    std::vector<int32_t> rank(size_t(n), 0);
    for (size_t i = 0; i < order.size(); ++i) rank[size_t(order[i])] = int32_t(i);
    out.insert(tree.order(rank));
  }
  return out;
}

LeafOrder random_subset(std::mt19937_64& random, int n) {
  LeafOrder out;
  while (out.size() < 2) {
    out.clear();
    for (int i = 0; i < n; ++i) {
      if (random() % 3 == 0) out.push_back(PqTree::Leaf(i));
    }
  }
  return out;
}

std::vector<double> log_factorials() {
  std::vector<double> out{0, 0};
  for (int i = 2; i < 20; ++i) out.push_back(out.back() + std::log(double(i)));
  return out;
}

LeafOrder leaves_to(int n) { return all_orders(n)[0]; }

TEST(PqTree, StandsForTheOrdersInWhichSetsLieSideBySide) {
  std::mt19937_64 random(1);
  std::vector<char> marked(8, 0);
  int impossible = 0, q_nodes = 0;
  for (int round = 0; round < 150; ++round) {
    const int n = 3 + round % 5;
    PqTree tree(leaves_to(n));
    std::vector<LeafOrder> left = all_orders(n);
    while (true) {
      const LeafOrder set = random_subset(random, n);
      std::erase_if(left, [&](const LeafOrder& order) { return !lie_side_by_side(order, set); });
      const bool possible = tree.gather(set, marked);
      ASSERT_EQ(possible, !left.empty()) << "round " << round;
      ASSERT_EQ(std::count(marked.begin(), marked.end(), 1), 0);
      impossible += !possible;
      if (!possible) break;
      ASSERT_EQ(orders_of(tree, n), std::set<LeafOrder>(left.begin(), left.end()))
          << "round " << round;
      ASSERT_NEAR(tree.log_orders(log_factorials()), std::log(double(left.size())), 1e-9);
      q_nodes += left.size() == 2 && n > 3;
      if (left.size() <= 2) break;
    }
  }
  EXPECT_GT(impossible, 20);
  EXPECT_GT(q_nodes, 20);
}

TEST(PqTree, IntersectsToTheOrdersThatBothAllow) {
  std::mt19937_64 random(2);
  std::vector<char> marked(8, 0);
  int none = 0, some = 0;
  for (int round = 0; round < 300; ++round) {
    const int n = 4 + round % 4;
    PqTree a(leaves_to(n)), b(leaves_to(n));
    for (PqTree* tree : {&a, &b}) {
      for (int i = 0; i < 3; ++i) {
        PqTree next = *tree;
        if (next.gather(random_subset(random, n), marked)) *tree = next;
      }
    }
    const std::set<LeafOrder> ours = orders_of(a, n), theirs = orders_of(b, n);
    std::set<LeafOrder> both;
    std::set_intersection(ours.begin(), ours.end(), theirs.begin(), theirs.end(),
                          std::inserter(both, both.end()));
    ASSERT_EQ(a.intersect(b, marked), !both.empty()) << "round " << round;
    (both.empty() ? none : some) += 1;
    if (!both.empty()) {
      ASSERT_EQ(orders_of(a, n), both) << "round " << round;
    }
  }
  EXPECT_GT(none, 10);
  EXPECT_GT(some, 40);
}

LeafOrder orders_from(const PqTree& tree) {
  return tree.order(std::vector<int32_t>{0, 1, 1, 1, 4, 2, 3});
}

// 1, 2 and 3 lie side by side, and 5, 6 come in their place: then 5 and 6 do.
TEST(PqTree, PutsLeavesInThePlaceOfOthers) {
  std::vector<char> marked(8, 0);
  PqTree tree(leaves_to(5));
  ASSERT_TRUE(tree.gather(LeafOrder{2, 3, 4}, marked));
  ASSERT_TRUE(tree.replace(LeafOrder{1, 2, 3}, LeafOrder{5, 6}, marked));  // leaves 4 beside them
  // 0 beside {5 6} 4 or 4 {5 6}, on either side, 5 and 6 in any order.
  EXPECT_NEAR(tree.log_orders(log_factorials()), std::log(8.0), 1e-9);
  EXPECT_TRUE(tree.gather(LeafOrder{0, 5}, marked));
  EXPECT_FALSE(PqTree(tree).gather(LeafOrder{4, 5}, marked));
  EXPECT_EQ(orders_from(tree), (LeafOrder{0, 5, 6, 4}));
}

TEST(PqTree, EqualTreesHashAlike) {
  std::vector<char> marked(8, 0);
  const std::vector<uint64_t> kind{11, 12, 13, 14, 14, 16, 17, 18};
  PqTree a(leaves_to(6)), b(LeafOrder{5, 4, 3, 2, 1, 0});
  EXPECT_EQ(a.hash(kind), b.hash(kind));
  ASSERT_TRUE(a.gather(LeafOrder{0, 1, 2}, marked) && a.gather(LeafOrder{2, 3}, marked));
  EXPECT_NE(a.hash(kind), b.hash(kind));
  ASSERT_TRUE(b.gather(LeafOrder{3, 2}, marked) && b.gather(LeafOrder{2, 1, 0}, marked));
  EXPECT_EQ(a.hash(kind), b.hash(kind));
  PqTree c(leaves_to(6));  // as a, but for leaves 3 and 4, which are alike
  ASSERT_TRUE(c.gather(LeafOrder{0, 1, 2}, marked) && c.gather(LeafOrder{2, 4}, marked));
  EXPECT_EQ(a.hash(kind), c.hash(kind));
}

}  // namespace
}  // namespace pal::test
