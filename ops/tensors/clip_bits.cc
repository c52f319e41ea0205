// y = min(max(x, lo), hi), bits = [lo < y < hi], of a tile that stays in the first-level cache. The
// bits are those of y as it is stored: in 16 bits a clipped value may be inside.
#include "ops/tensors/clip_bits.h"

#include "core/builder.h"
#include "ops/elementwise/activations.h"
#include "ops/kernels/tiles.h"
#include "ops/kernels/vectors.h"
#include "ops/tensors/casts.h"

namespace pal {
namespace {

constexpr int64_t kWord = 32;
static_assert(kTile % kWord == 0 && kElementGrain % kTile == 0);

// A bit for each of n elements, those behind the last of a byte zero.
void keep_bits(const float* y, int64_t n, const Inside& inside, uint8_t* bits) {
  const float lo = inside.lo, hi = inside.hi;
  const auto low = vectors::all(lo), high = vectors::all(hi);
  int64_t j = 0;
  for (; j + kWord <= n; j += kWord) {
    uint32_t word = 0;
    for (int64_t b = 0; b < kWord; b += vectors::kWidth) {
      const auto v = vectors::load_floats(y + j + b);
      word |= vectors::bits_of(vectors::is_less(low, v) & vectors::is_less(v, high)) << b;
    }
    for (int64_t b = 0; b < 4; ++b) bits[j / 8 + b] = uint8_t(word >> (8 * b));
  }
  for (; j < n; j += 8) {
    uint32_t byte = 0;
    for (int64_t b = 0; b < std::min<int64_t>(8, n - j); ++b) {
      byte |= uint32_t((lo < y[j + b]) & (y[j + b] < hi)) << b;
    }
    bits[j / 8] = uint8_t(byte);
  }
}

// x as a tensor of that type has it.
float as_stored(float x, DType type) {
  float one;
  store_tile(&one, type, 0, 1, &x);
  return *load_tile(&one, type, 0, 1, &x);
}

// Either output may be unread. What clip gives is of the tensor's type but for its bounds, so the
// bits of what is stored are those of what it gives where these are rounded before.
void run(const KernelArgs& a) {
  const auto& interval = a.attrs.as<IntervalAttrs>();
  const Inside inside(interval);
  const DType type = a.in_spec[0].dtype;
  const float lo = interval.lo, least = as_stored(lo, type);
  const float hi = interval.hi, most = as_stored(hi, type);
  uint8_t* bits = a.output<uint8_t>(1);
  parallel_chunks(a.queue, a.in_spec[0].numel(), kElementGrain,
                  [=, &a](int64_t begin, int64_t end) {
                    alignas(64) float buffer[kTile], unread[kTile];
                    for (int64_t i = begin; i < end; i += kTile) {
                      const int64_t n = std::min(kTile, end - i), at = a.out[0] ? i : 0;
                      void* to = a.out[0] ? a.out[0] : unread;
                      const float* x = load_tile(a.in[0], type, i, n, buffer);
                      float* y = tile_to_fill(to, type, at, buffer);
#pragma omp simd
                      for (int64_t j = 0; j < n; ++j)
                        y[j] = x[j] < lo ? least : x[j] > hi ? most : x[j];
                      store_tile(to, type, at, n, y);
                      if (bits) keep_bits(y, n, inside, bits + i / 8);
                    }
                  });
}

std::vector<FusedPattern> patterns(SpecSpan in, const IntervalAttrs& interval, bool is_relu) {
  Builder b;
  Val x = b.input("x", in[0]);
  Val y = is_relu ? relu(x) : clip(x, interval.lo, interval.hi);
  Val bits = to_bits(y, interval.lo, interval.hi);
  return {{.program = b.take(), .in = {x.id}, .out = {y.id, bits.id}, .attrs = interval}};
}

}  // namespace

const Rewrite clip_bits_rewrite{.op = &clip_bits_op,
                                .anchor = &clip_op,
                                .when = Rewrite::When::encoded,
                                .patterns = [](SpecSpan in, const Attrs& attrs) {
                                  return patterns(in, attrs.as<IntervalAttrs>(), false);
                                }};
const Rewrite relu_bits_rewrite{
    .op = &clip_bits_op,
    .anchor = &relu_op,
    .when = Rewrite::When::encoded,
    .patterns = [](SpecSpan in, const Attrs&) { return patterns(in, IntervalAttrs{}, true); }};

const OpDef clip_bits_op{
    .name = "clip_bits",
    .formula = "y = min(max(x, lo), hi), and [lo < y < hi], a bit each",
    .infer = [](SpecSpan in, const Attrs& attrs) -> Specs {
      auto& interval = attrs.as<IntervalAttrs>();
      require(interval.lo < interval.hi, "lo must be less than hi");
      Specs out = infer_like_first(in, 1);
      out.push_back({in[0].shape, DType::bit});
      return out;
    },
    .shares = {{0, 0}},
    .zeros = clip_zeros,
    .cpu = {.run = run},
    .cuda = &clip_bits_cuda,
    .examples =
        {{.operands = {constant(example({3, 7}))}, .attrs = IntervalAttrs{}},
         {.operands = {constant(example({5, 13}, DType::f32, -3, 3))},
          .attrs = IntervalAttrs{-1, 1}},
         {.operands = {example({5, 13}, DType::bf16, -3, 3)}, .attrs = IntervalAttrs{-0.1f, 1.7f}},
         {.operands = {example({4, 9}, DType::f16)}, .attrs = IntervalAttrs{}, .unread = {1, 0}},
         {.operands = {constant(example({4, 9}))}, .attrs = IntervalAttrs{}, .unread = {0, 1}},
         {.operands = {constant(example({33, 1031}))}, .attrs = IntervalAttrs{0, 1}},
         {.operands = {example({33, 1031}, DType::bf16)}, .attrs = IntervalAttrs{}}},
};

}  // namespace pal
