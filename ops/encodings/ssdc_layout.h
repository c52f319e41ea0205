// Where the parts of a sparse encoding lie (ops/encodings/ssdc.h), and how many bytes that takes.
//
// The elements are taken as rows of 256; the last row may be shorter. Zero means the bits of +0:
// -0, NaN and denormal numbers are stored, so decoding is exact to the bit where the values are
// plain. An encoding is a tensor of the dense one's shape and type in a layout of its own, whose
// bytes depend on the capacity alone, not on how many nonzeros there are. Its sections:
//
//   ends     i32 for each row: where its values end; they begin where those of the row before end
//   mask     (mask) 32 bytes for each row, a bit for each element, the lowest first
//   values   those of the nonzeros, one after the other, zero from the last on
//   columns  (csr) a byte for each value: its place in its row; zero from the last on
//
// Where there are more nonzeros than capacity, the encoding is that of x with all nonzeros behind
// the first `capacity` set to zero, and the count that comes with it says so.
//
// A form added here (SsdcForm) is one whose bytes follow from the number of nonzeros alone:
// capacity, density and margin are of nonzeros, and the steps that observe count them. Runs of
// zeros are not such a form: an encoding of them would need a count of its own.
#pragma once
#include <array>
#include <optional>
#include <tuple>

#include "core/attrs.h"
#include "core/spec.h"
#include "ops/encodings/dpr.h"

namespace pal {

// csr is the paper's form. A mask takes an eighth of a byte for each element where csr takes a byte
// for each nonzero, so it is the smaller one where fewer than 7/8 of the elements are zero.
enum class SsdcForm : uint8_t { csr, mask };
constexpr auto names(SsdcForm) { return std::array{"csr", "mask"}; }
// How a nonzero is stored: as in the dense tensor, or rounded (ops/encodings/dpr.h). Which elements
// are stored does not change by rounding; of those a small one may become 0.
enum class SsdcValues : uint8_t { plain, fp16, fp10, fp8 };
static_assert(int(SsdcValues::fp8) == int(kDprFormats.size()));  // in the order of Dpr
constexpr SsdcValues ssdc_values(Dpr format) { return SsdcValues(int(format) + 1); }
constexpr std::optional<Dpr> ssdc_format(SsdcValues values) {
  return values == SsdcValues::plain ? std::nullopt : std::optional(Dpr(int(values) - 1));
}

struct SsdcAttrs {
  SsdcForm form = SsdcForm::csr;
  int64_t capacity = 0;  // nonzeros that fit; at most the elements
  SsdcValues values = SsdcValues::plain;
  auto fields() const {
    return std::tuple{field("form", form), field("capacity", capacity), field("values", values)};
  }
};

constexpr int64_t kSsdcRow = 256;

// Where the sections begin, in bytes; of the section that the form has not, where it would.
struct SsdcSections {
  int64_t rows, mask, values, columns, bytes;
};
SsdcSections ssdc_sections(const SsdcAttrs& attrs, int64_t elements, DType type);
// Bytes of `count` values of a dense tensor of this type.
int64_t ssdc_value_bytes(SsdcValues values, DType type, int64_t count);
// Bytes of an encoding of so many elements. Without a capacity's slack csr is smaller than the
// dense tensor above 20.3 % zeros in f32 and 33.9 % in bf16, a mask above 3.5 % and 7.0 %.
int64_t ssdc_bytes(const SsdcAttrs& attrs, int64_t elements, DType type);

// The encoding of a plain tensor, and the attributes of an encoding; none: it is something else.
// Its layout's tag names form, capacity and values: "csr:12345", "mask:12345:fp8".
TensorSpec ssdc_spec(const TensorSpec& dense, const SsdcAttrs& attrs);
std::optional<SsdcAttrs> ssdc_attrs(const TensorSpec& encoded);

}  // namespace pal
