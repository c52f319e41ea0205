// From costs, specs and storages.
#include "memory/price/works.h"

#include <algorithm>
#include <vector>

#include "memory/storages/storages.h"

namespace pal {
namespace {

// The type of the operands of a product: 16 bits where two operands have them, or the only one that
// there is. The sum that a product adds to, and its result, may be wider.
DType type_of(SpecSpan in) {
  int bf16 = 0, f16 = 0, f32 = 0;
  for (const TensorSpec& spec : in) {
    if (spec.shape.rank() == 0) continue;  // absent
    bf16 += spec.dtype == DType::bf16;
    f16 += spec.dtype == DType::f16;
    f32 += spec.dtype == DType::f32;
  }
  const int enough = std::min(f32 + bf16 + f16, 2);
  if (enough == 0) return DType::f32;
  return bf16 >= enough ? DType::bf16 : f16 >= enough ? DType::f16 : DType::f32;
}

double summed_bytes(SpecSpan specs) {
  double bytes = 0;
  for (const TensorSpec& spec : specs) bytes += double(spec.bytes());
  return bytes;
}

}  // namespace

Work Works::of(NodeId n) {
  const Node& node = program_.node(n);
  const SpecSpan in = in_.of(program_, node.in), out = out_.of(program_, node.out);
  const Cost cost = cost_of(*node.op, in, out, node.attrs);
  Work work{.flops = cost.flops, .bytes = cost.bytes, .type = type_of(in)};
  for (const TensorSpec& spec : out) work.results = std::max(work.results, double(spec.numel()));
  if (node.op->windows && cost.flops == 0) {
    const int64_t copied = copied_bytes(n);
    work.bytes = 2 * double(copied);
    work.runs = copied > 0;
  }
  for (const auto* side : {&node.in, &node.out}) {
    for (ValueId v : present(*side)) {
      const Value& value = program_.value(v);
      if (value.space == Space::host) work.host_bytes += double(value.spec.bytes());
    }
  }
  // A lookup reads little of its table.
  const double touched = work.bytes / double(sizeof(float));
  work.elements = work.results;
  for (const TensorSpec& spec : in) {
    work.elements = std::max(work.elements, std::min(double(spec.numel()), touched));
  }
  work.bytes = std::max(0.0, work.bytes - work.host_bytes);
  work.link_bytes = cost.link, work.inside = cost.inside, work.between = cost.between;
  work.to_each = cost.to_each;
  if (cost.link > 0) work.exchanged = std::max(summed_bytes(in), summed_bytes(out));
  return work;
}

int64_t Works::copied_bytes(NodeId n) const {
  if (!storages_) return 0;
  const Node& node = program_.node(n);
  const std::vector<int64_t> in_place = bytes_in_place(program_, *storages_, n);
  int64_t copied = 0;
  for (size_t i = 0; i < node.out.size(); ++i) {
    if (node.out[i] == kNone) continue;
    copied += std::max<int64_t>(0, program_.value(node.out[i]).spec.bytes() - in_place[i]);
  }
  return copied;
}

Work work_of(const Program& program, NodeId node, const Storages* storages) {
  return Works(program, storages).of(node);
}

}  // namespace pal
