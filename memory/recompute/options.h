// What can be asked of recomputation.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/names.h"
#include "core/program.h"

namespace pal {

enum class Recompute : uint8_t {
  none,
  mirror,  // Chen et al. 2016, section 4.3: everything that is cheap
  sqrt,    // Chen et al. 2016, section 4.1: all but what crosses the borders of sqrt(n) segments
  echo,    // Zheng et al. 2020, Algorithm 1 (memory/recompute/echo.h)
  // What the planner chooses, not the user:
  chosen,  // value by value (memory/recompute/chosen.h)
  reruns,  // node by node (memory/recompute/reruns.h)
};
inline bool is_planned(Recompute method) {
  return method == Recompute::chosen || method == Recompute::reruns;
}
// The values of memory.recompute.
constexpr auto names(Recompute) { return std::array{"none", "mirror", "sqrt", "echo"}; }

// A forward node that runs once more, right before a node of the backward phase. It reads what was
// made last of each operand, and so do all after it of its own results. Both are named by a value
// that they make, which stays the same where nodes move.
struct Rerun {
  ValueId makes, before;

  bool operator==(const Rerun&) const = default;
};

struct RecomputeOptions {
  // A node is compute-heavy when it does at least so many flops for each byte that it moves. On the
  // papers' cards (10 to 14 Tflop/s, 340 to 900 GB/s) arithmetic, not memory, begins to bound a
  // kernel between 16 and 39. Elementwise and row-wise operators stay below 6, recurrent layers'
  // products are above 45; a 1x1 convolution of few channels (64 to 256: 26) moves its result in
  // the time that it takes, and is as cheap to run again as a sum. mirror and sqrt: at most 12.
  double heavy = 32;
  // echo: where all that is worth it takes less than `overhead`, heavy means so much too: the rest
  // of the time goes to products of 256 to 512 channels, if a per cent of it saves one of the
  // footprint.
  double heavier = 128;
  // echo: a node is recomputed only where that saves one byte for every so many that it moves. In a
  // decoder step of the translator (100 words, batch 128) the attention's context, which reads all
  // encoder states for one row a sentence, moves 101 for each that it saves; its softmax more than
  // 256, and is kept. All else that is recomputed moves less than 16.
  double exchange = 128;
  // echo: the smallest footprint is taken that costs at most this part of the step's time, by a
  // roofline for the papers' card. It counts as the next lower of kEchoLevels
  // (memory/recompute/echo_trials.h), so that more time never costs bytes. Where nothing is that
  // cheap, the cheapest is taken.
  double overhead = 0.09;
  // echo, chosen, reruns: one bit an element in place of a value, where that is all that gradients
  // ask of it (memory/passes/encode.h).
  bool bits = true;
  // chosen: these values run again: numbers of the step with operators of several parts taken apart
  // (memory/passes/parts.h). What only they need runs again where it is among them, and is kept
  // otherwise.
  std::vector<ValueId> chosen = {};
  // reruns: in the order in which they run, so `before` ascends by its node. Numbers are those of
  // the recorded step with its operators in parts (split_parts).
  std::vector<Rerun> reruns = {};
  // Only nodes whose scope contains one of these; empty: all. For asking what a layer is worth.
  std::vector<std::string> scopes = {};
};

// Bytes that a program will need at its peak: for echo once all passes are done, for mirror and
// sqrt once it is scheduled.
using FootprintOf = std::function<int64_t(const Program&)>;

struct Encodings;  // memory/passes/forms.h
class EchoMemory;  // memory/recompute/echo_trials.h

// What the step is for, as far as it matters to a choice.
struct RecomputeGoal {
  // echo: bytes to fit into. Where what `overhead` allows does not fit, the cheapest that does.
  std::optional<int64_t> budget = {};
  // echo: gradients that make their recomputed operands themselves (memory/passes/fuse_recompute.h)
  // will be fused, so that is what costs are.
  bool fuse = false;
  // echo: what a later pass makes of maps that are stashed. Null: nothing.
  const Encodings* encodings = nullptr;
  // Bytes are those of maps alone (StorageOptions).
  bool maps_alone = false;
  // echo: what was tried before, where there is neither a budget nor an encoding. Null: nothing.
  EchoMemory* memory = nullptr;
};

const char* to_string(Recompute method);

}  // namespace pal
