// One walk that inserts, and what of it lowers the peak.
#include "memory/passes/encode.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <utility>

#include "core/names.h"
#include "core/rewriter.h"
#include "core/text.h"
#include "memory/passes/counted_maps.h"
#include "memory/storages/lifetimes.h"
#include "memory/storages/storages.h"
#include "ops/encodings/ssdc.h"
#include "ops/sums/gates.h"
#include "ops/tensors/casts.h"
#include "ops/tensors/state.h"

namespace pal {
namespace {

// Readers so few nodes apart share a decoded copy.
constexpr NodeId kNear = 16;

class Encoder {
 public:
  Encoder(const Program& program, const Forms& forms)
      : p_(program),
        forms_(forms),
        readers_(program),
        owners_(owners_of_codes(program, forms)),
        out_(program, 2 * count_encoded(forms), 2 * count_encoded(forms)),
        kept_(program.values.size()) {
    for (NodeId n : p_.nodes.ids()) {
      for (ValueId v : present(p_.node(n).out)) kept_[owners_[v]].last = n;
      if (is_later(p_.node(n))) continue;
      for (ValueId v : present(p_.node(n).in)) kept_[owners_[v]].last = n;
    }
  }

  Program run() {
    for (NodeId n : p_.nodes.ids()) {
      Node node = p_.node(n);
      if (is_later(node)) read_kept(n, node);
      if (!counts_.empty()) read_gates(node);
      const std::vector<ValueId> last = last_read_by(n);
      for (ValueId v : last) {
        if (may_be_overwritten(node, v)) keep_codes(v);
      }
      out_.replace(n, node);
      for (ValueId v : present(node.out)) {
        if (forms_[v].bits) keep_bits(v, node);
        if (!counts_.empty() && p_.value(v).role == Role::gate) join_gate(v, node);
      }
      for (ValueId v : last) {
        if (kept_[v].codes == kNone) keep_codes(v);
      }
    }
    if (!counts_.empty() && fit_ == kNone) ask_fit(p_.node(p_.node_count() - 1));
    Program out = out_.finish();
    for (const auto& [v, count] : counts_) out.outputs.push_back({count_name(p_, v), count});
    if (fit_ != kNone) out.outputs.push_back({kOverflowOutput, fit_});
    return out;
  }

 private:
  struct Kept {
    NodeId last = kNone;  // reader of the forward phase; the producer where there is none
    ValueId bits = kNone, codes = kNone, copy = kNone;
    NodeId copy_read = kNone;  // the last reader of the copy
    ValueId over = kNone;      // the copy that this one is a view of
  };

  // The values that are kept as codes from this node on.
  std::vector<ValueId> last_read_by(NodeId n) const {
    std::vector<ValueId> last;
    for (const auto* side : {&p_.node(n).in, &p_.node(n).out}) {
      for (ValueId reads : present(*side)) {
        const ValueId v = owners_[reads];
        const bool listed = std::find(last.begin(), last.end(), v) != last.end();
        if (v < forms_.next_id() && forms_[v].has_codes() && kept_[v].last == n && !listed) {
          last.push_back(v);
        }
      }
    }
    return last;
  }

  // The node can write an output over the value, if it is not read any more.
  bool may_be_overwritten(const Node& node, ValueId v) const {
    const auto shares = shares_of(*node.op, node.in.size());
    return std::any_of(shares.begin(), shares.end(), [&](const Share& share) {
      const ValueId in = node.in[share.operand];
      return in != kNone && owners_[in] == v;
    });
  }

  void keep_bits(ValueId v, const Node& node) {
    const Reads& reads = *forms_[v].bits;
    Value value = p_.value(v);
    value.spec.dtype = DType::bit, value.role = Role::encoded;
    kept_[v].bits = out_.add(value);
    insert(to_bits_op, BitsAttrs{reads.lo, reads.hi}, {v}, {kept_[v].bits}, node, Phase::encode);
  }

  void keep_codes(ValueId v) {
    const Codes codes = codes_of(forms_[v], p_.value(v).spec);
    Value value = p_.value(v);
    value.role = Role::encoded;
    std::vector<ValueId> made;
    for (const TensorSpec& spec : codes.encode->infer({&p_.value(v).spec, 1}, codes.attrs)) {
      value.spec = spec;
      made.push_back(out_.add(value));
    }
    kept_[v].codes = made[0];
    if (forms_[v].sparse) counts_.emplace_back(v, made[1]);
    insert(*codes.encode, codes.attrs, {v}, made, p_.node(p_.value(v).producer), Phase::encode);
  }

  void read_kept(NodeId n, Node& node) {
    for (size_t k = 0; k < node.in.size(); ++k) {
      const ValueId v = node.in[k];
      if (v == kNone || forms_[v].is_dense()) continue;
      const bool asks_bits =
          forms_[v].bits && reads_of(*node.op, int(k), node.attrs).kind == Reads::Kind::predicate;
      if (asks_bits) {
        node.in[k] = kept_[v].bits;
      } else if (kept_[owners_[v]].codes != kNone) {  // else the forward phase still has to read it
        const bool direct = forms_[v].direct && node.op->reads_codes == int(k) && owners_[v] == v;
        node.in[k] = direct ? kept_[v].codes : copy_for(v, n, node);
      }
    }
  }

  ValueId copy_for(ValueId v, NodeId n, const Node& node) {
    if (owners_[v] != v) return view_for(v, n, node);
    Kept& kept = kept_[v];
    if (kept.copy == kNone || n - kept.copy_read > kNear) {
      const Codes codes = codes_of(forms_[v], p_.value(v).spec);
      kept.copy = out_.add(p_.value(v));
      insert(*codes.decode, codes.attrs, {kept.codes}, {kept.copy}, node, Phase::decode);
    }
    kept.copy_read = n;
    return kept.copy;
  }

  // The view once more, of the copy of what it is a view of.
  ValueId view_for(ValueId v, NodeId n, const Node& node) {
    const Node& maker = p_.node(p_.value(v).producer);
    const ValueId of = copy_for(maker.in[0], n, node);
    Kept& kept = kept_[v];
    if (kept.copy == kNone || kept.over != of) {
      kept.copy = out_.add(p_.value(v)), kept.over = of;
      std::vector<ValueId> out(maker.out.size(), kNone);
      for (size_t i = 0; i < out.size(); ++i) {
        if (maker.out[i] == v) out[i] = kept.copy;
      }
      insert(*maker.op, maker.attrs, {of}, std::move(out), node, Phase::decode);
    }
    return kept.copy;
  }

  // Whether all sparse codes had room, from the first node on that makes a gate or writes a state.
  void read_gates(Node& node) {
    const bool gates = makes_gate(p_, node);
    if (!gates && !node.op->writes_state) return;
    if (fit_ == kNone) ask_fit(node);
    bool gated = gates;
    for (ValueId& v : node.in) {
      if (v == kNone || p_.value(v).role != Role::gate) continue;
      gated = true;
      const auto joined = gates_.find(v);
      if (joined != gates_.end()) v = joined->second;
    }
    // An accumulator that is added to has to be as it was, if the step is run again.
    if (!gated && node.op == &assign_op && readers_[node.in[0]].size() > 1) {
      node.in.resize(3, kNone), node.in[2] = fit_;
      node.attrs = AssignAttrs{true};
    }
  }
  void ask_fit(const Node& at) {
    std::vector<ValueId> counts;
    for (const auto& counted : counts_) counts.push_back(counted.second);
    fit_ = out_.add({.spec = gate_spec(), .role = Role::gate});
    insert(encodings_fit_op, {}, counts, {fit_}, at, Phase::backward);
  }
  void join_gate(ValueId v, const Node& node) {
    gates_[v] = out_.add(p_.value(v));
    insert(gate_and_op, {}, {v, fit_}, {gates_[v]}, node, node.phase);
  }

  void insert(const OpDef& op, Attrs attrs, std::vector<ValueId> in, std::vector<ValueId> out,
              const Node& at, Phase phase) {
    out_.insert({.op = &op,
                 .attrs = std::move(attrs),
                 .in = std::move(in),
                 .out = std::move(out),
                 .phase = phase,
                 .scope = at.scope,
                 .step = at.step});
  }

  const Program& p_;
  const Forms& forms_;
  const Readers readers_;
  const ByValue<ValueId> owners_;
  Rewriter out_;
  ByValue<Kept> kept_;
  std::vector<std::pair<ValueId, ValueId>> counts_;  // of sparse codes: the value, its count
  ValueId fit_ = kNone;                              // the gate of the counts
  std::map<ValueId, ValueId> gates_;                 // joined with it
};

}  // namespace

// The storage that such a copy is of is tried as it would be instead, as the nodes stand now, the
// largest first.
Forms lowered(const Program& program, Forms forms, const Forms& instead,
              const StorageOptions& options) {
  constexpr int kTries = 64;
  if (std::none_of(forms.begin(), forms.end(), [](const Form& f) { return f.has_codes(); })) {
    return forms;
  }
  const Storages shared = assign_storages(program, {}, {.inplace = false});
  Program now = encode(program, forms);
  int64_t bytes = peak_bytes(now, {}, options);
  int tries = 0;
  while (tries < kTries) {
    const Storages storages = assign_storages(now, {}, options);
    std::vector<StorageId> copied;  // of the old program
    for (StorageId s : peak_of(storages, lifetimes_of(now, storages)).alive) {
      for (ValueId copy : storages.values_of(s)) {
        const NodeId maker = now.value(copy).producer;
        if (maker == kNone || now.node(maker).phase != Phase::decode) continue;
        NodeId encoder = now.value(now.node(maker).in[0]).producer;
        while (now.node(encoder).phase == Phase::decode) {  // a view of a copy
          encoder = now.value(now.node(encoder).in[0]).producer;
        }
        const StorageId from = shared.of[now.node(encoder).in[0]];
        if (std::find(copied.begin(), copied.end(), from) == copied.end()) copied.push_back(from);
      }
    }
    bool dropped = false;
    for (size_t i = 0; i < copied.size() && !dropped && tries < kTries; ++i, ++tries) {
      Forms fewer = forms;
      for (ValueId v : shared.values_of(copied[i])) fewer[v] = instead[v];
      Program tried = encode(program, fewer);
      const int64_t least = peak_bytes(tried, {}, options);
      if (least >= bytes) continue;
      forms = std::move(fewer), now = std::move(tried), bytes = least, dropped = true;
    }
    if (!dropped) break;
  }
  return forms;
}

Program encode(const Program& program, const Forms& forms) { return Encoder(program, forms).run(); }

Forms lowered_forms(const Program& program, const Encodings& encodings,
                    const StorageOptions& storages, Forms* allowed) {
  Forms forms = choose_forms(program, encodings);
  if (allowed) *allowed = forms;
  return lowered(program, std::move(forms), Forms(program.values.size()), storages);
}

std::string describe(const Program& program, const Forms& forms) {
  int bits = 0, rounded = 0, sparse = 0;
  int64_t before = 0, after = 0;
  const ByValue<ValueId> owners = owners_of_codes(program, forms);
  for (ValueId v : forms.ids()) {
    if (forms[v].is_dense()) continue;
    bits += forms[v].bits.has_value();
    if (owners[v] != v) {
      after += forms[v].bits ? bit_bytes(program.value(v).spec) : 0;
      continue;
    }
    rounded += forms[v].dpr.has_value(), sparse += forms[v].sparse.has_value();
    before += align_up(program.value(v).spec.bytes());
    after += bytes_of(program.value(v).spec, forms[v]);
  }
  if (bits + rounded + sparse == 0) return "no feature map is eligible";
  return join_parts(bits, " values kept as bits, ", rounded, " rounded, ", sparse,
                    " sparse: ", format_bytes(after), " instead of ", format_bytes(before));
}

std::string rounding_of(const Program& p) {
  std::vector<std::string> rounded;  // in an order that no pass changes
  for (const Node& node : p.nodes) {
    std::optional<Dpr> format;
    if (node.op == &dpr_encode_op) format = node.attrs.as<DprAttrs>().format;
    if (node.op == &ssdc_encode_op) format = ssdc_format(node.attrs.as<SsdcAttrs>().values);
    if (!format) continue;
    const Value& value = p.value(node.in[0]);
    rounded.push_back(join_parts(p.scopes[value.scope], " t=", value.step, " ", value.spec, " ",
                                 value.origin, " ", name_of(*format)));
  }
  if (rounded.empty()) return "";
  std::sort(rounded.begin(), rounded.end());
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const std::string& each : rounded) {
    for (const unsigned char c : each + "\n") hash = (hash ^ c) * 0x100000001b3;
  }
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

}  // namespace pal
