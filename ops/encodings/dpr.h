// Delayed precision reduction (Gist, section IV-A): what is kept of a feature map after its last
// reader in the forward phase, in 16, 10 or 8 bits an element. The formats are not those of
// core/spec.h: they have no infinities and no denormals, so an encoded value is a spec of x's shape
// and type with a layout of its own.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <tuple>
#include <type_traits>

#include "core/host_device.h"
#include "core/op.h"
#include "core/val.h"
#include "ops/kernels/element_types.h"

namespace pal {

extern const OpDef dpr_encode_op, dpr_decode_op;
[[gnu::weak]] extern const Backend dpr_encode_cuda, dpr_decode_cuda;

enum class Dpr : uint8_t { fp16, fp10, fp8 };
constexpr auto names(Dpr) { return std::array{"fp16", "fp10", "fp8"}; }
inline constexpr std::array kDprFormats{Dpr::fp16, Dpr::fp10, Dpr::fp8};

// Bits beside the sign, and what is taken off an exponent. Words have 32 bits and whole elements,
// so a format pays where it is the widest of which a word has so many: 16, 10, 8, 6. One of 12 bits
// would take as many bytes as one of 16.
struct DprFields {
  int exponent, mantissa, bias;
};
PAL_HD constexpr DprFields dpr_fields(Dpr format) {
  switch (format) {
    case Dpr::fp16: return {5, 10, 15};
    case Dpr::fp10: return {5, 4, 15};
    case Dpr::fp8: return {4, 3, 7};
  }
  return {};
}
PAL_HD constexpr int dpr_bits(Dpr format) {
  return 1 + dpr_fields(format).exponent + dpr_fields(format).mantissa;
}
// Element i lies in word i / dpr_per_word, from bit (i % dpr_per_word) * dpr_bits on. Bits that
// belong to no element are zero.
PAL_HD constexpr int dpr_per_word(Dpr format) { return 32 / dpr_bits(format); }

// What the two conversions need of a format. Codes without their sign are ordered as their values
// are. An f32's bits, moved down by `shift` after `rebias` was taken off, are a code.
struct DprCodes {
  int32_t shift, rebias;   // rebias: the bits of half the smallest normal value
  int32_t smallest, last;  // codes of the smallest normal value and of the greatest
  int32_t nan;             // the exponent above `last` is that of NaN alone
};
PAL_HD constexpr DprCodes dpr_codes(Dpr format) {
  const int mantissa = dpr_fields(format).mantissa, bits = dpr_bits(format);
  const int32_t sign = int32_t(1) << (bits - 1), smallest = int32_t(1) << mantissa;
  return {23 - mantissa, (127 - dpr_fields(format).bias) << 23, smallest, sign - smallest - 1,
          sign - smallest / 2};
}

// x rounded to the nearest value of the format, ties to even. Below the smallest normal value to
// that or to 0, a tie to 0; beyond the greatest, infinity too, to the greatest; a NaN to the one
// NaN of its sign. Of the result the low dpr_bits are used, the others are 0. Branch-free, so that
// loops over it vectorise where the format is a constant.
PAL_HD inline uint32_t dpr_code(float x, Dpr format) {
  const DprCodes c = dpr_codes(format);
  const int sign = dpr_bits(format) - 1;
  const uint32_t u = float_bits(x);
  const int32_t magnitude = int32_t(u & 0x7fffffffu), least = c.rebias + (1 << 23);
  const int32_t normal = magnitude < least ? least : magnitude;
  const int32_t half = (1 << (c.shift - 1)) - 1 - c.rebias;  // rebias has no bit at `shift`
  const int32_t rounded = (normal + half + (normal >> c.shift & 1)) >> c.shift;
  const int32_t finite = magnitude <= c.rebias ? 0 : rounded > c.last ? c.last : rounded;
  const int32_t code = magnitude > 0x7f800000 ? c.nan : finite;
  return uint32_t(code) | (u >> (31 - sign) & 1u << sign);
}

// The value of a code below 2^dpr_bits. Those that dpr_code never gives have values too: with
// exponent 0 that is 0, with the greatest exponent NaN.
PAL_HD inline float dpr_value(uint32_t code, Dpr format) {
  const DprCodes c = dpr_codes(format);
  const int sign = dpr_bits(format) - 1;
  const int32_t magnitude = int32_t(code & ((1u << sign) - 1));
  const int32_t finite = magnitude < c.smallest ? 0 : (magnitude << c.shift) + c.rebias;
  const int32_t bits = magnitude > c.last ? 0x7fc00000 : finite;
  return bits_float(uint32_t(bits) | (code << (31 - sign) & 0x80000000u));
}

// Bytes of so many elements: whole words of four bytes.
constexpr int64_t dpr_bytes(Dpr format, int64_t elements) {
  const int64_t per_word = dpr_per_word(format);
  return (elements + per_word - 1) / per_word * 4;
}
// Writes n elements as dpr_bytes(format, n) bytes, and reads them back. On the calling thread.
void dpr_pack(Dpr format, const float* x, int64_t n, std::byte* to);
void dpr_unpack(Dpr format, const std::byte* from, int64_t n, float* x);
// Elements [begin, end) of an encoded tensor of this type, as f32.
void dpr_read(Dpr format, DType type, const void* codes, int64_t begin, int64_t end, float* to);

// The layout of so many encoded elements; its tag is the format's name.
Layout dpr_layout(Dpr format, int64_t elements);
// The format of an encoded tensor; none: it is something else.
std::optional<Dpr> dpr_format(const TensorSpec& spec);

struct DprAttrs {
  Dpr format = Dpr::fp16;
  auto fields() const { return std::tuple{field("bits", dpr_bits(format))}; }
};

// x, plain f32 or bf16 with one element at least, in a format; and back: the same shape and type,
// each element rounded. bf16 takes no fewer bytes in fp16.
Val dpr_encode(Val x, Dpr format);
// ProgramError unless x is encoded so.
Val dpr_decode(Val x);

// A code in memory of its own. Void where codes share words with idle bits, so that they are
// packed.
template <Dpr F>
using DprCode = std::conditional_t<dpr_bits(F) == 16, uint16_t,
                                   std::conditional_t<dpr_bits(F) == 8, uint8_t, void>>;

// Calls f with the format as a constant, for kernels that are compiled for each.
template <Dpr F> using DprConstant = std::integral_constant<Dpr, F>;
template <class F> void by_dpr(Dpr format, F f) {
  switch (format) {
    case Dpr::fp16: return f(DprConstant<Dpr::fp16>{});
    case Dpr::fp10: return f(DprConstant<Dpr::fp10>{});
    case Dpr::fp8: return f(DprConstant<Dpr::fp8>{});
  }
}

}  // namespace pal
