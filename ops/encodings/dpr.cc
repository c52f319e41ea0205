// dpr_encode: x rounded to 16, 10 or 8 bits an element, in words.   dpr_decode: what these stand
// for.
#include "ops/encodings/dpr.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/builder.h"
#include "core/names.h"
#include "ops/encodings/dpr_words.h"
#include "ops/kernels/tiles.h"

// Half of the time again in vectors of 32 bytes, which GCC takes for itself.
#if defined(__AVX512BW__) && defined(__GNUC__) && !defined(__clang__)
#define PAL_WIDE_VECTORS __attribute__((target("prefer-vector-width=512")))
#else
#define PAL_WIDE_VECTORS
#endif

namespace pal {
namespace {

static_assert(std::endian::native ==
              std::endian::little);  // so elements of 8 or 16 bits make words

// Elements that a loop takes at once: whole words of every format, whole lines of the cache. A
// chunk of a parallel loop is many of them.
constexpr int64_t kDprStep = 192, kDprGrain = 64 * kDprStep;
static_assert(kDprGrain % dpr_words::kMost == 0);

template <Dpr F> constexpr int64_t kPerWord = dpr_per_word(F);

// What the next steps, of kBytes each, will read: without, a page's first lines are late.
template <size_t kBytes> void fetch_ahead(const void* data) {
  const char* p = static_cast<const char*>(data) + 2048;
  for (size_t line = 0; line < kBytes; line += 64) __builtin_prefetch(p + line);
}

// dpr_code and dpr_value, and the same of bf16 in steps of 16 bits: twice as many to a vector.
template <Dpr F> uint32_t code_of(float x) { return dpr_code(x, F); }
template <Dpr F> uint16_t code_of(bf16 x) {
  constexpr DprCodes c = dpr_codes(F);
  constexpr int sign = dpr_bits(F) - 1, mantissa = dpr_fields(F).mantissa;
  constexpr int16_t rebias = c.rebias >> 16, least = rebias + 128;
  const int16_t magnitude = int16_t(x.bits & 0x7fff);
  const int16_t normal = magnitude < least ? least : magnitude;
  int16_t rounded;
  if constexpr (mantissa >= 7) {  // exact
    constexpr int16_t end = rebias + int16_t((c.last + 1) >> (mantissa - 7));
    const int16_t fits = normal < end ? normal : end;
    rounded = int16_t(int16_t(fits - rebias) << (mantissa - 7));
  } else {
    constexpr int shift = 7 - mantissa;
    constexpr int16_t half = int16_t((1 << (shift - 1)) - 1 - rebias);
    const int16_t odd = int16_t(normal >> shift & 1);
    rounded = int16_t(int16_t(normal + half + odd) >> shift);
  }
  const int16_t most = int16_t(rounded < c.last ? rounded : c.last);
  const int16_t finite = magnitude > rebias ? most : int16_t(0);
  const int16_t code = magnitude > 0x7f80 ? int16_t(c.nan) : finite;
  return uint16_t(uint16_t(code) | uint16_t(x.bits >> (15 - sign) & 1u << sign));
}
template <Dpr F> void decode_to(uint32_t code, float& x) { x = dpr_value(code, F); }
template <Dpr F> void decode_to(uint16_t code, bf16& x) {
  constexpr DprCodes c = dpr_codes(F);
  constexpr int sign = dpr_bits(F) - 1, mantissa = dpr_fields(F).mantissa;
  constexpr int16_t rebias = c.rebias >> 16;
  const int16_t magnitude = int16_t(code & ((1 << sign) - 1));
  int16_t shifted;
  if constexpr (mantissa <= 7) {
    shifted = int16_t(magnitude << (7 - mantissa));
  } else {  // to nearest, ties to even
    constexpr int shift = mantissa - 7;
    const int16_t odd = int16_t(magnitude >> shift & 1);
    shifted = int16_t(int16_t(magnitude + (1 << (shift - 1)) - 1 + odd) >> shift);
  }
  const int16_t normal = int16_t(shifted + rebias);
  const int16_t finite = magnitude < int16_t(c.smallest) ? int16_t(0) : normal;
  const int16_t bits = magnitude > int16_t(c.last) ? int16_t(0x7fc0) : finite;
  x.bits = uint16_t(uint16_t(bits) | uint16_t(code << (15 - sign) & 0x8000));
}

// What a code is widened to on its way to an element.
template <class T> using Wide = std::conditional_t<std::is_same_v<T, bf16>, uint16_t, uint32_t>;

// Whether codes of 10 bits are made one after the other, and then put together (or taken apart
// before), rather than in threes: where they are of 16 bits on the way. Of f32 with AVX-512 they
// are not.
#ifdef __AVX512BW__
constexpr bool kSixteenOfF32 = false;
#else
constexpr bool kSixteenOfF32 = true;
#endif
template <Dpr F, class T> constexpr bool kPacksLater = (F == Dpr::fp10) && std::is_same_v<T, bf16>;
template <Dpr F, class T>
constexpr bool kUnpacksBefore = (F == Dpr::fp10) && (std::is_same_v<T, bf16> || kSixteenOfF32);

// n elements, whole words; at most dpr_words::kMost.
template <Dpr F, class T> PAL_WIDE_VECTORS void pack_step(const T* x, int64_t n, std::byte* to) {
  if constexpr (kPacksLater<F, T>) {
    alignas(64) uint16_t codes[dpr_words::kMost + dpr_words::kBehind];
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) codes[i] = uint16_t(code_of<F>(x[i]));
    dpr_words::pack(codes, n, to);
  } else if constexpr (F == Dpr::fp10) {
#pragma omp simd
    for (int64_t w = 0; w < n / 3; ++w) {
      const T* three = x + 3 * w;
      const uint32_t word = uint32_t(code_of<F>(three[0])) | uint32_t(code_of<F>(three[1])) << 10 |
                            uint32_t(code_of<F>(three[2])) << 20;
      std::memcpy(to + 4 * w, &word, 4);
    }
  } else {
    using Code = DprCode<F>;
    Code* codes = reinterpret_cast<Code*>(to);
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) codes[i] = Code(code_of<F>(x[i]));
  }
}
// Values of fewer than eight bits of mantissa are bf16 as well, and made as such.
template <Dpr F> void decode_as_bf16(uint16_t code, bf16& x) { decode_to<F>(code, x); }
template <Dpr F> void decode_as_bf16(uint16_t code, float& x) {
  bf16 half;
  decode_to<F>(code, half);
  x = to_float(half);
}
template <Dpr F, class T>
PAL_WIDE_VECTORS void unpack_step(const std::byte* from, int64_t n, T* x) {
  if constexpr (kUnpacksBefore<F, T>) {
    alignas(64) uint16_t codes[dpr_words::kMost + dpr_words::kBehind];
    dpr_words::unpack(from, n, codes);
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) decode_as_bf16<F>(codes[i], x[i]);
  } else if constexpr (F == Dpr::fp10) {
#pragma omp simd
    for (int64_t w = 0; w < n / 3; ++w) {
      uint32_t word;
      std::memcpy(&word, from + 4 * w, 4);
      T* three = x + 3 * w;
      decode_to<F>(Wide<T>(word & 1023), three[0]);
      decode_to<F>(Wide<T>(word >> 10 & 1023), three[1]);
      decode_to<F>(Wide<T>(word >> 20 & 1023), three[2]);
    }
  } else {
    using Code = DprCode<F>;
    const Code* codes = reinterpret_cast<const Code*>(from);
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      if constexpr (F == Dpr::fp8)
        decode_as_bf16<F>(codes[i], x[i]);
      else
        decode_to<F>(Wide<T>(codes[i]), x[i]);
    }
  }
}

template <Dpr F, class T> PAL_WIDE_VECTORS void pack(const T* x, int64_t n, std::byte* to) {
  constexpr int64_t kStep = kPacksLater<F, T> ? dpr_words::kMost : kDprStep;
  int64_t i = 0;
  for (; i + kStep <= n; i += kStep) {
    fetch_ahead<kStep * sizeof(T)>(x + i);
    pack_step<F>(x + i, kStep, to + dpr_bytes(F, i));
  }
  const int64_t whole = (n - i) / kPerWord<F> * kPerWord<F>;
  pack_step<F>(x + i, whole, to + dpr_bytes(F, i));
  if (i += whole; i == n) return;
  uint32_t word = 0;
  for (int64_t k = 0; i + k < n; ++k)
    word |= uint32_t(code_of<F>(x[i + k])) << (dpr_bits(F) * int(k));
  std::memcpy(to + dpr_bytes(F, i), &word, 4);
}
template <Dpr F, class T> PAL_WIDE_VECTORS void unpack(const std::byte* from, int64_t n, T* x) {
  constexpr int64_t kStep = kUnpacksBefore<F, T> ? dpr_words::kMost : kDprStep;
  int64_t i = 0;
  for (; i + kStep <= n; i += kStep) {
    fetch_ahead<dpr_bytes(F, kStep)>(from + dpr_bytes(F, i));
    unpack_step<F>(from + dpr_bytes(F, i), kStep, x + i);
  }
  const int64_t whole = (n - i) / kPerWord<F> * kPerWord<F>;
  unpack_step<F>(from + dpr_bytes(F, i), whole, x + i);
  if (i += whole; i == n) return;
  uint32_t word;
  std::memcpy(&word, from + dpr_bytes(F, i), 4);
  for (; i < n; ++i, word >>= dpr_bits(F))
    decode_to<F>(Wide<T>(word & ((1u << dpr_bits(F)) - 1)), x[i]);
}

// Calls f with the element type of a spec that check_plain has seen.
template <class F> void by_element(DType type, F f) {
  if (type == DType::bf16)
    f(bf16{});
  else
    f(0.0f);
}

void run_encode(const KernelArgs& a) {
  by_dpr(a.attrs.as<DprAttrs>().format, [&](auto format) {
    by_element(a.in_spec[0].dtype, [&](auto element) {
      const auto* x = a.input<decltype(element)>(0);
      auto* to = a.output<std::byte>(0);
      parallel_chunks(a.queue, a.in_spec[0].numel(), kDprGrain, [&](int64_t begin, int64_t end) {
        pack<format()>(x + begin, end - begin, to + dpr_bytes(format(), begin));
      });
    });
  });
}
void run_decode(const KernelArgs& a) {
  by_dpr(a.attrs.as<DprAttrs>().format, [&](auto format) {
    by_element(a.out_spec[0].dtype, [&](auto element) {
      const auto* from = a.input<std::byte>(0);
      auto* x = a.output<decltype(element)>(0);
      parallel_chunks(a.queue, a.out_spec[0].numel(), kDprGrain, [&](int64_t begin, int64_t end) {
        unpack<format()>(from + dpr_bytes(format(), begin), end - begin, x + begin);
      });
    });
  });
}

void check_elements(const TensorSpec& x) {
  require(x.dtype == DType::f32 || x.dtype == DType::bf16, x, ": not f32 or bf16");
  require(x.shape.rank() > 0 && x.numel() > 0, x, ": has no elements");
}

Specs infer_encode(SpecSpan in, const Attrs& attrs) {
  require_operands(in, 1, 1);
  check_elements(in[0]);
  require(!in[0].layout, in[0], ": not plain");
  return {{in[0].shape, in[0].dtype, dpr_layout(attrs.as<DprAttrs>().format, in[0].numel())}};
}
Specs infer_decode(SpecSpan in, const Attrs& attrs) {
  require_operands(in, 1, 1);
  check_elements(in[0]);
  const Dpr format = attrs.as<DprAttrs>().format;
  require(in[0].layout && in[0].layout->tag == name_of(format) &&
              in[0].layout->bytes == dpr_bytes(format, in[0].numel()),
          in[0], ": not encoded as ", [&] { return name_of(format); });
  return {{in[0].shape, in[0].dtype}};
}

// Of decode the operand is encoded: any codes, the idle bits too.
Example dpr_example(Dpr format, Shape shape, DType type, bool encoded) {
  ExampleOperand x = constant(example(shape, type));
  if (encoded) x.spec.layout = dpr_layout(format, shape.numel());
  return {.operands = {x}, .attrs = DprAttrs{format}};
}
// Tails of all lengths, elements for several chunks, values that clamp.
std::vector<Example> dpr_examples(bool encoded) {
  std::vector<Example> out;
  for (const Dpr format : kDprFormats) {
    for (const DType type : {DType::f32, DType::bf16}) {
      out.push_back(dpr_example(format, {1}, type, encoded));
      out.push_back(dpr_example(format, {5, 13}, type, encoded));
      out.push_back(dpr_example(format, {2, 17, 29}, type, encoded));
    }
    out.push_back(dpr_example(format, {33, 1031}, DType::f32, encoded));
    if (encoded) continue;
    out.push_back(dpr_example(format, {7, 61}, DType::f32, encoded));
    out.back().operands[0].lo = -1e5f, out.back().operands[0].hi = 1e5f;
    out.push_back(dpr_example(format, {7, 61}, DType::f32, encoded));
    out.back().operands[0].lo = -1e-4f, out.back().operands[0].hi = 1e-4f;
  }
  return out;
}

}  // namespace

void dpr_pack(Dpr format, const float* x, int64_t n, std::byte* to) {
  by_dpr(format, [&](auto f) { pack<f()>(x, n, to); });
}
void dpr_unpack(Dpr format, const std::byte* from, int64_t n, float* x) {
  by_dpr(format, [&](auto f) { unpack<f()>(from, n, x); });
}

namespace {

void widen(const float* x, int64_t n, float* to) { std::copy_n(x, n, to); }
void widen(const bf16* x, int64_t n, float* to) {
  for (int64_t i = 0; i < n; ++i) to[i] = to_float(x[i]);
}

template <Dpr F, class T> void read(const std::byte* codes, int64_t begin, int64_t end, float* to) {
  while (begin < end) {
    const int64_t skip = begin % kPerWord<F>;  // of the first word
    if (std::is_same_v<T, float> && skip == 0) {
      return unpack<F>(codes + dpr_bytes(F, begin), end - begin, to);
    }
    T part[kDprStep];
    const int64_t n = std::min(end - begin + skip, skip ? kPerWord<F> : kDprStep);
    unpack<F>(codes + dpr_bytes(F, begin - skip), n, part);
    widen(part + skip, n - skip, to);
    begin += n - skip, to += n - skip;
  }
}

}  // namespace

void dpr_read(Dpr format, DType type, const void* codes, int64_t begin, int64_t end, float* to) {
  by_dpr(format, [&](auto f) {
    by_element(type, [&](auto element) {
      read<f(), decltype(element)>(static_cast<const std::byte*>(codes), begin, end, to);
    });
  });
}

Layout dpr_layout(Dpr format, int64_t elements) {
  return std::make_shared<const BlockedLayout>(
      BlockedLayout{name_of(format), dpr_bytes(format, elements), nullptr});
}

std::optional<Dpr> dpr_format(const TensorSpec& spec) {
  Dpr format = Dpr::fp16;
  if (!spec.layout || !read_name(spec.layout->tag, format)) return {};
  return format;
}

const OpDef dpr_encode_op{
    .name = "dpr_encode",
    .formula = "x rounded to a few bits an element, packed",
    .infer = infer_encode,
    .cost = [](SpecSpan in, SpecSpan out,
               const Attrs&) { return streaming_cost(double(in[0].numel()), in, out); },
    .cpu = {.run = run_encode},
    .cuda = &dpr_encode_cuda,
    .examples = dpr_examples(false),
};

const OpDef dpr_decode_op{
    .name = "dpr_decode",
    .formula = "the elements that packed ones stand for",
    .infer = infer_decode,
    .cost = [](SpecSpan in, SpecSpan out,
               const Attrs&) { return streaming_cost(double(in[0].numel()), in, out); },
    .cpu = {.run = run_decode},
    .cuda = &dpr_decode_cuda,
    .examples = dpr_examples(true),
};

Val dpr_encode(Val x, Dpr format) { return x.builder->emit1(dpr_encode_op, {x}, DprAttrs{format}); }
Val dpr_decode(Val x) {
  const std::optional<Dpr> format = dpr_format(x.spec());
  require_of(dpr_decode_op, format.has_value(), x.spec(), ": not encoded");
  return x.builder->emit1(dpr_decode_op, {x}, DprAttrs{*format});
}

}  // namespace pal
