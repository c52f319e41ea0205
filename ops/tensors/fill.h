// A constant in every element.
#pragma once
#include "core/builder.h"
#include "core/op.h"

namespace pal {

struct FillAttrs {
  Shape shape;
  DType dtype = DType::f32;
  float value = 0;
  auto fields() const {
    return std::tuple{field("shape", shape), field("dtype", dtype), field("value", value)};
  }
};

extern const OpDef fill_op;
[[gnu::weak]] extern const Backend fill_cuda;

// A tensor of the spec with `value` everywhere (rounded to its type; integers truncated; a bit is
// value > 0). The spec is plain.
Val fill(Builder& builder, const TensorSpec& spec, float value);
inline Val zeros(Builder& builder, const TensorSpec& spec) { return fill(builder, spec, 0); }

}  // namespace pal
