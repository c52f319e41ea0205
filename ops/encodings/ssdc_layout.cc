// Sections, sizes and tags of sparse encodings.
#include "ops/encodings/ssdc_layout.h"

#include <charconv>
#include <memory>
#include <string>

namespace pal {
namespace {

std::string rounded_suffix(Dpr format) { return std::string(":") + names(format)[size_t(format)]; }

// "csr:12345", "mask:12345:fp8"
std::string tag_of(const SsdcAttrs& attrs) {
  std::string tag = attrs.form == SsdcForm::csr ? "csr:" : "mask:";
  tag += std::to_string(attrs.capacity);
  for (const Dpr format : kDprFormats) {
    if (attrs.values == ssdc_values(format)) tag += rounded_suffix(format);
  }
  return tag;
}

}  // namespace

SsdcSections ssdc_sections(const SsdcAttrs& attrs, int64_t elements, DType type) {
  const bool masked = attrs.form == SsdcForm::mask;
  SsdcSections at{.rows = (elements + kSsdcRow - 1) / kSsdcRow};
  at.mask = at.rows * 4;
  at.values = at.mask + (masked ? at.rows * kSsdcRow / 8 : 0);
  at.columns = at.values + ssdc_value_bytes(attrs.values, type, attrs.capacity);
  at.bytes = at.columns + (masked ? 0 : attrs.capacity);
  return at;
}

int64_t ssdc_value_bytes(SsdcValues values, DType type, int64_t count) {
  for (const Dpr format : kDprFormats) {
    if (values == ssdc_values(format)) return dpr_bytes(format, count);
  }
  return count * bits(type) / 8;
}

int64_t ssdc_bytes(const SsdcAttrs& attrs, int64_t elements, DType type) {
  return ssdc_sections(attrs, elements, type).bytes;
}

TensorSpec ssdc_spec(const TensorSpec& dense, const SsdcAttrs& attrs) {
  return {dense.shape, dense.dtype,
          std::make_shared<const BlockedLayout>(BlockedLayout{
              tag_of(attrs), ssdc_bytes(attrs, dense.numel(), dense.dtype), nullptr})};
}

std::optional<SsdcAttrs> ssdc_attrs(const TensorSpec& encoded) {
  if (!encoded.layout) return std::nullopt;
  const std::string& tag = encoded.layout->tag;
  const size_t colon = tag.find(':');
  if (colon == std::string::npos) return std::nullopt;
  SsdcAttrs attrs{.form = tag.starts_with("mask:") ? SsdcForm::mask : SsdcForm::csr};
  std::from_chars(tag.data() + colon + 1, tag.data() + tag.size(), attrs.capacity);
  for (const Dpr format : kDprFormats) {
    if (tag.ends_with(rounded_suffix(format))) attrs.values = ssdc_values(format);
  }
  return tag_of(attrs) == tag ? std::optional(attrs) : std::nullopt;
}

}  // namespace pal
