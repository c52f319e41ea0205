// Pairs by the operators on both sides of a map.
#include "train/papers/gist_pairs.h"

#include <algorithm>
#include <iterator>

#include "core/op.h"
#include "ops/convolution/avg_pool.h"
#include "ops/convolution/conv2d.h"
#include "ops/convolution/global_avg_pool.h"
#include "ops/convolution/max_pool.h"
#include "ops/elementwise/activations.h"
#include "ops/tensors/columns.h"

namespace pal {
namespace {

bool is_pool(const OpDef* op) {
  return op == &max_pool_op || op == &avg_pool_op || op == &global_avg_pool_op;
}

const OpDef* maker_of(const Program& p, ValueId v) {
  const NodeId n = p.value(v).producer;
  return n == kNone ? nullptr : p.node(n).op;
}

// ReLU's result, or a join of such.
bool is_of_relu(const Program& p, ValueId v) {
  const OpDef* op = maker_of(p, v);
  if (op != &concatenate_op) return op == &relu_op;
  const std::vector<ValueId>& parts = p.node(p.value(v).producer).in;
  return std::all_of(parts.begin(), parts.end(),
                     [&](ValueId part) { return maker_of(p, part) == &relu_op; });
}

}  // namespace

const char* to_string(LayerPair pair) {
  static constexpr const char* names[] = {"ReLU-Pool", "ReLU-Conv", "Pool-Conv", "ReLU-join",
                                          "other"};
  return names[size_t(pair)];
}

LayerPair pair_of(const Program& program, const Readers& readers, ValueId value) {
  bool conv = false, pool = false, join = false, rest = false;
  for (NodeId n : readers[value]) {
    const Node& node = program.node(n);
    if (node.phase != Phase::forward) continue;
    conv |= node.op == &conv2d_op;
    pool |= is_pool(node.op);
    join |= node.op == &concatenate_op;
    rest |= node.op != &conv2d_op && node.op != &concatenate_op && !is_pool(node.op);
  }
  if (is_of_relu(program, value)) {
    if (conv) return LayerPair::relu_conv;
    if (pool && !join && !rest) return LayerPair::relu_pool;
    if (join && !pool && !rest) return LayerPair::relu_join;
  }
  return conv && is_pool(maker_of(program, value)) ? LayerPair::pool_conv : LayerPair::other;
}

std::vector<GistStash> stashes_of(const Program& program, const GistFootprint& footprint) {
  const Readers readers(program);
  std::vector<GistStash> out;
  for (const GistMap& map : footprint.maps) {
    if (map.use != MapUse::stashed) continue;
    out.push_back({map.value, pair_of(program, readers, map.value), map.buffer.size});
  }
  return out;
}

}  // namespace pal
