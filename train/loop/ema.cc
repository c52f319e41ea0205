// Recording averages of the weights, and putting them in the weights' place.
#include "train/loop/ema.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "ops/exchange/exchange.h"
#include "ops/tensors/state.h"

namespace pal {
namespace {

[[noreturn]] void fail(const std::string& what) {
  throw Error(kExitFailed, "train.ema: the weights' temporary file cannot be " + what + ": " +
                               std::strerror(errno) + "");
}

}  // namespace

void append_ema(Builder& builder, std::span<const Val> weights, double decay, Val gate,
                int64_t ranks) {
  for (Val weight : weights) {
    const auto& slots = builder.program().state;
    const auto slot = std::find_if(slots.begin(), slots.end(),
                                   [&](const StateSlot& s) { return s.start == weight.id; });
    if (slot == slots.end()) throw ProgramError("ema: a value that is no state slot's start");
    const std::string name = slot->name;
    Val next{&builder, slot->end};
    const Node in_scope{.scope = builder.program().value(weight.id).scope};
    Builder::Within where(builder, in_scope, Phase::update);
    if (ranks > 1) {
      Builder::Within phase(builder, Phase::backward);  // it updates nothing itself
      next = own_piece(next, ranks);
    }
    Val average =
        builder.state(kEmaPrefix + name, {next.shape(), DType::f32}, Role::optimizer_state);
    moving_average(average, next, float(1 - decay), gate);
  }
}

EmaWeights::EmaWeights(ProgramSet& programs, double decay, int64_t updates,
                       const ShardedState& sharded)
    : programs_(programs) {
  if (updates <= 0) return;
  // The kernel's own rounding of 1 - decay, so that the average of equal weights is that weight.
  const double kept = 1 - double(float(1 - decay));
  const double correction = 1 / (1 - std::pow(kept, double(updates)));
  const std::vector<StateTensor> slots = programs.state();
  std::vector<std::pair<const StateTensor*, const StateTensor*>> pairs;  // weight, average
  for (const StateTensor& weight : slots) {
    const auto average = std::find_if(slots.begin(), slots.end(), [&](const StateTensor& s) {
      return s.name == kEmaPrefix + weight.name;
    });
    if (average != slots.end()) pairs.emplace_back(&weight, &*average);
  }
  file_.reset(std::tmpfile());
  for (const auto& [weight, average] : pairs) {
    const auto bytes = size_t(weight->spec.bytes());
    if (!file_ || std::fwrite(weight->data, 1, bytes, file_.get()) != bytes) fail("written");
  }
  if (!file_ || std::fflush(file_.get()) != 0) fail("written");
  for (const auto& [weight, average] : pairs) {
    auto* to = reinterpret_cast<float*>(weight->data);
    const bool pieces = sharded.is_piece(*average) && !sharded.is_piece(*weight);
    std::vector<std::byte> whole;
    if (pieces) whole = sharded.gather(*average);
    const auto* from = reinterpret_cast<const float*>(pieces ? whole.data() : average->data);
    for (int64_t i = 0; i < weight->spec.numel(); ++i) to[i] = float(double(from[i]) * correction);
    kept_.push_back(weight->name);
  }
}

void EmaWeights::restore() {
  if (kept_.empty()) return;
  const std::vector<std::string> kept = std::exchange(kept_, {});
  std::rewind(file_.get());
  // The arena may have grown, and moved, since.
  const std::vector<StateTensor> slots = programs_.state();
  for (const std::string& name : kept) {
    const auto slot = std::find_if(slots.begin(), slots.end(),
                                   [&](const StateTensor& s) { return s.name == name; });
    const auto bytes = size_t(slot->spec.bytes());
    if (std::fread(slot->data, 1, bytes, file_.get()) != bytes) fail("read back");
  }
}

EmaWeights::~EmaWeights() {
  try {
    restore();
  } catch (const Error&) {  // then another one ends the run already
  }
}

}  // namespace pal
