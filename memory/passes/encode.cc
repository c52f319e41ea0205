// Which values, then one walk that inserts.
#include "memory/passes/encode.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/names.h"
#include "core/rewriter.h"
#include "core/text.h"
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
// A value with less than this part of the elements around it is a statistic.
constexpr int64_t kStatistic = 16;
constexpr int64_t kLeastSparse = 4096;  // bytes of a map, to be kept sparse
constexpr const char* kNonzeros = "nonzeros/";

bool is_later(const Node& node) {
  return node.phase != Phase::forward && node.phase != Phase::encode;
}

bool is_below(const std::string& scope, const std::string& layer) {
  return scope.compare(0, layer.size(), layer) == 0 &&
         (scope.size() == layer.size() || scope[layer.size()] == '/');
}

bool makes_gate(const Program& p, const Node& node) {
  for (ValueId v : present(node.out)) {
    if (p.value(v).role == Role::gate) return true;
  }
  return false;
}

// A step of training has every layer that is named.
void check_layers(const Program& p, const Encodings& encodings) {
  if (std::none_of(p.nodes.begin(), p.nodes.end(), is_later)) return;
  for (const auto& named : encodings.dpr_layers) {
    const std::string& layer = named.first;
    if (std::any_of(p.scopes.begin(), p.scopes.end(),
                    [&](const std::string& scope) { return is_below(scope, layer); })) {
      continue;
    }
    std::set<std::string> outer;
    for (const std::string& scope : p.scopes) outer.insert(scope.substr(0, scope.find('/')));
    outer.erase("");
    std::string known;
    for (const std::string& scope : outer) known += (known.empty() ? "" : ", ") + scope;
    throw UsageError("memory.dpr_layers: the model has no layer " + layer + "; its layers are in " +
                     known);
  }
}

// The format for values of this scope: that of the longest name in dpr_layers that it is below.
std::optional<Dpr> format_of(const Encodings& encodings, const std::string& scope) {
  std::optional<Dpr> best = encodings.dpr;
  size_t length = 0;
  for (auto& [layer, format] : encodings.dpr_layers) {
    if (is_below(scope, layer) && layer.size() >= length) best = format, length = layer.size();
  }
  return best;
}

// The operators of a form's codes, what they are told, and what the codes are.
struct Codes {
  const OpDef *encode, *decode;
  Attrs attrs;
  TensorSpec spec;
};
Codes codes_of(const Form& form, const TensorSpec& dense) {
  if (form.sparse) {
    return {&ssdc_encode_op, &ssdc_decode_op, *form.sparse, ssdc_spec(dense, *form.sparse)};
  }
  TensorSpec spec = dense;
  spec.layout = dpr_layout(*form.dpr, dense.numel());
  return {&dpr_encode_op, &dpr_decode_op, DprAttrs{*form.dpr}, spec};
}

// Codes that are the same bytes, if the values are.
bool alike(const Form& a, const Form& b) {
  return a.has_codes() && b.has_codes() && a.dpr == b.dpr && bool(a.sparse) == bool(b.sparse);
}

// Of a view of all elements of a value with codes like its own: that value, whose codes will do for
// both, since the view can be made again of the decoded copy. Of any other value: itself.
ByValue<ValueId> owners_of_codes(const Program& p, const Forms& forms) {
  ByValue<ValueId> owners(p.values.size());
  for (ValueId v : owners.ids()) owners[v] = v;
  for (const Node& node : p.nodes) {
    if (!node.op->windows || node.in.size() != 1) continue;
    for (const NodeWindow& window : windows_of(p, node)) {
      const ValueId view = window.small, of = window.large;
      const bool whole = window.is_view && p.value(view).spec.numel() == p.value(of).spec.numel();
      if (whole && view < forms.next_id() && alike(forms[view], forms[of])) {
        owners[view] = owners[of];
      }
    }
  }
  return owners;
}

class Chooser {
 public:
  Chooser(const Program& program, const Encodings& encodings)
      : p_(program), encodings_(encodings), readers_(program) {
    if (encodings.assumed_density) zeros_ = values_with_zeros(program);
  }

  // `base`: what sparse codes are added to; none: bits and rounded codes alone.
  Forms run(const Forms* base, Reasons* reasons) const {
    const Storages storages = assign_storages(p_, {}, {.inplace = false});
    Forms forms(p_.values.size());
    Reasons why(p_.values.size(), nullptr);
    ByStorage<char> needed(storages.list.size(), 0);  // dense, for somebody
    ByStorage<int64_t> bytes(storages.list.size(), 0), before(storages.list.size(), 0);
    ByStorage<char> coded(storages.list.size(), 0);
    const NodeId limit = base ? first_update() : kNone;
    for (ValueId v : forms.ids()) {
      if (storages.of[v] == kNone || !is_read_later(v)) continue;
      const Choice choice = base ? sparse_form_of(v, (*base)[v], limit) : form_of(v, false);
      forms[v] = choice.form, why[v] = choice.why;
      coded[storages.of[v]] |= forms[v].has_codes();
    }
    for (ValueId v : forms.ids()) {
      const StorageId s = storages.of[v];
      if (s == kNone) continue;
      needed[s] |= is_kept_outside(storages[s]);
      if (!is_read_later(v)) continue;
      if (coded[s] && forms[v].is_dense()) forms[v] = form_of(v, true).form;
      needed[s] |= forms[v].is_dense();
    }
    add_bytes(forms, storages, bytes);
    if (base) add_bytes(*base, storages, before);
    for (ValueId v : forms.ids()) {
      const StorageId s = storages.of[v];
      if (s != kNone && !needed[s] &&
          bytes[s] < (before[s] ? before[s] : align_up(storages[s].bytes))) {
        continue;
      }
      forms[v] = base ? (*base)[v] : Form{};
      if (s == kNone) continue;
      if (is_kept_outside(storages[s])) {
        why[v] = storages[s].output ? "an output" : "an input or a state";
      } else if (!why[v]) {
        why[v] = needed[s] ? "another value in its bytes is needed whole" : "would not shrink";
      }
    }
    if (reasons) {
      *reasons = std::move(why);
      for (ValueId v : forms.ids()) {
        if (!forms[v].is_dense() || !is_read_later(v)) (*reasons)[v] = nullptr;
      }
    }
    return forms;
  }

  // Values that could be kept sparse here, or in the same step that keeps others encoded: such a
  // step reads later what this one, where it does not read the value itself, reads instead.
  ByValue<char> counted() const {
    ByValue<char> by_origin(p_.values.size(), 0), out(p_.values.size(), 0);
    auto known = [&](ValueId origin) { return origin != kNone && origin < by_origin.next_id(); };
    for (const Node& node : p_.nodes) {
      if (!is_later(node)) continue;
      for (ValueId v : present(node.in)) {
        if (known(p_.value(v).origin)) by_origin[p_.value(v).origin] = 1;
      }
    }
    const Storages storages = assign_storages(p_, {}, {.inplace = false});
    const NodeId limit = first_update();
    for (ValueId v : out.ids()) {
      const ValueId origin = p_.value(v).origin;
      if (!known(origin) || !by_origin[origin] || why_no_map(v)) continue;
      const StorageId s = storages.of[v];
      out[v] = s != kNone && !is_kept_outside(storages[s]) && last_forward(v) < limit;
    }
    return out;
  }

 private:
  // Of a form that is dense: why.
  struct Choice {
    Form form;
    const char* why = nullptr;
  };

  // Of all that is encoded, to what its storage takes then.
  void add_bytes(const Forms& forms, const Storages& storages, ByStorage<int64_t>& bytes) const {
    const ByValue<ValueId> owners = owners_of_codes(p_, forms);
    for (ValueId v : forms.ids()) {
      const StorageId s = storages.of[v];
      if (s == kNone || forms[v].is_dense()) continue;
      bytes[s] += owners[v] == v  ? bytes_of(p_.value(v).spec, forms[v])
                  : forms[v].bits ? bit_bytes(p_.value(v).spec)
                                  : 0;
    }
  }

  static bool is_kept_outside(const Storage& storage) {
    return !storage.is_transient() || storage.output;
  }

  bool is_read_later(ValueId v) const { return pal::is_read_later(p_, readers_, v); }

  const char* why_no_map(ValueId v) const {
    const Value& value = p_.value(v);
    const TensorSpec& spec = value.spec;
    if (const char* why = why_not_here(value)) return why;
    if (spec.dtype != DType::f32 && spec.dtype != DType::bf16) return "not f32 or bf16";
    if (spec.bytes() < kLeastSparse) return "less than 4 kB";
    if (spec.numel() > std::numeric_limits<int32_t>::max()) return "too many elements";
    if (value.space != Space::device) return "not on the device";
    return is_statistic(v) ? "a statistic" : nullptr;
  }

  const char* why_not_here(const Value& value) const {
    if (value.producer == kNone || p_.node(value.producer).phase != Phase::forward) {
      return "not made by the forward phase";
    }
    return value.spec.layout ? "a blocked layout" : nullptr;
  }

  // `beside_codes`: another value in the same bytes is kept as codes.
  Choice form_of(ValueId v, bool beside_codes) const {
    const Value& value = p_.value(v);
    if (const char* why = why_not_here(value)) return {{}, why};
    if (value.spec.dtype == DType::bit) return {{}, "bits as it is"};
    const Asked asked = asked_of(p_, readers_, v);
    if (asked.bits_will_do()) {
      const bool allowed = asked.always ? encodings_.dropout_bits : encodings_.binarize;
      if (allowed || beside_codes) return {{.bits = asked.predicate}};
      return {{}, asked.always ? "no dropout_bits" : "no binarize"};
    }
    if (!asked.agree) return {{}, "its readers ask different predicates"};
    if (!encodings_.is_lossy()) return {{}, "read as values"};
    if (!is_float(value.spec.dtype)) return {{}, "not f32 or bf16"};
    if (is_statistic(v)) return {{}, "a statistic"};
    const std::optional<Dpr> format = format_of(encodings_, p_.scopes[value.scope]);
    if (!format) return {{}, "its layer has no dpr_ format"};
    if (asked.mixed) return {{}, "a clone reads it"};
    return {{.bits = asked.predicate, .dpr = format, .direct = encodings_.direct}};
  }

  // The first node that makes a gate or writes a state: before it stands whether all had room.
  NodeId first_update() const {
    for (NodeId n : p_.nodes.ids()) {
      if (makes_gate(p_, p_.node(n)) || p_.node(n).op->writes_state) return n;
    }
    return p_.node_count();
  }

  Choice sparse_form_of(ValueId v, const Form& base, NodeId limit) const {
    if (base.bits && !base.has_codes()) return {base};
    if (const char* why = why_no_map(v)) return {base, why};
    const auto known = encodings_.density.find(p_.value(v).origin);
    std::optional<double> density;
    if (known != encodings_.density.end()) {
      density = known->second;
    } else if (encodings_.assumed_density) {
      if (!zeros_[v]) return {base, "makes no zeros"};
      density = encodings_.assumed_density;
    }
    if (!density) return {base, "density not known"};
    if (last_forward(v) >= limit) return {base, "read after the first update"};
    const TensorSpec& spec = p_.value(v).spec;
    Form form = base;
    form.direct = encodings_.direct;
    form.sparse = least_sparse(encodings_, spec.numel(), spec.dtype, *density,
                               base.dpr ? ssdc_values(*base.dpr) : SsdcValues::plain);
    if (encodings_.binarize && !form.bits) {
      const Asked asked = asked_of(p_, readers_, v);
      if (asked.agree) form.bits = asked.predicate;
    }
    if (bytes_of(spec, form) < bytes_of(spec, base)) return {form};
    return {base, "would not shrink at its density"};
  }

  NodeId last_forward(ValueId v) const {
    NodeId last = p_.value(v).producer;
    for (NodeId r : readers_[v]) {
      if (!is_later(p_.node(r))) last = r;
    }
    return last;
  }

  bool is_statistic(ValueId v) const {
    const Node& node = p_.node(p_.value(v).producer);
    int64_t most = 0;
    for (const auto* side : {&node.in, &node.out}) {
      for (ValueId w : present(*side)) {
        const Value& value = p_.value(w);
        if (value.role == Role::feature_map) most = std::max(most, value.spec.numel());
      }
    }
    return p_.value(v).role != Role::feature_map || p_.value(v).spec.numel() < most / kStatistic;
  }

  const Program& p_;
  const Encodings& encodings_;
  const Readers readers_;
  ByValue<char> zeros_;  // where a density is assumed
};

std::string count_name(const Program& p, ValueId v) {
  return kNonzeros + std::to_string(p.value(v).origin);
}

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

Asked asked_of(const Program& p, const Readers& readers, ValueId v) {
  Asked asked;
  bool any_later = false;
  for (NodeId r : readers[v]) {
    const Node& node = p.node(r);
    const bool later = is_later(node);
    any_later |= later;
    asked.mixed |= (any_later && !later) || node.phase == Phase::recompute;
    for (size_t k = 0; k < node.in.size(); ++k) {
      if (node.in[k] != v) continue;
      const Reads reads = reads_of(*node.op, int(k), node.attrs);
      const bool predicate = reads.kind == Reads::Kind::predicate;
      asked.always &= predicate;
      if (!later) continue;
      asked.values |= !predicate;
      if (!predicate) continue;
      asked.agree &= !asked.predicate || *asked.predicate == reads;
      asked.predicate = reads;
    }
  }
  return asked;
}

bool is_read_later(const Program& p, const Readers& readers, ValueId v) {
  const auto of = readers[v];
  return std::any_of(of.begin(), of.end(), [&](NodeId r) { return is_later(p.node(r)); });
}

int64_t bit_bytes(const TensorSpec& spec) {
  return align_up(TensorSpec{spec.shape, DType::bit}.bytes());
}

int64_t bytes_of(const TensorSpec& spec, const Form& form) {
  int64_t bytes = 0;
  if (form.bits) bytes += bit_bytes(spec);
  if (form.has_codes()) bytes += align_up(codes_of(form, spec).spec.bytes());
  return form.is_dense() ? align_up(spec.bytes()) : bytes;
}

Forms choose_forms(const Program& program, const Encodings& encodings, Reasons* reasons) {
  return Chooser(program, encodings).run(nullptr, reasons);
}

Forms add_sparse(const Program& program, const Encodings& encodings, const Forms& forms,
                 Reasons* reasons) {
  return Chooser(program, encodings).run(&forms, reasons);
}

size_t count_encoded(const Forms& forms) {
  size_t count = 0;
  for (const Form& form : forms) count += !form.is_dense();
  return count;
}

SsdcAttrs least_sparse(const Encodings& encodings, int64_t elements, DType type, double density,
                       SsdcValues values) {
  const double room = std::ceil(density * encodings.ssdc_margin * double(elements));
  const int64_t capacity = std::min(elements, int64_t(room));
  const SsdcAttrs csr{SsdcForm::csr, capacity, values}, mask{SsdcForm::mask, capacity, values};
  if (encodings.ssdc_form) return *encodings.ssdc_form == SsdcForm::csr ? csr : mask;
  return ssdc_bytes(mask, elements, type) < ssdc_bytes(csr, elements, type) ? mask : csr;
}

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
  check_layers(program, encodings);
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

Program count_nonzeros_of_maps(const Program& program) {
  const Encodings none;
  const ByValue<char> counted = Chooser(program, none).counted();
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

std::string layer_of(const Program& p, const Node& node) {
  const auto has_scope = [&](const Node& n) { return !p.scopes[n.scope].empty(); };
  const std::string name = node.op->name;
  if (has_scope(node)) return p.scope_of(node) + " " + name;
  const Node* from = &node;
  while (!has_scope(*from) && !from->in.empty() && from->in[0] != kNone) {
    const NodeId producer = p.value(from->in[0]).producer;
    if (producer == kNone) break;
    from = &p.node(producer);
  }
  return has_scope(*from) ? name + " after " + p.scope_of(*from) : name;
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

std::string rounding_of(const Program& p) {
  std::vector<std::string> rounded;  // in an order that no pass changes
  for (const Node& node : p.nodes) {
    std::optional<Dpr> format;
    if (node.op == &dpr_encode_op) format = node.attrs.as<DprAttrs>().format;
    if (node.op == &ssdc_encode_op) format = ssdc_format(node.attrs.as<SsdcAttrs>().values);
    if (!format) continue;
    const Value& value = p.value(node.in[0]);
    rounded.push_back(join_parts(p.scopes[value.scope], " t=", value.step, " ", value.spec, " ",
                                 p.node(value.producer).op->name, " ", name_of(*format)));
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
