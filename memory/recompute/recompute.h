// Recomputation: forward values that the backward pass makes again instead of keeping them.
//
// A method decides which values; insert_clones does it. A clone is the forward node once more, with
// the same attributes (so a random operator draws the same bits), in the recompute phase, just
// before the first backward node that needs it. It reads clones where its operands are recomputed
// too, and otherwise the originals, which are thereby stashed. Whatever set of values is chosen,
// results are the same bits; only bytes and time differ.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/names.h"
#include "core/op.h"
#include "core/program.h"

namespace pal {

enum class Recompute : uint8_t {
  none,
  mirror,  // Chen et al. 2016, section 4.3: everything that is cheap
  sqrt,    // Chen et al. 2016, section 4.1: all but what crosses the borders of sqrt(n) segments
  echo,    // Zheng et al. 2020, Algorithm 1 (memory/recompute/echo.h)
};
constexpr auto names(Recompute) { return std::array{"none", "mirror", "sqrt", "echo"}; }

struct RecomputeOptions {
  // A node is compute-heavy when it does at least so many flops for each byte that it moves. On the
  // papers' cards (10 to 14 Tflop/s, 340 to 900 GB/s) arithmetic, not memory, begins to bound a
  // kernel between 16 and 39. Elementwise and row-wise operators stay below 6, recurrent layers'
  // products are above 45; a 1x1 convolution of few channels (64 to 256: 26) moves its result in
  // the time that it takes, and is as cheap to run again as a sum. mirror and sqrt: at most 12.
  double heavy = 32;
  // echo: where all that is worth it takes less than `overhead`, heavy means so much, and the rest
  // of the time goes to products of 256 to 512 channels, if a per cent of it saves one of the
  // footprint.
  double heavier = 128;
  // echo: a node is recomputed only where that saves one byte for every so many that it moves. In a
  // decoder step of the translator (100 words, batch 128) the attention's context, which reads all
  // encoder states for one row a sentence, moves 101 for each that it saves; its softmax more than
  // 256, and is kept. All else that is recomputed moves less than 16.
  double exchange = 128;
  // echo: the smallest footprint is taken that costs at most this part of the step's time, by a
  // roofline for the papers' card. Where that is too little for what `exchange` allows, nodes must
  // save more. Where nothing is that cheap, the cheapest is taken.
  double overhead = 0.09;
  // echo: one bit an element in place of a value, where that is all that gradients ask of it
  // (memory/passes/bit_stash.h).
  bool bits = true;
  // Only nodes whose scope contains one of these; empty: all. For asking what a layer is worth.
  std::vector<std::string> scopes = {};
};

// What the step is for, as far as it matters to a choice.
struct RecomputeGoal {
  std::optional<int64_t> budget = {};  // echo: bytes to fit into, whatever it costs
  // echo: gradients that make their recomputed operands themselves (memory/passes/fuse_recompute.h)
  // will be fused, so that is what costs are.
  bool fuse = false;
};

const char* to_string(Recompute method);

// By value: 1 where the backward pass is to read a clone's output.
using Choice = std::vector<char>;

// What the methods need to know of a program. Forward nodes are those of the forward phase.
struct StepView {
  explicit StepView(const Program& program, const RecomputeOptions& options = {});

  const Program& program;
  Readers readers;
  // By value: the first and last node after the forward phase that reads it; kNone: nobody does.
  std::vector<NodeId> first_use, last_use;
  // By value: alive whatever is recomputed (state, inputs, outputs, their views, and what updates
  // read), so reading it again costs nothing.
  std::vector<char> pinned;
  std::vector<int32_t> storage;        // by value: values that share bytes through views
  std::vector<int64_t> storage_bytes;  // by storage, aligned
  std::vector<Cost> cost;              // by node, of those of the forward phase
  std::vector<char> heavy;             // by node
  // By node: a forward node on the compute queue whose operands the backward pass still finds:
  // none is state that an update overwrites before the last backward node has run.
  std::vector<char> clonable;

  bool stays(ValueId v) const { return v == kNone || pinned[size_t(v)]; }
  // All operands are there anyway (a mask drawn from the step's scalars, an embedding's rows): such
  // a node can be run again for each group of readers that are far from each other.
  bool from_pinned(NodeId n) const;
  void set_heavy(double flops_per_byte);
};

// Which nodes run again and before which, in their new order.
struct CloneList {
  struct Clone {
    NodeId reader, original;
  };
  std::vector<Clone> clones;
  Choice needed;  // by value: 1 where a clone's output is read
};

// Readers further apart than `far` nodes get clones of their own, where the node is from_pinned.
// Values that are alive anyway, because a value in the same storage is stashed, are not recomputed.
CloneList list_clones(const StepView& view, Choice choice, NodeId far);

struct Clones {
  Program program;
  int count = 0;    // nodes run again
  int encoded = 0;  // values kept as bits
  Cost cost;        // of what was added
};

Clones insert_clones(const StepView& view, const CloneList& list);
Clones insert_clones(const StepView& view, Choice choice, NodeId far);

Choice choose_mirror(const StepView& view);
Choice choose_sqrt(const StepView& view);

// Bytes that a program will need at its peak, after the passes that follow.
using FootprintOf = std::function<int64_t(const Program&)>;

// The step with recomputation, or as it was when that would not lower its footprint, or where it
// has several queues. `note` says what was done: nodes, flops and bytes moved that were added.
Program recompute(const Program& program, Recompute method, const FootprintOf& footprint,
                  std::string* note = nullptr, const RecomputeOptions& options = {},
                  const RecomputeGoal& goal = {});

}  // namespace pal
