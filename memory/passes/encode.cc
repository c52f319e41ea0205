// Which values, then one walk that inserts.
#include "memory/passes/encode.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/rewriter.h"
#include "core/text.h"
#include "memory/storages/lifetimes.h"
#include "memory/storages/storages.h"
#include "ops/tensors/casts.h"

namespace pal {
namespace {

// Readers so few nodes apart share a decoded copy.
constexpr NodeId kNear = 16;
// A value with less than this part of the elements around it is a statistic.
constexpr int64_t kStatistic = 16;

bool is_later(const Node& node) {
  return node.phase != Phase::forward && node.phase != Phase::encode;
}

bool is_below(const std::string& scope, const std::string& layer) {
  return scope.compare(0, layer.size(), layer) == 0 &&
         (scope.size() == layer.size() || scope[layer.size()] == '/');
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

int64_t bytes_of(const TensorSpec& spec, const Form& form) {
  int64_t bytes = 0;
  if (form.bits) bytes += bit_bytes(spec);
  if (form.dpr) bytes += align_up(dpr_bytes(*form.dpr, spec.numel()));
  return form.is_dense() ? align_up(spec.bytes()) : bytes;
}

class Chooser {
 public:
  Chooser(const Program& program, const Encodings& encodings)
      : p_(program), encodings_(encodings), readers_(program) {}

  Forms run() const {
    const Storages storages = assign_storages(p_, {}, {.inplace = false});
    Forms forms(p_.values.size());
    ByStorage<char> needed(storages.list.size(), 0);  // dense, for somebody
    ByStorage<int64_t> bytes(storages.list.size(), 0);
    ByStorage<char> coded(storages.list.size(), 0);
    for (ValueId v : forms.ids()) {
      if (storages.of[v] == kNone || !is_read_later(v)) continue;
      forms[v] = form_of(v, false);
      coded[storages.of[v]] |= forms[v].dpr.has_value();
    }
    for (ValueId v : forms.ids()) {
      const StorageId s = storages.of[v];
      if (s == kNone) continue;
      needed[s] |= !storages[s].is_transient() || storages[s].output;
      if (!is_read_later(v)) continue;
      if (coded[s] && forms[v].is_dense()) forms[v] = form_of(v, true);
      needed[s] |= forms[v].is_dense();
      bytes[s] += bytes_of(p_.value(v).spec, forms[v]);
    }
    for (ValueId v : forms.ids()) {
      const StorageId s = storages.of[v];
      if (s == kNone || needed[s] || bytes[s] >= align_up(storages[s].bytes)) forms[v] = {};
    }
    return forms;
  }

 private:
  bool is_read_later(ValueId v) const {
    const auto readers = readers_[v];
    return std::any_of(readers.begin(), readers.end(),
                       [&](NodeId r) { return is_later(p_.node(r)); });
  }

  // `beside_codes`: another value in the same bytes is kept as codes.
  Form form_of(ValueId v, bool beside_codes) const {
    const Value& value = p_.value(v);
    const NodeId producer = value.producer;
    if (producer == kNone || p_.node(producer).phase != Phase::forward) return {};
    if (value.spec.dtype == DType::bit || value.spec.layout) return {};
    const Asked asked = asked_of(p_, readers_, v);
    if (asked.bits_will_do()) {
      const bool allowed = asked.always ? encodings_.dropout_bits : encodings_.binarize;
      return {.bits = allowed || beside_codes ? asked.predicate : std::nullopt};
    }
    Form form;
    if (is_float(value.spec.dtype) && asked.agree && !asked.mixed && !is_statistic(v)) {
      form.dpr = format_of(encodings_, p_.scopes[value.scope]);
    }
    if (form.dpr) form.bits = asked.predicate;
    return form;
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
};

class Encoder {
 public:
  Encoder(const Program& program, const Forms& forms)
      : p_(program),
        forms_(forms),
        out_(program, 2 * count_encoded(forms), 2 * count_encoded(forms)),
        kept_(program.values.size()) {
    for (NodeId n : p_.nodes.ids()) {
      for (ValueId v : present(p_.node(n).out)) kept_[v].last = n;
      if (is_later(p_.node(n))) continue;
      for (ValueId v : present(p_.node(n).in)) kept_[v].last = n;
    }
  }

  Program run() {
    for (NodeId n : p_.nodes.ids()) {
      Node node = p_.node(n);
      if (is_later(node)) read_kept(n, node);
      const std::vector<ValueId> last = last_read_by(n);
      for (ValueId v : last) {
        if (may_be_overwritten(node, v)) keep_codes(v);
      }
      out_.replace(n, node);
      for (ValueId v : present(node.out)) {
        if (forms_[v].bits) keep_bits(v, node);
      }
      for (ValueId v : last) {
        if (kept_[v].codes == kNone) keep_codes(v);
      }
    }
    return out_.finish();
  }

 private:
  struct Kept {
    NodeId last = kNone;  // reader of the forward phase; the producer where there is none
    ValueId bits = kNone, codes = kNone, copy = kNone;
    NodeId copy_read = kNone;  // the last reader of the copy
  };

  // The values that are kept as codes from this node on.
  std::vector<ValueId> last_read_by(NodeId n) const {
    std::vector<ValueId> last;
    for (const auto* side : {&p_.node(n).in, &p_.node(n).out}) {
      for (ValueId v : present(*side)) {
        const bool listed = std::find(last.begin(), last.end(), v) != last.end();
        if (v < forms_.next_id() && forms_[v].dpr && kept_[v].last == n && !listed) {
          last.push_back(v);
        }
      }
    }
    return last;
  }

  // The node can write an output over the value, if it is not read any more.
  static bool may_be_overwritten(const Node& node, ValueId v) {
    const auto shares = shares_of(*node.op, node.in.size());
    return std::any_of(shares.begin(), shares.end(),
                       [&](const Share& share) { return node.in[share.operand] == v; });
  }

  void keep_bits(ValueId v, const Node& node) {
    const Reads& reads = *forms_[v].bits;
    Value value = p_.value(v);
    value.spec.dtype = DType::bit, value.role = Role::encoded;
    kept_[v].bits = out_.add(value);
    insert(to_bits_op, BitsAttrs{reads.lo, reads.hi}, v, kept_[v].bits, node, Phase::encode);
  }

  void keep_codes(ValueId v) {
    Value value = p_.value(v);
    value.spec.layout = dpr_layout(*forms_[v].dpr, value.spec.numel());
    value.role = Role::encoded;
    kept_[v].codes = out_.add(value);
    insert(dpr_encode_op, DprAttrs{*forms_[v].dpr}, v, kept_[v].codes,
           p_.node(p_.value(v).producer), Phase::encode);
  }

  void read_kept(NodeId n, Node& node) {
    for (size_t k = 0; k < node.in.size(); ++k) {
      const ValueId v = node.in[k];
      if (v == kNone || forms_[v].is_dense()) continue;
      const bool asks_bits =
          forms_[v].bits && reads_of(*node.op, int(k), node.attrs).kind == Reads::Kind::predicate;
      node.in[k] = asks_bits ? kept_[v].bits : copy_for(v, n, node);
    }
  }

  ValueId copy_for(ValueId v, NodeId n, const Node& node) {
    Kept& kept = kept_[v];
    if (kept.copy == kNone || n - kept.copy_read > kNear) {
      kept.copy = out_.add(p_.value(v));
      insert(dpr_decode_op, DprAttrs{*forms_[v].dpr}, kept.codes, kept.copy, node, Phase::decode);
    }
    kept.copy_read = n;
    return kept.copy;
  }

  void insert(const OpDef& op, Attrs attrs, ValueId in, ValueId out, const Node& at, Phase phase) {
    out_.insert({.op = &op,
                 .attrs = std::move(attrs),
                 .in = {in},
                 .out = {out},
                 .phase = phase,
                 .scope = at.scope,
                 .step = at.step});
  }

  const Program& p_;
  const Forms& forms_;
  Rewriter out_;
  ByValue<Kept> kept_;
};

// Where a decoded copy is alive at the peak (as the nodes stand now), the storage that it is a copy
// of is tried as it was, largest first.
void drop_at_peak(const Program& program, Forms& forms) {
  constexpr int kTries = 64;
  if (std::none_of(forms.begin(), forms.end(), [](const Form& f) { return f.dpr.has_value(); })) {
    return;
  }
  const Storages shared = assign_storages(program, {}, {.inplace = false});
  Program now = encode(program, forms);
  int64_t bytes = peak_bytes(now);
  int tries = 0;
  while (tries < kTries) {
    const Storages storages = assign_storages(now);
    std::vector<StorageId> copied;  // of the old program
    for (StorageId s : peak_of(storages, lifetimes_of(now, storages)).alive) {
      for (ValueId copy : storages.values_of(s)) {
        const NodeId maker = now.value(copy).producer;
        if (maker == kNone || now.node(maker).phase != Phase::decode) continue;
        const NodeId encoder = now.value(now.node(maker).in[0]).producer;
        const StorageId from = shared.of[now.node(encoder).in[0]];
        if (std::find(copied.begin(), copied.end(), from) == copied.end()) copied.push_back(from);
      }
    }
    bool dropped = false;
    for (size_t i = 0; i < copied.size() && !dropped && tries < kTries; ++i, ++tries) {
      Forms fewer = forms;
      for (ValueId v : shared.values_of(copied[i])) fewer[v] = {};
      Program tried = encode(program, fewer);
      const int64_t least = peak_bytes(tried);
      if (least >= bytes) continue;
      forms = std::move(fewer), now = std::move(tried), bytes = least, dropped = true;
    }
    if (!dropped) return;
  }
}

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

int64_t bit_bytes(const TensorSpec& spec) {
  return align_up(TensorSpec{spec.shape, DType::bit}.bytes());
}

Forms choose_forms(const Program& program, const Encodings& encodings) {
  return Chooser(program, encodings).run();
}

size_t count_encoded(const Forms& forms) {
  size_t count = 0;
  for (const Form& form : forms) count += !form.is_dense();
  return count;
}

Program encode(const Program& program, const Forms& forms) { return Encoder(program, forms).run(); }

Program encode(const Program& program, const Encodings& encodings, std::string* note) {
  check_layers(program, encodings);
  Forms forms = choose_forms(program, encodings);
  drop_at_peak(program, forms);
  int bits = 0, codes = 0;
  int64_t before = 0, after = 0;
  for (ValueId v : forms.ids()) {
    if (forms[v].is_dense()) continue;
    bits += forms[v].bits.has_value(), codes += forms[v].dpr.has_value();
    before += align_up(program.value(v).spec.bytes());
    after += bytes_of(program.value(v).spec, forms[v]);
  }
  if (note) {
    *note = bits + codes == 0 ? "no feature map is eligible"
                              : join_parts(bits, " values kept as bits, ", codes,
                                           " rounded: ", format_bytes(after), " instead of ",
                                           format_bytes(before));
  }
  return bits + codes == 0 ? program : encode(program, forms);
}

std::string rounding_of(const Program& p) {
  std::vector<std::string> rounded;  // in an order that no pass changes
  for (const Node& node : p.nodes) {
    if (node.op != &dpr_encode_op) continue;
    const Value& value = p.value(node.in[0]);
    rounded.push_back(join_parts(p.scopes[value.scope], " t=", value.step, " ", value.spec, " ",
                                 p.node(value.producer).op->name, " ", node.attrs.print()));
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
