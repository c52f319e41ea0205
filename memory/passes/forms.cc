// What readers ask of a value, and which form may answer them.
#include "memory/passes/forms.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "core/error.h"
#include "memory/storages/storages.h"
#include "ops/encodings/ssdc.h"
#include "ops/kernels/tiles.h"

namespace pal {
namespace {

// A value with less than this part of the elements around it is a statistic.
constexpr int64_t kStatistic = 16;
constexpr int64_t kLeastSparse = 4096;  // bytes of a map, to be kept sparse

bool is_below(const std::string& scope, const std::string& layer) {
  return scope.compare(0, layer.size(), layer) == 0 &&
         (scope.size() == layer.size() || scope[layer.size()] == '/');
}

// The scopes that have feature maps, and so can be given a format, one level below `outer`.
std::string layers_below(const std::vector<std::string>& scopes, const std::string& outer) {
  std::set<std::string> layers;
  for (const std::string& scope : scopes) {
    if (!outer.empty() && (!is_below(scope, outer) || scope == outer)) continue;
    const size_t from = outer.empty() ? 0 : outer.size() + 1;
    layers.insert(scope.substr(0, scope.find('/', from)));
  }
  std::string text;
  for (const std::string& layer : layers) text += (text.empty() ? "" : ", ") + layer;
  return text;
}

// A step of training has every layer that is named, and in it a feature map.
void check_layers(const Program& p, const Encodings& encodings) {
  if (encodings.dpr_layers.empty() || std::none_of(p.nodes.begin(), p.nodes.end(), is_later)) {
    return;
  }
  std::vector<std::string> scopes;
  for (const Value& value : p.values) {
    if (value.role != Role::feature_map || !is_float(value.spec.dtype)) continue;
    if (const std::string& scope = p.scopes[value.scope]; !scope.empty()) scopes.push_back(scope);
  }
  const auto has = [&](const std::string& layer) {
    return std::any_of(scopes.begin(), scopes.end(),
                       [&](const std::string& scope) { return is_below(scope, layer); });
  };
  for (const auto& named : encodings.dpr_layers) {
    const std::string& layer = named.first;
    if (has(layer)) continue;
    std::string outer = layer;
    while (!outer.empty() && (!has(outer) || layers_below(scopes, outer).empty())) {
      const size_t slash = outer.rfind('/');
      outer.resize(slash == std::string::npos ? 0 : slash);
    }
    throw UsageError("memory.dpr_layers: the model has no layer " + layer + " with feature maps; " +
                     (outer.empty() ? "its layers" : "those in " + outer) + " are " +
                     layers_below(scopes, outer));
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

// Codes that are the same bytes, if the values are.
bool alike(const Form& a, const Form& b) {
  return a.has_codes() && b.has_codes() && a.dpr == b.dpr && bool(a.sparse) == bool(b.sparse);
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
      // The others in a storage with codes. What is rounded is decided without sparse codes.
      if (coded[s] && forms[v].is_dense()) {
        const Form beside = form_of(v, true).form;
        if (!base || !beside.dpr) forms[v] = beside;
      }
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
    if (asked.exact) return {{}, "a reader asks for exact values"};
    const std::optional<Dpr> format = format_of(encodings_, p_.scopes[value.scope]);
    if (!format) return {{}, "its layer has no dpr_ format"};
    if (dpr_bits(*format) >= bits(value.spec.dtype)) return {{}, "has no more bits than codes"};
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

}  // namespace

bool is_later(const Node& node) {
  return node.phase != Phase::forward && node.phase != Phase::encode;
}

bool makes_gate(const Program& p, const Node& node) {
  for (ValueId v : present(node.out)) {
    if (p.value(v).role == Role::gate) return true;
  }
  return false;
}

Codes codes_of(const Form& form, const TensorSpec& dense) {
  if (form.sparse) {
    return {&ssdc_encode_op, &ssdc_decode_op, *form.sparse, ssdc_spec(dense, *form.sparse)};
  }
  TensorSpec spec = dense;
  spec.layout = dpr_layout(*form.dpr, dense.numel());
  return {&dpr_encode_op, &dpr_decode_op, DprAttrs{*form.dpr}, spec};
}

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
      asked.exact |= reads.kind == Reads::Kind::exact;
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
  check_layers(program, encodings);
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

ByValue<char> values_to_count(const Program& program) {
  const Encodings none;
  return Chooser(program, none).counted();
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

}  // namespace pal
