// y[i] = value. It reads nothing, so there is no gradient.
#include "ops/tensors/fill.h"

#include <algorithm>
#include <cstring>

#include "core/builder.h"
#include "ops/kernels/tiles.h"

namespace pal {
namespace {

template <class T> void fill_with(const KernelArgs& a, int64_t n, T value) {
  T* y = a.output<T>(0);
  parallel_chunks(a.queue, n, kElementGrain,
                  [&](int64_t begin, int64_t end) { std::fill(y + begin, y + end, value); });
}

void run(const KernelArgs& a) {
  const float value = a.attrs.as<FillAttrs>().value;
  const TensorSpec& spec = a.out_spec[0];
  const int64_t n = spec.numel();
  switch (spec.dtype) {
    case DType::f32: return fill_with(a, n, value);
    case DType::bf16: return fill_with(a, n, from_float<bf16>(value));
    case DType::f16: return fill_with(a, n, from_float<f16>(value));
    case DType::i32: return fill_with(a, n, int32_t(value));
    case DType::u8: return fill_with(a, n, uint8_t(value));
    case DType::u4:
      fill_with(a, spec.bytes(), uint8_t((uint32_t(value) & 15u) * 0x11u));
      if (n % 2) a.output<uint8_t>(0)[n / 2] &= 15;
      return;
    case DType::bit: break;
  }
  fill_with(a, spec.bytes(), uint8_t(value > 0 ? 0xff : 0));
  if (value > 0 && n % 8) a.output<uint8_t>(0)[n / 8] = uint8_t((1u << (n % 8)) - 1);
}

}  // namespace

const OpDef fill_op{
    .name = "fill",
    .formula = "value everywhere",
    .infer = [](SpecSpan in, const Attrs& attrs) -> Specs {
      require_operands(in, 0, 0);
      auto& fill = attrs.as<FillAttrs>();
      return {{fill.shape, fill.dtype}};
    },
    .cpu = {.run = run},
    .cuda = &fill_cuda,
    .examples = {{.attrs = FillAttrs{{3, 7}, DType::f32, 1.5f}},
                 {.attrs = FillAttrs{{3, 7}, DType::bf16, -2}},
                 {.attrs = FillAttrs{{11}, DType::bit, 1}},
                 {.attrs = FillAttrs{{5}, DType::u8, 7}},
                 {.attrs = FillAttrs{{11}, DType::u4, 13}},
                 {.attrs = FillAttrs{{3, 8}, DType::u4, 6}},
                 {.attrs = FillAttrs{{70001}, DType::i32, 3}}},
};

Val fill(Builder& builder, const TensorSpec& spec, float value) {
  return builder.emit1(fill_op, {}, FillAttrs{spec.shape, spec.dtype, value});
}

}  // namespace pal
