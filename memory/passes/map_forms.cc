// Forms as the encode nodes give them, reasons as the choice of forms does.
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

constexpr const char* kPeak = "the peak would be no lower, or its copy would raise it";

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

DenseReasons dense_reasons(const Program& p, const Encodings& encodings) {
  const bool exact = encodings.binarize || encodings.dropout_bits || encodings.is_lossy();
  const bool sparse = encodings.ssdc || encodings.observe;
  Reasons of_exact(p.values.size(), nullptr), of_sparse(p.values.size(), nullptr);
  if (exact) choose_forms(p, encodings, &of_exact);
  if (sparse) add_sparse(p, encodings, Forms(p.values.size()), &of_sparse);
  DenseReasons reasons;
  for (ValueId v : p.values.ids()) {
    if (!of_exact[v] && !of_sparse[v]) continue;
    const auto said = [](const char* why) { return std::string(why ? why : kPeak); };
    std::string text = exact ? said(of_exact[v]) : "";
    if (sparse && text != said(of_sparse[v])) {
      text += (text.empty() ? "" : "; sparse: ") + said(of_sparse[v]);
    }
    reasons[p.value(v).origin] = text;
  }
  return reasons;
}

std::vector<MapForm> map_forms(const Program& p, const DenseReasons& reasons) {
  const Forms forms = forms_in(p);
  const Readers readers(p);
  const Storages storages = assign_storages(p, {}, {.inplace = false});
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
      if (!encoded) {
        const auto why = reasons.find(value.origin);
        map.reason = why == reasons.end() ? kPeak : why->second;
      }
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
