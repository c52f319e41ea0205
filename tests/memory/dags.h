// Programs that are nothing but a graph with sizes, as the papers draw them, and random ones.
#pragma once
#include <random>
#include <string>
#include <vector>

#include "core/builder.h"
#include "core/op.h"

namespace pal::test {

struct MixAttrs {
  int64_t first = 16, second = 0;  // elements of the outputs; no second one where that is 0
  auto fields() const { return std::tuple{field("first", first), field("second", second)}; }
};

// Any number of operands to one or two outputs of any size, never in place.
inline const OpDef mix_op{.name = "mix",
                          .formula = "every operand, repeated, with weights",
                          .infer =
                              [](SpecSpan, const Attrs& attrs) {
                                const auto& a = attrs.as<MixAttrs>();
                                Specs out{{Shape{a.first}}};
                                if (a.second > 0) out.push_back({Shape{a.second}});
                                return out;
                              },
                          .optional_from = 0,
                          .cpu = {[](const KernelArgs& args) {
                            for (size_t k = 0; k < args.out.size(); ++k) {
                              float* y = args.output(k);
                              if (!y) continue;
                              const int64_t n = args.out_spec[k].numel();
                              for (int64_t i = 0; i < n; ++i) {
                                y[i] = 0.01f * float(i % 7) + float(k);
                                for (size_t j = 0; j < args.in.size(); ++j) {
                                  y[i] += args.input(j)[i % args.in_spec[j].numel()] / float(j + 2);
                                }
                              }
                            }
                          }}};

// Sizes are in units of 64 bytes, what storages are aligned to.
inline std::vector<Val> mix2(Builder& b, std::vector<Val> in, int first, int second) {
  return b.emit(mix_op, std::move(in), MixAttrs{16 * first, 16 * second});
}
inline Val mix(Builder& b, std::vector<Val> in, int size) {
  return b.emit1(mix_op, std::move(in), MixAttrs{16 * size});
}

// So many nodes, each reading one to three values, mostly recent ones; the last is the loss, which
// sums up what nobody has read. With `wide`, values are read from far back, too.
inline Program random_dag(uint64_t seed, int nodes, bool wide = false) {
  std::mt19937_64 random(seed);
  auto below = [&](size_t n) { return size_t(random() % n); };
  Builder b;
  std::vector<Val> pool{b.input("x0", {Shape{16}})};
  std::vector<int> unread(1, 0);
  auto emit = [&](std::vector<size_t> from, int first, int second) {
    std::vector<Val> in;
    for (size_t i : from) in.push_back(pool[i]), unread[i] = 0;
    for (Val v : mix2(b, in, first, second)) pool.push_back(v), unread.push_back(1);
  };
  while (b.program().node_count() < nodes - 1) {
    std::vector<size_t> from;
    const size_t reach = wide || below(4) == 0 ? pool.size() : std::min<size_t>(pool.size(), 5);
    for (size_t k = below(3) + 1; k > 0; --k) from.push_back(pool.size() - 1 - below(reach));
    emit(from, int(1 + below(below(3) ? 6 : 40)), below(5) ? 0 : int(1 + below(12)));
  }
  std::vector<size_t> rest;
  for (size_t i = 0; i < pool.size(); ++i) {
    if (unread[i] && rest.size() < 4) rest.push_back(i);
  }
  if (rest.empty()) rest.push_back(pool.size() - 1);
  emit(rest, 1, 0);
  b.output("loss", pool.back());
  return b.take();
}

// An order that respects the dependencies, drawn by chance.
inline std::vector<NodeId> random_order(const std::vector<std::vector<NodeId>>& before,
                                        std::mt19937_64& random) {
  std::vector<NodeId> order;
  std::vector<char> placed(before.size(), 0);
  while (order.size() < before.size()) {
    std::vector<NodeId> ready;
    for (size_t n = 0; n < before.size(); ++n) {
      bool free = !placed[n];
      for (NodeId d : before[n]) free &= bool(placed[size_t(d)]);
      if (free) ready.push_back(NodeId(n));
    }
    order.push_back(ready[size_t(random() % ready.size())]);
    placed[size_t(order.back())] = 1;
  }
  return order;
}

}  // namespace pal::test
