// One walk that inserts two nodes behind each maker.
#include "train/papers/rounded_at_once.h"

#include <vector>

#include "core/rewriter.h"

namespace pal {
namespace {

bool is_rounded(const Program& p, ValueId v, bool gradients) {
  const Value& value = p.value(v);
  if (value.spec.dtype != DType::f32 || value.spec.layout || value.space != Space::device) {
    return false;
  }
  if (value.spec.numel() == 0) return false;
  for (const NamedValue& output : p.outputs) {
    if (output.value == v) return false;
  }
  const bool gradient = value.role == Role::gradient_map || value.role == Role::weight_gradient;
  return value.role == Role::feature_map || (gradients && gradient);
}

}  // namespace

Program rounded_at_once(const Program& p, Dpr format, bool gradients) {
  Rewriter out(p, 2 * p.values.size(), 2 * p.nodes.size());
  ByValue<ValueId> now(p.values.size());  // what readers read in its place
  for (ValueId v : p.values.ids()) now[v] = v;
  for (NodeId n : p.nodes.ids()) {
    Node node = p.node(n);
    for (ValueId& v : node.in) {
      if (v != kNone) v = now[v];
    }
    out.replace(n, node);
    if (node.phase != Phase::forward && node.phase != Phase::backward) continue;
    for (ValueId v : present(p.node(n).out)) {
      if (!is_rounded(p, v, gradients)) continue;
      Value code = p.value(v);
      code.spec.layout = dpr_layout(format, code.spec.numel());
      const ValueId encoded = out.add(code);
      now[v] = out.add(p.value(v));
      out.insert({.op = &dpr_encode_op,
                  .attrs = DprAttrs{format},
                  .in = {v},
                  .out = {encoded},
                  .phase = node.phase,
                  .scope = node.scope,
                  .step = node.step});
      out.insert({.op = &dpr_decode_op,
                  .attrs = DprAttrs{format},
                  .in = {encoded},
                  .out = {now[v]},
                  .phase = node.phase,
                  .scope = node.scope,
                  .step = node.step});
    }
  }
  return out.finish();
}

void round_weights(ProgramSet& programs, Dpr format) {
  std::vector<std::byte> codes;
  for (const StateTensor& t : programs.state()) {
    if (t.role != Role::weight || t.spec.dtype != DType::f32) continue;
    codes.resize(size_t(dpr_bytes(format, t.spec.numel())));
    float* x = reinterpret_cast<float*>(t.data);
    dpr_pack(format, x, t.spec.numel(), codes.data());
    dpr_unpack(format, codes.data(), t.spec.numel(), x);
  }
}

}  // namespace pal
