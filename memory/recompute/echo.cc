// The weights of Algorithm 1: bytes.
#include "memory/recompute/echo.h"

#include <algorithm>

#include "memory/recompute/region_cut.h"

namespace pal {
namespace {

// Bytes stashed, and bytes moved at trial.exchange.
class BytesAsWeights : public CutWeights {
 public:
  BytesAsWeights(const StepView& view, const EchoTrial& trial) : view_(view), trial_(trial) {}

  int64_t stash(StorageId storage) const override { return view_.storage_bytes[storage]; }
  int64_t instead(ValueId, int64_t bytes, double moved) const override {
    return bytes + 1 + int64_t(moved / trial_.exchange);
  }
  // What the node moves, or what could be moved meanwhile, where arithmetic takes longer.
  int64_t again(NodeId node) const override {
    const Cost& cost = view_.cost[node];
    const double moved = std::max(cost.bytes, cost.flops / trial_.balance);
    return 1 + int64_t((moved + trial_.launch_bytes) / trial_.exchange);
  }

 private:
  const StepView& view_;
  const EchoTrial& trial_;
};

}  // namespace

Choice choose_echo(const StepView& view, const EchoTrial& trial) {
  return cut_regions(view, expand(view, trial.near), BytesAsWeights(view, trial), trial.bits,
                     trial.forms);
}

}  // namespace pal
