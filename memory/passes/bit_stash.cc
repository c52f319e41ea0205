// Which values, then one walk that inserts.
#include "memory/passes/bit_stash.h"

#include <algorithm>
#include <vector>

#include "memory/storages/storages.h"
#include "ops/tensors/casts.h"

namespace pal {
namespace {

bool is_later(const Node& node) { return node.phase != Phase::forward; }

// By value: whether to stash bits of it.
std::vector<char> choose(const Program& p, const Readers& readers) {
  const Storages storages = assign_storages(p, {}, {.inplace = false});
  std::vector<char> needed(storages.list.size(), 0);  // alive later, whatever is done here
  std::vector<char> chosen(p.values.size(), 0);
  for (size_t v = 0; v < chosen.size(); ++v) {
    if (storages.of[v] == kNone) continue;
    const Storage& s = storages[storages.of[v]];
    char& need = needed[size_t(storages.of[v])];
    const NodeId producer = p.values[v].producer;
    const TensorSpec& spec = p.values[v].spec;
    need |= s.persistent || s.input || s.output;
    if (std::none_of(readers[v].begin(), readers[v].end(),
                     [&](NodeId r) { return is_later(p.node(r)); })) {
      continue;
    }
    const bool able = producer != kNone && p.node(producer).phase == Phase::forward &&
                      p.node(producer).queue == kComputeQueue && spec.dtype != DType::bit &&
                      !spec.layout && bit_bytes(spec) < align_up(spec.bytes()) &&
                      later_reads(p, readers, ValueId(v)).kind == Reads::Kind::predicate;
    (able ? chosen[v] : need) = 1;
  }
  for (size_t v = 0; v < chosen.size(); ++v) {
    chosen[v] = chosen[v] && !needed[size_t(storages.of[v])];
  }
  return chosen;
}

}  // namespace

Reads later_reads(const Program& p, const Readers& readers, ValueId v) {
  Reads common = reads_values();
  for (NodeId r : readers[size_t(v)]) {
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
  const std::vector<char> chosen = choose(program, Readers(program));
  return int(std::count(chosen.begin(), chosen.end(), 1));
}

Program stash_bits(const Program& program, int* count) {
  const Readers readers(program);
  const std::vector<char> chosen = choose(program, readers);
  const auto total = std::count(chosen.begin(), chosen.end(), 1);
  if (count) *count = int(total);
  if (total == 0) return program;
  Program out = without_nodes(program);
  std::vector<ValueId> now(program.values.size(), kNone);  // by value: what later readers read
  std::vector<NodeId> place(program.nodes.size());
  for (NodeId n = 0; n < program.node_count(); ++n) {
    Node node = program.node(n);
    for (NodeId& wait : node.waits) wait = place[size_t(wait)];
    for (ValueId& v : node.in) {
      if (v != kNone && is_later(node) && now[size_t(v)] != kNone) v = now[size_t(v)];
    }
    place[size_t(n)] = out.node_count();
    out.nodes.push_back(node);
    for (ValueId v : node.out) {
      if (v == kNone || !chosen[size_t(v)]) continue;
      const Reads reads = later_reads(program, readers, v);
      Value value = program.value(v);
      value.spec.dtype = DType::bit, value.role = Role::encoded;
      now[size_t(v)] = ValueId(out.values.size());
      out.values.push_back(value);
      out.nodes.push_back({.op = &to_bits_op,
                           .attrs = BitsAttrs{reads.lo, reads.hi},
                           .in = {v},
                           .out = {now[size_t(v)]},
                           .phase = Phase::encode,
                           .scope = node.scope,
                           .step = node.step});
    }
  }
  out.relink();
  return out;
}

}  // namespace pal
