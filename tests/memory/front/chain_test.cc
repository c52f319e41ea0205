// Plans of chains against all there are: every tree of steps, counted by the rules of the header.
#include "memory/front/chain.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>

namespace pal::test {
namespace {

// A tree of steps without tables; `until` 0: the first block is kept, in `variant`.
struct Tree {
  int first = 0, last = 0, until = 0, variant = 0;
  std::shared_ptr<const Tree> rest, before;
  bool kept_leaves = false, border_leaves = false;
};
using Trees = std::vector<std::shared_ptr<const Tree>>;

bool is_linked(const pal::Chain& chain) { return chain.blocks.front().carried > 0; }

// Whatever may be on the host while the rest of these trees runs, in the forward pass.
Trees with_copies(const pal::Chain& chain, const Trees& trees) {
  Trees out;
  for (const auto& tree : trees) {
    const bool keeps = tree->until == 0;
    const ChainVariant* v =
        keeps ? &chain.blocks[size_t(tree->first)].variants[size_t(tree->variant)] : nullptr;
    for (const bool kept : {false, true}) {
      for (const bool border : {false, true}) {
        if (kept && (!v || v->may_leave == 0)) continue;
        if (border && (tree->first == 0 || (v && !v->reads_border))) continue;
        if ((kept || border) && !tree->rest) continue;
        Tree other = *tree;
        other.kept_leaves = kept, other.border_leaves = border;
        out.push_back(std::make_shared<Tree>(std::move(other)));
      }
    }
  }
  return out;
}

Trees all_trees(const pal::Chain& chain, int s, int t, bool first = false) {
  Trees out;
  const int variants = int(chain.blocks[size_t(s)].variants.size());
  for (int v = 0; v < variants; ++v) {
    const int next = s + chain.blocks[size_t(s)].variants[size_t(v)].length;
    if (next > t) {
      if (next == t + 1) {
        out.push_back(std::make_shared<Tree>(Tree{s, t, 0, v, nullptr, nullptr}));
      }
      continue;
    }
    for (const auto& rest : all_trees(chain, next, t, first)) {
      out.push_back(std::make_shared<Tree>(Tree{s, t, 0, v, rest, nullptr}));
    }
  }
  for (int until = s + 1; until <= t; ++until) {
    const Trees before = all_trees(chain, s, until - 1);
    for (const auto& rest : all_trees(chain, until, t, first)) {
      for (const auto& b : before) {
        out.push_back(std::make_shared<Tree>(Tree{s, t, until, 0, rest, b}));
      }
    }
  }
  return first && is_linked(chain) ? with_copies(chain, out) : out;
}

struct Counted {
  int64_t bytes = 0;
  double ms = 0;
};

// What is kept is a list by now; bytes are summed anew at each event.
class Play {
 public:
  explicit Play(const pal::Chain& chain) : chain_(chain) {}

  Counted run(const Tree& tree) {
    play(tree, true, 0);
    return out_;
  }

 private:
  void alive(int64_t more) {
    int64_t sum = more;
    for (const int64_t bytes : kept_) sum += bytes;
    out_.bytes = std::max(out_.bytes, sum);
  }

  // What the link still has to do when what follows the blocks first..next-1 begins.
  int64_t waiting(const Tree& tree, int next, int64_t before) const {
    const ChainBlock& block = chain_.blocks[size_t(tree.first)];
    if (tree.kept_leaves) before += block.variants[size_t(tree.variant)].to_copy;
    if (tree.border_leaves) before += chain_.blocks[size_t(tree.first - 1)].border_to_copy;
    for (int k = tree.first; k < next; ++k) before -= chain_.blocks[size_t(k)].carried;
    return std::max<int64_t>(0, before);
  }

  void play(const Tree& tree, bool forward_phase, int64_t backlog) {
    kept_.push_back(backlog);
    play_beside(tree, forward_phase, backlog);
    kept_.pop_back();
  }

  void play_beside(const Tree& tree, bool forward_phase, int64_t backlog) {
    const int64_t beside = forward_phase ? chain_.base : chain_.blocks[size_t(tree.last)].base;
    const double again = forward_phase ? 0 : 1;
    const size_t held = kept_.size();
    if (tree.until > 0) {
      for (int k = tree.first; k < tree.until; ++k) {
        const int64_t read = k > tree.first ? chain_.blocks[size_t(k - 1)].border : 0;
        alive(beside + chain_.blocks[size_t(k)].pass_peak + read);
        out_.ms += again * chain_.blocks[size_t(k)].pass_ms;
      }
      kept_.push_back(chain_.blocks[size_t(tree.until - 1)].border - backlog);
      if (tree.border_leaves) kept_.push_back(-chain_.blocks[size_t(tree.first - 1)].border);
      play(*tree.rest, forward_phase, waiting(tree, tree.until, backlog));
      kept_.resize(held);
      play(*tree.before, false, 0);
      return;
    }
    const ChainBlock& block = chain_.blocks[size_t(tree.first)];
    const ChainVariant& v = block.variants[size_t(tree.variant)];
    alive(beside + v.forward_peak);
    out_.ms += again * v.forward_ms + v.again_ms;
    if (tree.first > 0 && !v.reads_border) {
      kept_.push_back(-chain_.blocks[size_t(tree.first - 1)].border);
    }
    const size_t without = kept_.size();
    if (tree.rest) {
      kept_.push_back(v.kept + chain_.blocks[size_t(tree.first + v.length - 1)].border - backlog);
      if (tree.kept_leaves) kept_.push_back(-v.may_leave);
      if (tree.border_leaves) kept_.push_back(-chain_.blocks[size_t(tree.first - 1)].border);
      play(*tree.rest, forward_phase, waiting(tree, tree.first + v.length, backlog));
      kept_.resize(without);
    }
    alive(v.backward_peak);
    kept_.resize(held);
  }

  const pal::Chain& chain_;
  std::vector<int64_t> kept_;
  Counted out_;
};

pal::Chain random_chain(uint64_t seed, int blocks, bool link = false) {
  std::mt19937_64 random(seed);
  const auto below = [&](int64_t n) { return int64_t(random() % uint64_t(n)); };
  pal::Chain chain{.blocks = {}, .base = below(4)};
  for (int k = 0; k < blocks; ++k) {
    ChainBlock block{.variants = {},
                     .border = k + 1 < blocks ? 1 + below(3) : 0,
                     .pass_peak = 1 + below(5),
                     .pass_ms = double(1 + below(8)),
                     .base = below(4)};
    for (int64_t v = 0; v < 1 + below(2); ++v) {
      const int64_t kept = below(8);
      block.variants.push_back({.kept = kept,
                                .forward_peak = block.pass_peak + kept,
                                .backward_peak = kept + 1 + below(6),
                                .forward_ms = block.pass_ms + double(below(2)),
                                .again_ms = double(below(6)),
                                .reads_border = below(3) > 0,
                                .length = v == 0 || k + 1 == blocks ? 1 : 1 + int(below(2))});
    }
    if (link) {
      // What a copy costs beyond its bytes may be much: then the link is what there is too little
      // of.
      const int64_t beyond = seed % 2 == 0 ? 2 : 5;
      block.carried = 1 + below(3);
      block.border_to_copy = block.border + below(beyond);
      for (ChainVariant& v : block.variants) {
        v.may_leave = below(v.kept + 1), v.to_copy = v.may_leave + below(beyond);
      }
    }
    chain.blocks.push_back(std::move(block));
  }
  return chain;
}

TEST(Chains, NoTreeIsBetter) {
  int reruns = 0, twice = 0, copies = 0;
  for (uint64_t seed = 0; seed < 450; ++seed) {
    const bool link = seed >= 300;
    const pal::Chain chain = random_chain(seed, 1 + int(seed % (link ? 4 : 5)), link);
    const int last = int(chain.blocks.size()) - 1;
    std::vector<Counted> all;
    for (const auto& tree : all_trees(chain, 0, last, true)) all.push_back(Play(chain).run(*tree));
    // More slots than bytes: nothing is rounded.
    const std::vector<ChainPlan> plans = plan_chain(chain, 2000, 2000);
    ASSERT_FALSE(plans.empty()) << seed;
    int64_t most = 0;
    for (const Counted& each : all) most = std::max(most, each.bytes);
    for (int64_t budget = 0; budget <= most; ++budget) {
      double best = std::numeric_limits<double>::infinity(), found = best;
      for (const Counted& each : all) {
        if (each.bytes <= budget) best = std::min(best, each.ms);
      }
      for (const ChainPlan& plan : plans) {
        if (plan.bytes <= budget) found = std::min(found, plan.added_ms);
      }
      ASSERT_EQ(found, best) << "seed " << seed << " in " << budget;
    }
    for (const ChainPlan& plan : plans) {
      copies += plan.copied > 0;
      std::vector<int> passes(chain.blocks.size(), 0);
      for (const ChainStep& step : plan.steps) {
        if (step.kind != ChainStep::Kind::pass) continue;
        ++reruns;
        for (int k = step.first; k < step.until; ++k) twice += ++passes[size_t(k)] > 1;
      }
    }
  }
  EXPECT_GT(reruns, 100);
  EXPECT_GT(twice, 10);
  EXPECT_GT(copies, 100);
}

// Whatever the slots round: a plan's own figures are those of its steps.
TEST(Chains, CoarseSlotsStillCountExactly) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const pal::Chain chain = random_chain(seed, 5, seed % 2 == 0);
    for (ChainPlan plan : plan_chain(chain, 10, 4)) {
      const int64_t bytes = plan.bytes, copied = plan.copied;
      const double ms = plan.added_ms;
      count_chain(chain, plan);
      ASSERT_EQ(plan.bytes, bytes) << seed;
      ASSERT_EQ(plan.added_ms, ms) << seed;
      ASSERT_EQ(plan.copied, copied) << seed;
    }
  }
}

// Eight equal blocks, room for two borders: the recursion of checkpointing in logarithmic memory.
TEST(Chains, BordersAreRebuiltFromEarlierOnes) {
  pal::Chain chain;
  for (int k = 0; k < 8; ++k) {
    chain.blocks.push_back(
        {.variants =
             {{.kept = 5, .forward_peak = 5, .backward_peak = 6, .forward_ms = 1},
              {.kept = 0, .forward_peak = 1, .backward_peak = 6, .forward_ms = 1, .again_ms = 1}},
         .border = k < 7 ? 1 : 0,
         .pass_peak = 1,
         .pass_ms = 1,
         .base = 1});
  }
  const std::vector<ChainPlan> plans = plan_chain(chain, 100, 1000);
  ASSERT_FALSE(plans.empty());
  // One border beside the block at work at a time: 8 + 7 + ... would run; with two far fewer do.
  EXPECT_EQ(plans.front().bytes, 7);
  EXPECT_GT(plans.front().added_ms, 15);
  EXPECT_EQ(plans.back().added_ms, 0);
  for (size_t i = 1; i < plans.size(); ++i) {
    EXPECT_LT(plans[i].added_ms, plans[i - 1].added_ms);
    EXPECT_GT(plans[i].bytes, plans[i - 1].bytes);
  }
}

// What leaves a link without an end is nowhere.
TEST(Chains, AFastLinkCarriesAll) {
  pal::Chain chain;
  for (int k = 0; k < 6; ++k) {
    chain.blocks.push_back({.variants = {{.kept = 5,
                                          .may_leave = 5,
                                          .to_copy = 5,
                                          .forward_peak = 5,
                                          .backward_peak = 6,
                                          .forward_ms = 1}},
                            .border = k < 5 ? 1 : 0,
                            .pass_peak = 1,
                            .pass_ms = 1,
                            .base = 1,
                            .border_to_copy = 1,
                            .carried = int64_t{1} << 60});
  }
  const std::vector<ChainPlan> plans = plan_chain(chain, 100, 1000);
  const auto free = std::find_if(plans.begin(), plans.end(), [](const ChainPlan& plan) {
    return plan.added_ms == 0 && plan.copied > 0;
  });
  ASSERT_NE(free, plans.end());
  EXPECT_EQ(free->bytes, 7);  // a block and its border
}

TEST(Chains, NothingToPlan) {
  EXPECT_TRUE(plan_chain({}, 10).empty());
  const pal::Chain one{.blocks = {{.variants = {{.backward_peak = 3}}}}};
  EXPECT_TRUE(plan_chain(one, 0).empty());
  ASSERT_EQ(plan_chain(one, 10).size(), 1u);
  EXPECT_EQ(plan_chain(one, 10).front().bytes, 3);
}

}  // namespace
}  // namespace pal::test
