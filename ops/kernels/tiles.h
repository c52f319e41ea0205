// What all elementwise operators share: a scalar formula over f32, applied to operands stored as
// f32, bf16, f16 or bits. Elements move in tiles that stay in the first-level cache: one of f32 is
// used where it lies, any other is converted into a buffer on the stack, so a formula is compiled
// once, and outputs may lie over operands of the same size.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "core/host_device.h"
#include "core/op.h"
#include "core/parallel.h"
#include "ops/kernels/element_types.h"

namespace pal {

constexpr int64_t kTile = 512;  // a multiple of 8, so that a tile of bits begins at a byte
static_assert(kElementGrain % kTile == 0);

// n elements from i on as f32: in place, or converted into `buffer`. A bit becomes `inside` or
// `outside`, a value for which the reader's predicate holds or does not; i is then a multiple of 8.
const float* load_tile(const void* data, DType type, int64_t i, int64_t n, float* buffer,
                       float inside = 1, float outside = 0);
// Where a tile of an output is to be computed: in place, or `buffer`, which store_tile writes.
inline float* tile_to_fill(void* data, DType type, int64_t i, float* buffer) {
  return type == DType::f32 ? static_cast<float*>(data) + i : buffer;
}
// For bits, 1 where the value is greater than zero.
void store_tile(void* data, DType type, int64_t i, int64_t n, const float* tile);

// How a bit of the operand stands for a value: one inside the interval, or one outside.
struct BitMeaning {
  float inside = 1, outside = 0;
};
BitMeaning bits_of_interval(float lo, float hi);

// out[0][i] = f(in[0][i], .., in[N-1][i]) for the n elements of the output; f is a pure function of
// floats. `bit` says what the bits of operands stored as such stand for.
template <int N, class F> void map_elements(const KernelArgs& a, F f, BitMeaning bit = {}) {
  static_assert(N >= 1 && N <= 3);
  const DType type = a.out_spec[0].dtype;
  parallel_chunks(a.queue, a.out_spec[0].numel(), kElementGrain, [&](int64_t begin, int64_t end) {
    const F g = f;  // its own copy: the stores below could change one that others see
    alignas(64) float buffer[N + 1][kTile];
    for (int64_t i = begin; i < end; i += kTile) {
      const int64_t n = end - i < kTile ? end - i : kTile;
      std::array<const float*, N> x;
      for (int k = 0; k < N; ++k) {
        x[size_t(k)] = load_tile(a.in[size_t(k)], a.in_spec[size_t(k)].dtype, i, n, buffer[k],
                                 bit.inside, bit.outside);
      }
      float* y = tile_to_fill(a.out[0], type, i, buffer[N]);
      // Element j of y depends on element j of the operands alone, so they may be the same memory.
      const float* x0 = x[0];
      if constexpr (N == 1) {
#pragma omp simd
        for (int64_t j = 0; j < n; ++j) y[j] = g(x0[j]);
      } else if constexpr (N == 2) {
        const float* x1 = x[1];
#pragma omp simd
        for (int64_t j = 0; j < n; ++j) y[j] = g(x0[j], x1[j]);
      } else {
        const float *x1 = x[1], *x2 = x[2];
#pragma omp simd
        for (int64_t j = 0; j < n; ++j) y[j] = g(x0[j], x1[j], x2[j]);
      }
      if (type != DType::f32) store_tile(a.out[0], type, i, n, y);
    }
  });
}

bool is_float(DType type);  // f32, bf16 or f16

// Inference of outputs like the first operand, which must be floating point; the other `operands`
// must have its shape, and its type too unless they are read by predicate (then bits will do).
Specs infer_like_first(SpecSpan in, size_t operands, bool predicate_last = false);

// The formula of a node: F as its attributes make it, where F says which those are.
template <class F> F formula_of(const Attrs& attrs) {
  if constexpr (requires { typename F::Attributes; })
    return F(attrs.as<typename F::Attributes>());
  else
    return F{};
}
template <class F> BitMeaning bit_meaning_of(const F& formula) {
  if constexpr (requires { formula.bit_meaning(); })
    return formula.bit_meaning();
  else
    return {};
}
// The same kernel's arguments with other operands, for a formula that is applied behind it.
inline KernelArgs with_operands(const KernelArgs& a, std::span<void* const> in, SpecSpan in_spec) {
  return {in, a.out, in_spec, a.out_spec, a.attrs, nullptr, nullptr, a.queue};
}

// The run of an operator that applies F to N operands.
template <int N, class F> void map_operands(const KernelArgs& a) {
  const F f = formula_of<F>(a.attrs);
  map_elements<N>(a, f, bit_meaning_of(f));
}
// Such an operator, with operands of one shape and type: what its facts leave out.
template <int N, class F> OpDef map_op(OpDef facts) {
  if (!facts.infer) facts.infer = [](SpecSpan in, const Attrs&) { return infer_like_first(in, N); };
  for (int k = 0; k < N; ++k) facts.shares.push_back({0, k});
  facts.rows = rows_of_each;
  facts.cpu.run = map_operands<N, F>;
  return facts;
}

// Output 0 = that operand in the output's type: floats are converted, any other type has to be the
// output's already.
void convert_operand(const KernelArgs& a, size_t operand, size_t output = 0);

// ProgramError unless there are `least` to `most` operands.
void require_operands(SpecSpan in, size_t least, size_t most);

// Each operand that is there is read once, each result written once.
Cost streaming_cost(double flops, SpecSpan in, SpecSpan out);

// Products of extents: those of the first `axes` axes, and of those from `from` on.
int64_t leading_numel(const Shape& shape, int axes);
int64_t trailing_numel(const Shape& shape, int from);
// Rows of the last axis: how many, and the bytes of one; and the bytes of a row of the first axis.
inline int64_t row_count(const Shape& shape) { return leading_numel(shape, shape.rank() - 1); }
inline int64_t row_bytes(const TensorSpec& spec) {
  return spec.shape.back() * bits(spec.dtype) / 8;
}
inline int64_t leading_row_bytes(const TensorSpec& spec) {
  return trailing_numel(spec.shape, 1) * bits(spec.dtype) / 8;
}

// i / n without a 64-bit division where the numbers are small.
PAL_HD inline int64_t divide(int64_t i, int64_t n) {
  return ((uint64_t(i) | uint64_t(n)) >> 32) == 0 ? int64_t(uint32_t(i) / uint32_t(n)) : i / n;
}

// Where a copy's row comes from: the row of that number, or from nowhere (on a GPU, where what is
// wrong cannot be refused, such a row becomes NaNs).
constexpr int64_t kNoRow = -1;
// Row r of `to` = row source(r) of `from`, which must be there; rows of `bytes` bytes.
template <class Source>
void copy_rows_from(const Queue& queue, void* to, const void* from, int64_t rows, int64_t bytes,
                    Source source) {
  const int64_t grain = 4 * kElementGrain / std::max<int64_t>(bytes, 1) + 1;
  parallel_chunks(queue, rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      std::memcpy(static_cast<char*>(to) + r * bytes,
                  static_cast<const char*>(from) + source(r) * bytes, size_t(bytes));
    }
  });
}

// Moves bytes unless they are where they should be already; both ranges are equal or disjoint.
void copy_bytes(const Queue& queue, void* to, const void* from, int64_t bytes);
void zero_bytes(const Queue& queue, void* to, int64_t bytes);
// The run of an operator whose output has its operand's bytes.
inline void copy_operand(const KernelArgs& a) {
  copy_bytes(a.queue, a.out[0], a.in[0], a.out_spec[0].bytes());
}

// Rows of `bytes` bytes at distances `to_stride` and `from_stride`.
void copy_rows(const Queue& queue, void* to, int64_t to_stride, const void* from,
               int64_t from_stride, int64_t rows, int64_t bytes);

// An example operand of so many dimensions, shorter to write.
inline ExampleOperand example(Shape shape, DType type = DType::f32, float lo = -2, float hi = 2) {
  return {.spec = {shape, type}, .lo = lo, .hi = hi, .differentiable = type == DType::f32};
}
// Of an operator whose N operands are alike: tails, a half type, and elements for several chunks.
template <size_t N>
std::vector<Example> alike_examples(DType half, float lo = -2, float hi = 2,
                                    const Attrs& attrs = {}) {
  auto alike = [&](Shape shape, DType type) -> Example {
    return {.operands = std::vector<ExampleOperand>(N, example(shape, type, lo, hi)),
            .attrs = attrs};
  };
  return {alike({3, 7}, DType::f32), alike({5, 13}, half), alike({33, 1031}, DType::f32)};
}
inline ExampleOperand constant(ExampleOperand operand) {
  operand.differentiable = false;
  return operand;
}
inline ExampleOperand absent_example() {
  return {.spec = {}, .absent = true, .differentiable = false};
}

}  // namespace pal
