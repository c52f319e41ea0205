// The matrix of windows has a row for every output pixel of a stripe and a column for every tap and
// channel of a block of taps: so large that a product is worth its start, so small that it stays in
// the second cache.
#include "ops/libraries/conv_windows.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/error.h"
#include "ops/libraries/onednn.h"

namespace pal {
namespace {

using onednn::Desc;
using onednn::Dims;
using onednn::Launch;

constexpr int64_t kColumns = 256;                     // of a block, at least
constexpr int64_t kMatrixBytes = int64_t{512} << 10;  // of a stripe's block, at most

struct Strided {
  int64_t rows, columns, row_stride, column_stride;
  Desc desc() const {
    return {{rows, columns}, dnnl::memory::data_type::f32, Dims{row_stride, column_stride}};
  }
};

// c = a b, or c += a b.
std::unique_ptr<Launch> product(const Strided& a, const Strided& b, const Strided& c, bool add) {
  const dnnl::matmul::primitive_desc pd(dnnl::matmul::desc(a.desc(), b.desc(), c.desc()),
                                        onednn::user_scratchpad(add), onednn::engine());
  return std::make_unique<Launch>(
      dnnl::matmul(pd), pd.scratchpad_desc(),
      std::vector<std::pair<int, Desc>>{
          {DNNL_ARG_SRC, a.desc()}, {DNNL_ARG_WEIGHTS, b.desc()}, {DNNL_ARG_DST, c.desc()}});
}

}  // namespace

struct ConvWindows::Parts {
  ConvKind kind;
  ConvShape shape;
  ConvAxis last;                             // the innermost axis
  int64_t tap_rows = 1, run = 0;             // rows of taps, and the floats of one
  int64_t block = 1, stripe = 1;             // rows of taps, output pixels at a time
  std::unique_ptr<Launch> product_of[2][2];  // [the last stripe][the last block]
  int64_t matrix = 0, scratch = 0;           // bytes: the windows; theirs and a product's

  std::unique_ptr<Launch> describe(int64_t pixels, int64_t columns) const {
    const int64_t all = tap_rows * run, o = shape.o;
    if (kind == ConvKind::data_grad)
      return product({pixels, o, o, 1}, {o, columns, all, 1}, {pixels, columns, columns, 1}, false);
    return product({o, pixels, 1, o}, {pixels, columns, columns, 1}, {o, columns, all, 1}, true);
  }

  // Calls piece(image offset, windows offset, floats) for the taps of a block that lie inside the
  // image, pixel by pixel, and outside(windows offset, floats) for the others.
  template <class Inside, class Outside>
  void visit(int64_t first_pixel, int64_t pixels, int64_t first_row, int64_t rows, Inside inside,
             Outside outside) const {
    for (int64_t p = 0; p < pixels; ++p) {
      int64_t at[ConvShape::kMaxAxes], pixel = first_pixel + p;
      for (int i = shape.axes - 1; i >= 0; --i) {
        const ConvAxis& a = shape.axis[size_t(i)];
        at[i] = pixel % a.out * a.stride - a.before, pixel /= a.out;
      }
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t windows = (p * rows + r) * run;
        int64_t row = 0, scale = 1, tap = first_row + r;  // of the image; of the kernel
        bool in_image = true;
        for (int i = shape.axes - 2; i >= 0; --i) {
          const ConvAxis& a = shape.axis[size_t(i)];
          const int64_t index = at[i] + tap % a.kernel * a.dilation;
          in_image &= index >= 0 && index < a.in;
          row += index * scale, scale *= a.in, tap /= a.kernel;
        }
        if (!in_image) {
          outside(windows, run);
          continue;
        }
        visit_row(at[shape.axes - 1], row * last.in, windows, inside, outside);
      }
    }
  }

  // One row of taps from index `at` of the innermost axis on; adjoining taps in one piece.
  template <class Inside, class Outside>
  void visit_row(int64_t at, int64_t row, int64_t windows, Inside inside, Outside outside) const {
    const int64_t c = shape.c;
    const auto clamped = [&](int64_t index) {  // the first tap at or beyond it
      return std::clamp<int64_t>((index - at + last.dilation - 1) / last.dilation, 0, last.kernel);
    };
    const int64_t from = at >= 0 ? 0 : clamped(0), to = at >= last.in ? 0 : clamped(last.in);
    if (from >= to) return outside(windows, run);
    if (from > 0) outside(windows, from * c);
    if (last.dilation == 1) {
      inside((row + at + from) * c, windows + from * c, (to - from) * c);
    } else {
      for (int64_t k = from; k < to; ++k)
        inside((row + at + k * last.dilation) * c, windows + k * c, c);
    }
    if (to < last.kernel) outside(windows + to * c, (last.kernel - to) * c);
  }

  template <class F> void for_each_block(F f) const {
    const int64_t all = shape.pixels_out();
    for (int64_t pixel = 0; pixel < all; pixel += stripe)
      for (int64_t row = 0; row < tap_rows; row += block)
        f(pixel, std::min(stripe, all - pixel), row, std::min(block, tap_rows - row));
  }

  Launch& product_for(int64_t pixels, int64_t rows) const {
    return *product_of[pixels != stripe][rows != block];
  }

  void weight_grad(const float* x, const float* dy, float* dw, float* windows,
                   std::byte* scratchpad) const {
    for_each_block([&](int64_t pixel, int64_t pixels, int64_t row, int64_t rows) {
      visit(
          pixel, pixels, row, rows,
          [&](int64_t from, int64_t to, int64_t n) {
            std::memcpy(windows + to, x + from, size_t(n) * sizeof(float));
          },
          [&](int64_t to, int64_t n) { std::memset(windows + to, 0, size_t(n) * sizeof(float)); });
      product_for(pixels, rows).run({dy + pixel * shape.o, windows, dw + row * run, scratchpad}, 1);
    });
  }

  void data_grad(const float* dy, const float* w, float* dx, float* windows,
                 std::byte* scratchpad) const {
    for_each_block([&](int64_t pixel, int64_t pixels, int64_t row, int64_t rows) {
      product_for(pixels, rows).run({dy + pixel * shape.o, w + row * run, windows, scratchpad}, 1);
      visit(
          pixel, pixels, row, rows,
          [&](int64_t to, int64_t from, int64_t n) {
            for (int64_t i = 0; i < n; ++i) dx[to + i] += windows[from + i];
          },
          [](int64_t, int64_t) {});
    });
  }
};

ConvWindows::ConvWindows(ConvKind kind, const ConvShape& shape)
    : parts_(std::make_unique<Parts>()) {
  require(kind != ConvKind::forward && shape.groups == 1, "convolution",
          "only gradients without groups are computed from windows");
  Parts& p = *parts_;
  p.kind = kind, p.shape = shape, p.last = shape.axis[size_t(shape.axes - 1)];
  for (int i = 0; i + 1 < shape.axes; ++i) p.tap_rows *= shape.axis[size_t(i)].kernel;
  p.run = p.last.kernel * shape.c;
  p.block = std::min(p.tap_rows, (kColumns + p.run - 1) / p.run);
  const int64_t columns = p.block * p.run, pixels = shape.pixels_out();
  p.stripe =
      std::clamp<int64_t>(kMatrixBytes / (columns * 4), std::min<int64_t>(16, pixels), pixels);
  const int64_t heights[] = {p.stripe, pixels % p.stripe};
  const int64_t widths[] = {columns, p.tap_rows % p.block * p.run};
  const onednn::ThreadScope alone(1);
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j) {
      if (heights[i] == 0 || widths[j] == 0) continue;
      p.product_of[i][j] = p.describe(heights[i], widths[j]);
      p.scratch = std::max(p.scratch, p.product_of[i][j]->scratch_bytes());
    }
  p.matrix = align_up(p.stripe * columns * 4);
  p.scratch = align_up(p.scratch) + p.matrix;
}

ConvWindows::~ConvWindows() = default;

int64_t ConvWindows::scratch_bytes() const { return parts_->scratch; }

void ConvWindows::run(int64_t images, const float* a, const float* b, float* out,
                      std::byte* scratch) const {
  const Parts& p = *parts_;
  const bool data = p.kind == ConvKind::data_grad;
  const int64_t x_step = p.shape.pixels_in() * p.shape.c;
  const int64_t y_step = p.shape.pixels_out() * p.shape.o;
  float* windows = reinterpret_cast<float*>(scratch);
  std::byte* scratchpad = scratch + p.matrix;
  std::memset(out, 0, size_t(data ? images * x_step : p.shape.weights()) * sizeof(float));
  for (int64_t i = 0; i < images; ++i) {
    if (data) {
      p.data_grad(a + i * y_step, b, out + i * x_step, windows, scratchpad);
    } else {
      p.weight_grad(a + i * x_step, b + i * y_step, out, windows, scratchpad);
    }
  }
}

}  // namespace pal
