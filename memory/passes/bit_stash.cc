// Which values, then one walk that inserts.
#include "memory/passes/bit_stash.h"

#include <algorithm>

#include "core/rewriter.h"
#include "memory/storages/storages.h"
#include "ops/tensors/casts.h"

namespace pal {
namespace {

bool is_later(const Node& node) { return node.phase != Phase::forward; }

// Whether to stash bits of a value.
ByValue<char> choose(const Program& p, const Readers& readers) {
  const Storages storages = assign_storages(p, {}, {.inplace = false});
  ByStorage<char> needed(storages.list.size(), 0);  // alive later, whatever is done here
  ByValue<char> chosen(p.values.size(), 0);
  for (ValueId v : chosen.ids()) {
    if (storages.of[v] == kNone) continue;
    const Storage& s = storages[storages.of[v]];
    char& need = needed[storages.of[v]];
    const NodeId producer = p.value(v).producer;
    const TensorSpec& spec = p.value(v).spec;
    need |= !s.is_transient() || s.output;
    if (std::none_of(readers[v].begin(), readers[v].end(),
                     [&](NodeId r) { return is_later(p.node(r)); })) {
      continue;
    }
    const bool able = producer != kNone && p.node(producer).phase == Phase::forward &&
                      spec.dtype != DType::bit && !spec.layout &&
                      bit_bytes(spec) < align_up(spec.bytes()) &&
                      later_reads(p, readers, v).kind == Reads::Kind::predicate;
    (able ? chosen[v] : need) = 1;
  }
  for (ValueId v : chosen.ids()) {
    chosen[v] = chosen[v] && !needed[storages.of[v]];
  }
  return chosen;
}

}  // namespace

Reads later_reads(const Program& p, const Readers& readers, ValueId v) {
  Reads common = reads_values();
  for (NodeId r : readers[v]) {
    const Node& node = p.node(r);
    if (!is_later(node)) continue;
    for (size_t k = 0; k < node.in.size(); ++k) {
      if (node.in[k] != v) continue;
      const Reads reads = reads_of(*node.op, int(k), node.attrs);
      if (reads.kind != Reads::Kind::predicate) return reads_values();
      if (common.kind == Reads::Kind::predicate && !(common == reads)) return reads_values();
      common = reads;
    }
  }
  return common;
}

int64_t bit_bytes(const TensorSpec& spec) {
  return align_up(TensorSpec{spec.shape, DType::bit}.bytes());
}

int count_bits(const Program& program) {
  const ByValue<char> chosen = choose(program, Readers(program));
  return int(std::count(chosen.begin(), chosen.end(), 1));
}

Program stash_bits(const Program& program, int* count) {
  const Readers readers(program);
  const ByValue<char> chosen = choose(program, readers);
  const auto total = std::count(chosen.begin(), chosen.end(), 1);
  if (count) *count = int(total);
  if (total == 0) return program;
  Rewriter out(program, size_t(total), size_t(total));
  ByValue<ValueId> now(program.values.size(), kNone);  // what later readers read
  for (NodeId n : program.nodes.ids()) {
    Node node = program.node(n);
    for (ValueId& v : node.in) {
      if (v != kNone && is_later(node) && now[v] != kNone) v = now[v];
    }
    out.replace(n, node);
    for (ValueId v : present(node.out)) {
      if (!chosen[v]) continue;
      const Reads reads = later_reads(program, readers, v);
      Value value = program.value(v);
      value.spec.dtype = DType::bit, value.role = Role::encoded;
      now[v] = out.add(value);
      out.insert({.op = &to_bits_op,
                  .attrs = BitsAttrs{reads.lo, reads.hi},
                  .in = {v},
                  .out = {now[v]},
                  .phase = Phase::encode,
                  .scope = node.scope,
                  .step = node.step});
    }
  }
  return out.finish();
}

}  // namespace pal
