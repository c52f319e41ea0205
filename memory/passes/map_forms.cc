// Forms as the encode nodes give them, reasons as the pass decides.
#include "memory/passes/map_forms.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "core/names.h"
#include "memory/storages/storages.h"
#include "ops/encodings/ssdc.h"
#include "ops/tensors/casts.h"
#include "ops/tensors/clip_bits.h"

namespace pal {
namespace {

Forms forms_in(const Program& p) {
  Forms forms(p.values.size());
  for (const Node& node : p.nodes) {
    // The kernel that makes the map makes its bits too.
    if (node.op == &clip_bits_op && node.out[0] != kNone && node.out[1] != kNone) {
      const auto& attrs = node.attrs.as<IntervalAttrs>();
      forms[node.out[0]].bits = reads_predicate(attrs.lo, attrs.hi);
    }
    if (node.phase != Phase::encode) continue;
    Form& form = forms[node.in[0]];
    if (node.op == &to_bits_op) {
      const auto& attrs = node.attrs.as<BitsAttrs>();
      form.bits = reads_predicate(attrs.lo, attrs.hi);
    } else if (node.op == &dpr_encode_op) {
      form.dpr = node.attrs.as<DprAttrs>().format;
    } else if (node.op == &ssdc_encode_op) {
      form.sparse = node.attrs.as<SsdcAttrs>();
      form.dpr = ssdc_format(form.sparse->values);
    }
  }
  return forms;
}

// Why no form of those that were asked for was taken: what chooses them says which it allows.
class Why {
 public:
  Why(const Program& p, const Encodings& encodings)
      : exact_(encodings.binarize || encodings.dropout_bits || encodings.is_lossy()),
        sparse_(encodings.ssdc || encodings.observe) {
    if (exact_) choose_forms(p, encodings, &of_exact_);
    if (sparse_) add_sparse(p, encodings, Forms(p.values.size()), &of_sparse_);
  }
  std::string of(ValueId v) const {
    std::string text;
    if (exact_) text = reason(of_exact_[v]);
    if (!sparse_) return text;
    const std::string sparse = reason(of_sparse_[v]);
    return text.empty() || text == sparse ? sparse : text + "; sparse: " + sparse;
  }

 private:
  static std::string reason(const char* why) {
    return why ? why : "the peak would be no lower, or its copy would raise it";
  }

  bool exact_, sparse_;
  Reasons of_exact_, of_sparse_;
};

std::string text_of(const Form& form, const char* room) {
  if (form.is_dense()) return "dense";
  std::string text = form.bits ? "bits" : "";
  if (form.has_codes() && form.bits) text += ", ";
  if (form.sparse) text += std::string(name_of(form.sparse->form)) + room;
  if (form.sparse && form.dpr) text += " ";
  if (form.dpr) text += name_of(*form.dpr);
  return text;
}

}  // namespace

std::vector<MapForm> map_forms(const Program& p, const Encodings& encodings) {
  const Forms forms = forms_in(p);
  const Readers readers(p);
  const Storages storages = assign_storages(p, {}, {.inplace = false});
  const Why why(p, encodings);
  ByStorage<int64_t> counted(storages.list.size(), 0);
  std::vector<MapForm> out;
  for (const Node& node : p.nodes) {
    if (node.phase != Phase::forward) continue;
    for (ValueId v : present(node.out)) {
      const Value& value = p.value(v);
      const bool encoded = !forms[v].is_dense();
      if ((value.role != Role::feature_map && !encoded) || storages.of[v] == kNone) continue;
      if (!encoded && !is_read_later(p, readers, v)) continue;
      MapForm map{.value = v, .layer = layer_of(p, node), .spec = value.spec, .form = forms[v]};
      const StorageId s = storages.of[v];
      const int64_t left = align_up(storages[s].bytes) - counted[s];
      map.dense_bytes = std::min(left, bytes_of(value.spec, {}));
      if (!encoded && (map.dense_bytes == 0 || bytes_of(value.spec, {}) == align_up(1))) continue;
      counted[s] += map.dense_bytes;
      map.bytes = encoded ? bytes_of(value.spec, map.form) : map.dense_bytes;
      if (!encoded) map.reason = why.of(v);
      out.push_back(std::move(map));
    }
  }
  return out;
}

std::string kind_of(const Form& form) { return text_of(form, ""); }

std::string describe(const Form& form, const TensorSpec& spec) {
  if (!form.sparse) return kind_of(form);
  char room[16];
  std::snprintf(room, sizeof room, " %.2f", double(form.sparse->capacity) / double(spec.numel()));
  return text_of(form, room);
}

}  // namespace pal
