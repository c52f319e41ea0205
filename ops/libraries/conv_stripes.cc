// Lines of which several make a stripe; the strides of its product's operands.
#include "ops/libraries/conv_stripes.h"

#include <algorithm>

namespace pal {

ConvStripes cut_into_stripes(const ConvShape& shape, int64_t most_bytes, DType type) {
  ConvStripes s{.n = shape.n,
                .groups = shape.groups,
                .c = shape.c / shape.groups,
                .o = shape.o / shape.groups,
                .taps = 1};
  constexpr ConvAxis kOne{.in = 1, .kernel = 1, .out = 1};
  // An image's lines are its rows, a film's its frames: what is missing is in the middle.
  const bool film = shape.axes == 3;
  s.axis = {shape.axis[0], film ? shape.axis[1] : kOne, shape.axis[film ? 2 : 1]};
  s.in_place = true;
  for (const ConvAxis& a : s.axis) {
    s.taps *= a.kernel;
    s.in_place &= a.kernel == 1 && a.stride == 1 && a.before == 0 && a.after == 0;
  }
  s.row = s.taps * s.c;
  s.pixels = s.axis[1].out * s.axis[2].out;
  s.lines = s.n * s.axis[0].out, s.stripe = s.lines;
  s.type = type, s.f32_y = shape.bias && type != DType::f32;
  const int64_t floats = (s.in_place ? 0 : s.taps * s.c) + (s.f32_y ? s.o : 0);
  if (floats == 0) return s;
  const int64_t line_bytes = s.pixels * s.groups * floats * int64_t(sizeof(float));
  s.stripe = std::clamp<int64_t>(most_bytes / line_bytes, 1, s.lines);
  const int64_t image = s.axis[0].out;
  if (s.stripe > image) s.stripe -= s.stripe % image;
  s.by_image = type != DType::f32 && s.stripe < image;
  return s;
}

void ConvStripes::pad_rows() {
  constexpr int64_t kMultiple = 8;
  if (!in_place && groups == 1) row = (row + kMultiple - 1) / kMultiple * kMultiple;
}

int64_t ConvStripes::sum_floats(ConvKind kind) const {
  if (kind == ConvKind::forward) return f32_y ? stripe * pixels * groups * o : 0;
  if (kind == ConvKind::weight_grad) return padded() ? o * row : 0;
  return by_image && !in_place ? axis[0].in * axis[1].in * axis[2].in * groups * c : 0;
}

int64_t ConvStripes::lines_from(int64_t line) const {
  const int64_t image = axis[0].out;
  return std::min(stripe, by_image ? image - line % image : lines - line);
}

ProductShape ConvStripes::product(ConvKind kind, int64_t of_lines) const {
  const int64_t rows = of_lines * pixels, columns = row;
  // Distances: group, row, column.
  using Strides = std::array<int64_t, 3>;
  const Strides windows =
      in_place ? Strides{c, groups * c, 1} : Strides{rows * columns, columns, 1};
  const Strides y{o, groups * o, 1}, w{o * columns, columns, 1};
  const auto transposed = [](const Strides& s) { return Strides{s[0], s[2], s[1]}; };
  ProductShape p{.batch = groups, .in = type, .out = type};
  switch (kind) {
    case ConvKind::forward:
      p.m = rows, p.n = o, p.k = columns;
      p.a = windows, p.b = transposed(w), p.c = y;
      if (f32_y) p.out = DType::f32;
      break;
    case ConvKind::data_grad:
      p.m = rows, p.n = columns, p.k = o;
      p.a = y, p.b = w, p.c = windows;
      p.out = window_type(kind);
      break;
    case ConvKind::weight_grad:
      p.m = o, p.n = columns, p.k = rows;
      p.a = transposed(y), p.b = windows, p.c = w;
      p.out = DType::f32;
      break;
  }
  return p;
}

}  // namespace pal
