// Toy operators of a cost, and a step around them, for the tests of recomputation.
#pragma once
#include "memory/recompute/recompute.h"
#include "tests/memory/running.h"

namespace pal::test {

// Does so many flops for every byte.
template <int kFlopsAByte> const OpDef& toy_with_cost(const char* name) {
  static const OpDef op = [name] {
    OpDef toy = toy_reverse;
    toy.name = name;
    toy.cost = [](SpecSpan in, SpecSpan, const Attrs&) {
      const double bytes = 8.0 * double(in[0].numel());
      return Cost{kFlopsAByte * bytes, bytes};
    };
    return toy;
  }();
  return op;
}
inline Val heavy(Val x) { return x.builder->emit1(toy_with_cost<1250>("heavy"), {x}); }
// As a 1x1 convolution of few channels is.
inline Val light_product(Val x) {
  return x.builder->emit1(toy_with_cost<20>("light_product"), {x});
}

// Without the limit on bytes moved, which toys are too small for.
inline RecomputeOptions small() { return {.exchange = 1e9, .overhead = 1e9}; }

inline int64_t footprint(const Program& p) { return peak_bytes(p); }

inline Program echo(const Program& p, std::string* note = nullptr) {
  return recompute(p, Recompute::echo, footprint, note, small());
}

// Ends the forward phase with something as large as all the rest, as a vocabulary's scores are, so
// that the peak lies where the stashes are all alive.
inline Val summit(Builder& b, int64_t size, Val x) {
  Val big = heavy(b.input("big", {Shape{size}}));
  Val loss = plus(sum(big), sum(x));
  b.output("loss", loss);
  return loss;
}

}  // namespace pal::test
