// Counters are found again by the names of their outputs.
#include "memory/passes/counted_maps.h"

#include <cstring>
#include <utility>

#include "core/rewriter.h"
#include "memory/passes/forms.h"
#include "ops/encodings/ssdc.h"

namespace pal {
namespace {

constexpr const char* kNonzeros = "nonzeros/";

}  // namespace

std::string count_name(const Program& p, ValueId v) {
  return kNonzeros + std::to_string(p.value(v).origin);
}

Program count_nonzeros_of_maps(const Program& program) {
  const ByValue<char> counted = values_to_count(program);
  Rewriter out(program);
  std::vector<NamedValue> counts;
  for (NodeId n : program.nodes.ids()) {
    out.keep(n);
    const Node& node = program.node(n);
    for (ValueId v : present(node.out)) {
      if (!counted[v]) continue;
      Value value = program.value(v);
      value.spec = {Shape{1}, DType::i32}, value.role = Role::encoded;
      counts.push_back({count_name(program, v), out.add(value)});
      out.insert({.op = &count_nonzeros_op,
                  .in = {v},
                  .out = {counts.back().value},
                  .phase = Phase::encode,
                  .scope = node.scope,
                  .step = node.step});
    }
  }
  Program made = out.finish();
  made.outputs.insert(made.outputs.end(), counts.begin(), counts.end());
  return made;
}

std::vector<CountedMap> counted_maps(const Program& p) {
  std::vector<CountedMap> maps;
  for (const NamedValue& output : p.outputs) {
    if (output.name.compare(0, std::strlen(kNonzeros), kNonzeros) != 0) continue;
    const Node& counter = p.node(p.value(output.value).producer);
    const Value& value = p.value(counter.in[0]);
    const Node& maker = p.node(value.producer);
    CountedMap map{.output = output.name,
                   .origin = value.origin,
                   .layer = layer_of(p, maker),
                   .elements = value.spec.numel(),
                   .type = value.spec.dtype,
                   .sparse = {}};
    if (counter.op == &ssdc_encode_op) map.sparse = counter.attrs.as<SsdcAttrs>();
    maps.push_back(std::move(map));
  }
  return maps;
}

}  // namespace pal
