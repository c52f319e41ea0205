// Which blocks of a chain keep what, and which run again from which border: a dynamic program over
// bytes and segments.
//
// A chain is a step cut at borders that few bytes cross: block k reads border k-1, makes border k,
// and its gradients run after those of block k+1. The forward pass runs through all blocks once. Of
// each it keeps what one of the block's variants says, or nothing but borders. A segment of which
// only its first border was kept is run again when the gradients of its last block are due, and on
// that way keeps borders and variants anew; so a block may run many times.
//
//   C(s,t,m)  the least time added by the gradients of blocks t..s, while border s-1 is kept and m
//             bytes are free:
//     keep v  F(s,v) + C(e+1, t, m - kept(s,v) - border(e)) + R(s,v), of the blocks s..e
//     split   pass(s..j-1) + C(j, t, m - border(j-1)) + C(s, j-1, m)
//
// With a link, what a block keeps in the forward pass and the border that it reads may leave for
// the host until the gradients are due. Then they are not among what follows, but for what the link
// has not carried yet (the backlog), which is held beside all: it grows by what leaves, and shrinks
// by what the link carries while a block runs. What comes back must be there when gradients are
// due, so that the same bytes wait, the other way round, while gradients run. Copies take no time.
//
// F: running the block again so that variant v has what it keeps; R: what its gradients run again
// of the block; pass: making the border alone. In the forward pass F and pass take no time. Where
// bytes do not suffice for what runs, a choice does not exist; of a pass, every block but the first
// also holds the border that it reads. Beaumont et al. 2019 (optimal
// checkpointing for heterogeneous chains, rotor), with variants as in Rockmate (Zhao et al. 2023)
// and copies as in POFO (Beaumont et al. 2021), which lets compute wait for them.
#pragma once
#include <cstdint>
#include <limits>
#include <vector>

namespace pal {

// Peaks are bytes alive beside all that earlier blocks keep and the border that the block reads.
struct ChainVariant {
  int64_t kept = 0;           // between the block's forward and backward pass
  int64_t may_leave = 0;      // of these, for the host
  int64_t to_copy = 0;        // then, by the link: these, and what a copy costs beyond its bytes
  int64_t forward_peak = 0;   // less Chain::base
  int64_t backward_peak = 0;  // with what is kept
  double forward_ms = 0;      // F
  double again_ms = 0;        // R; below 0 where gradients are faster so
  bool reads_border = true;   // else the border that it reads may be forgotten
  int length = 1;             // blocks that it takes as one: borders inside are like other values
};

struct ChainBlock {
  std::vector<ChainVariant> variants;  // that begin with it; one of its own at least
  int64_t border = 0;                  // what it makes for the next block; 0 of the last
  int64_t pass_peak = 0;               // of making it, less Chain::base
  double pass_ms = 0;
  int64_t base = 0;            // alive when its gradients are due, beside all that blocks keep
  int64_t border_to_copy = 0;  // as a variant's
  int64_t carried = 0;         // by the link while it runs, each way; all 0: nothing leaves
};

struct Chain {
  std::vector<ChainBlock> blocks;
  int64_t base = 0;  // alive in the forward pass, likewise
};

// What is done with the blocks first..last, in the order of time. The gradients of a block run
// after what its node's `rest` does.
struct ChainStep {
  enum class Kind : uint8_t {
    keep,  // block `first` in a variant, then `rest` of what follows it, then its gradients
    pass   // blocks first..until-1 for their last border, then `rest` of until..last, then `before`
  } kind = Kind::keep;
  int first = 0, last = 0, until = 0, variant = 0;
  int rest = -1, before = -1;  // ChainPlan::steps; -1: none
  // On the host while `rest` runs: what the variant keeps, and the border that block `first` reads.
  bool kept_leaves = false, border_leaves = false;
};

struct ChainPlan {
  std::vector<ChainStep> steps;  // the first is the whole
  int64_t bytes = 0;             // the peak, by the chain's own bytes
  double added_ms = 0;
  int64_t copied = 0;  // each way
};

// The best plans for up to `most` budgets of the chain, a geometric grid from the least that any
// plan takes to what is needed without reruns, each once; ascending in bytes. Bytes count in
// `slots` of that range, rounded to the nearest, so a plan may be a little off its budget; its own
// bytes are exact sums. With a link: first those without copies, then so many with.
std::vector<ChainPlan> plan_chain(const Chain& chain, int most, int slots = 800);

// What a plan comes to: its bytes and time, from its steps.
void count_chain(const Chain& chain, ChainPlan& plan);

}  // namespace pal
