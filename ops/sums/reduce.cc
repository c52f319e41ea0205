// sum_leading: y_c = sum_r x_rc, dx_rc = dy_c.              sum_all: y = sum_i x_i, dx_i = dy.
// broadcast_leading: y_rc = x_c, dx_c = sum_r dy_rc.        add_broadcast: y_rc = x_rc + b_c.
#include "ops/sums/reduce.h"

#include "core/gradient.h"
#include "ops/kernels/float_types.h"
#include "ops/kernels/rows.h"
#include "ops/kernels/tiles.h"
#include "ops/tensors/casts.h"
#include "ops/tensors/views.h"

namespace pal {
namespace {

constexpr int64_t kColumns = 128;  // that a task sums at a time
constexpr int64_t kSumLanes = 16,
                  kRun = 4096;  // sum_all: columns it deals elements out to; a chunk

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
Shape suffix(const Shape& shape, int from) {
  Shape out;
  for (int i = from; i < shape.rank(); ++i) out.append(shape[i]);
  return out;
}
bool is_suffix(const Shape& part, const Shape& whole) {
  return part.rank() <= whole.rank() && suffix(whole, whole.rank() - part.rank()) == part;
}

// to[j] = sum of rows [begin, end) of columns [column, column + n) of x (.., width).
template <class T>
void sum_block(const T* x, int64_t width, int64_t begin, int64_t end, int64_t column, int64_t n,
               float* to) {
  for (int64_t j = 0; j < n; ++j) to[j] = 0;
  for (int64_t r = begin; r < end; ++r) {
    const T* row = x + r * width + column;
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) to[j] += load(row, j);
  }
}

// The same of a chunk's rows, run by run.
template <class T>
void sum_runs(const T* x, int64_t width, int64_t begin, int64_t end, int64_t column, int64_t n,
              float* to) {
  alignas(64) float run[kColumns];
  for (int64_t j = 0; j < n; ++j) to[j] = 0;
  for (int64_t r = begin; r < end; r += kSumRun) {
    sum_block(x, width, r, std::min(end, r + kSumRun), column, n, run);
    for (int64_t j = 0; j < n; ++j) to[j] += run[j];
  }
}

// to[j] = sum of the chunks' sums, group by group, of columns [column, column + n).
void sum_chunks(const float* partial, int64_t width, int64_t chunks, int64_t column, int64_t n,
                float* to) {
  if (chunks <= kSumChunks) return sum_block(partial, width, 0, chunks, column, n, to);
  alignas(64) float group[kColumns];
  for (int64_t j = 0; j < n; ++j) to[j] = 0;
  for (int64_t c = 0; c < chunks; c += kSumChunks) {
    sum_block(partial, width, c, std::min(chunks, c + kSumChunks), column, n, group);
    for (int64_t j = 0; j < n; ++j) to[j] += group[j];
  }
}

// Partial sums of every kSumRows rows (sum_runs), then those in order, then the sum so far.
template <class T> void sum_leading(const KernelArgs& a) {
  const T* x = a.input<T>(0);
  const int64_t rows = leading_numel(a.in_spec[0].shape, a.attrs.as<SumLeadingAttrs>().axes);
  const int64_t width = a.out_spec[0].numel(), blocks = ceil_div(width, kColumns);
  const int64_t stride = rows ? a.in_spec[0].numel() / rows : 0;
  const int64_t chunks = std::max<int64_t>(1, ceil_div(rows, kSumRows));
  const DType type = a.out_spec[0].dtype;
  if (width == 0) return;
  float* partial = reinterpret_cast<float*>(a.workspace);
  if (chunks > 1) {
    const int64_t grain = ceil_div(kElementGrain, kSumRows * std::min(width, kColumns));
    parallel_chunks(a.queue, chunks * blocks, grain, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t c = task / blocks, column = task % blocks * kColumns;
        const int64_t n = std::min(kColumns, width - column);
        alignas(64) float sums[kColumns];
        sum_runs(x, stride, c * kSumRows, std::min(rows, (c + 1) * kSumRows), column, n, sums);
        store_tile(partial, DType::f32, c * width + column, n, sums);
      }
    });
  }
  const int64_t grain = ceil_div(kElementGrain, (chunks > 1 ? chunks : rows + 1) * kColumns);
  parallel_chunks(a.queue, blocks, grain, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const int64_t column = block * kColumns, n = std::min(kColumns, width - column);
      alignas(64) float sums[kColumns], buffer[kColumns];
      if (chunks > 1)
        sum_chunks(partial, width, chunks, column, n, sums);
      else
        sum_runs(x, stride, 0, rows, column, n, sums);
      if (a.input(1)) {
        const float* so_far = load_tile(a.in[1], type, column, n, buffer);
        for (int64_t j = 0; j < n; ++j) sums[j] = so_far[j] + sums[j];
      }
      store_tile(a.out[0], type, column, n, sums);
    }
  });
}

void run_sum_leading(const KernelArgs& a) {
  by_float_type(a.in_spec[0].dtype, [&]<class T>(T) { sum_leading<T>(a); });
}

Prepared prepare_sum_leading(const Device&, SpecSpan in, SpecSpan out, const Attrs& attrs) {
  const int64_t rows = leading_numel(in[0].shape, attrs.as<SumLeadingAttrs>().axes);
  const int64_t chunks = ceil_div(rows, kSumRows);
  return {.state = nullptr, .workspace = chunks > 1 ? chunks * out[0].numel() * 4 : 0};
}

// Elements are dealt out to kSumLanes columns, whose sums are then added in order.
template <class T> void sum_all(const KernelArgs& a) {
  const T* x = a.input<T>(0);
  const int64_t size = a.in_spec[0].numel();
  float* partial = reinterpret_cast<float*>(a.workspace);
  parallel_chunks(a.queue, ceil_div(size, kRun), kElementGrain / kRun, [&](int64_t b, int64_t e) {
    for (int64_t chunk = b; chunk < e; ++chunk) {
      const int64_t begin = chunk * kRun, n = std::min(kRun, size - begin), whole = n / kSumLanes;
      float lanes[kSumLanes];
      sum_block(x + begin, kSumLanes, 0, whole, 0, kSumLanes, lanes);
      for (int64_t j = whole * kSumLanes; j < n; ++j) lanes[j % kSumLanes] += load(x, begin + j);
      float sum = 0;
      for (float lane : lanes) sum += lane;
      partial[chunk] = sum;
    }
  });
  a.output(0)[0] =
      float(tree_sum(ceil_div(size, kRun), [&](int64_t chunk) { return double(partial[chunk]); }));
}

void run_sum_all(const KernelArgs& a) {
  by_float_type(a.in_spec[0].dtype, [&]<class T>(T) { sum_all<T>(a); });
}

template <class T> void repeat_number(const KernelArgs& a) {
  T* y = a.output<T>(0);
  parallel_chunks(a.queue, a.out_spec[0].numel(), kElementGrain, [&](int64_t begin, int64_t end) {
    std::fill(y + begin, y + end, a.input<T>(0)[0]);
  });
}

void run_broadcast(const KernelArgs& a) {
  const int64_t width = a.in_spec[0].numel(), rows = width ? a.out_spec[0].numel() / width : 0;
  const int64_t bytes = a.in_spec[0].bytes();
  if (width > 1) return copy_rows(a.queue, a.out[0], bytes, a.in[0], 0, rows, bytes);
  if (bits(a.in_spec[0].dtype) == 32) return repeat_number<uint32_t>(a);
  repeat_number<uint16_t>(a);
}

void run_add_broadcast(const KernelArgs& a) {
  const DType type = a.out_spec[0].dtype, b_type = a.in_spec[1].dtype;
  const int64_t width = a.in_spec[1].numel(), tiles = ceil_div(width, kTile);
  if (width == 0) return;
  const int64_t rows = a.out_spec[0].numel() / width;
  const int64_t grain = ceil_div(kElementGrain, std::min(width, kTile));
  parallel_chunks(a.queue, rows * tiles, grain, [&](int64_t begin, int64_t end) {
    alignas(64) float buffer[3][kTile];
    for (int64_t task = begin; task < end; ++task) {
      const int64_t column = task % tiles * kTile, i = task / tiles * width + column;
      const int64_t n = std::min(kTile, width - column);
      const float* x = load_tile(a.in[0], type, i, n, buffer[0]);
      const float* b = load_tile(a.in[1], b_type, column, n, buffer[1]);
      float* y = tile_to_fill(a.out[0], type, i, buffer[2]);
#pragma omp simd
      for (int64_t j = 0; j < n; ++j) y[j] = x[j] + b[j];
      if (type != DType::f32) store_tile(a.out[0], type, i, n, y);
    }
  });
}

}  // namespace

const OpDef sum_leading_op{
    .name = "sum_leading",
    .formula = "sum + x summed over its first axes",
    .infer = [](SpecSpan in, const Attrs& attrs) -> Specs {
      auto& sum = attrs.as<SumLeadingAttrs>();
      require_operands(in, 1, 2);
      require(is_float(in[0].dtype) && is_float(sum.dtype), in[0], ": not floating-point");
      require(0 < sum.axes && sum.axes < in[0].shape.rank(), in[0], ": cannot sum over ", sum.axes,
              " axes");
      TensorSpec out{suffix(in[0].shape, sum.axes), sum.dtype};
      require(0 <= sum.columns && (sum.columns == 0 || out.shape.rank() == 1) &&
                  sum.columns <= out.shape.back(),
              in[0], ": has no ", sum.columns, " columns");
      if (sum.columns) out.shape = {sum.columns};
      require(in.size() < 2 || in[1].shape.rank() == 0 || in[1] == out, in[0], ", ", in[1],
              ": the sum so far should be ", out);
      return {out};
    },
    .gradient =
        [](GradientArgs& g) {
          const TensorSpec& x = g.in(0).spec();
          require_of(sum_leading_op, g.attrs<SumLeadingAttrs>().columns == 0,
                     "rows are widened behind the gradients");
          if (g.wants(0)) g.give(0, broadcast_leading(cast(g.dy(), x.dtype), x.shape));
          g.give(1, g.dy());
        },
    .optional_from = 1,
    .shares = {{0, 1}},
    .rows = [](const Attrs&) -> Rows { return {.operands = 1, .sum = 1}; },
    .cost = [](SpecSpan in, SpecSpan out, const Attrs&) -> Cost {
      return {double(in[0].numel()), double(in[0].bytes() + 2 * out[0].bytes())};
    },
    .cpu = {.run = run_sum_leading, .prepare = prepare_sum_leading},
    .cuda = &sum_leading_cuda,
    .examples = {{.operands = {example({3, 7}), absent_example()}, .attrs = SumLeadingAttrs{1}},
                 {.operands = {example({3, 5, 7}), example({7})}, .attrs = SumLeadingAttrs{2}},
                 {.operands = {example({5, 13}, DType::bf16), example({13}, DType::bf16)},
                  .attrs = SumLeadingAttrs{1, DType::bf16}},
                 {.operands = {example({9, 67, 131}), example({131})}, .attrs = SumLeadingAttrs{2}},
                 {.operands = {example({3, 20000}), absent_example()}, .attrs = SumLeadingAttrs{1}},
                 {.operands = {example({300, 9000}, DType::bf16), example({9000})},
                  .attrs = SumLeadingAttrs{1}},
                 {.operands = {constant(example({5, 40}, DType::bf16)), constant(example({37}))},
                  .attrs = SumLeadingAttrs{1, DType::f32, 37}},
                 {.operands = {constant(example({300, 40}, DType::bf16)), absent_example()},
                  .attrs = SumLeadingAttrs{1, DType::f32, 33}}},
};

const OpDef sum_all_op{
    .name = "sum_all",
    .formula = "sum of all x",
    .infer = [](SpecSpan in, const Attrs&) -> Specs {
      require_operands(in, 1, 1);
      require(is_float(in[0].dtype), in[0], ": not floating-point");
      return {{{1}, DType::f32}};
    },
    .gradient =
        [](GradientArgs& g) {
          const TensorSpec& x = g.in(0).spec();
          g.give(0, broadcast_leading(cast(g.dy(), x.dtype), x.shape));
        },
    .cost = [](SpecSpan in, SpecSpan, const Attrs&) -> Cost {
      return {double(in[0].numel()), double(in[0].bytes())};
    },
    .cpu = {.run = run_sum_all,
            .prepare =
                [](const Device&, SpecSpan in, SpecSpan, const Attrs&) {
                  return Prepared{.state = nullptr, .workspace = 4 * ceil_div(in[0].numel(), kRun)};
                }},
    .cuda = &sum_all_cuda,
    .examples = {{.operands = {example({3, 7})}},
                 {.operands = {example({5, 13}, DType::f16)}},
                 {.operands = {example({33, 1031})}}},
};

const OpDef broadcast_leading_op{
    .name = "broadcast_leading",
    .formula = "x for every index of new leading axes",
    .infer = [](SpecSpan in, const Attrs& attrs) -> Specs {
      auto& shape = attrs.as<BroadcastAttrs>().shape;
      require_operands(in, 1, 1);
      require(is_float(in[0].dtype) && (in[0].numel() == 1 || is_suffix(in[0].shape, shape)), in[0],
              " to ", shape, ": not the trailing axes");
      return {{shape, in[0].dtype}};
    },
    .gradient =
        [](GradientArgs& g) {
          const TensorSpec& x = g.in(0).spec();
          const int axes = g.dy().shape().rank() - x.shape.rank();
          if (x.numel() == 1) return g.give(0, reshape(cast(sum_all(g.dy()), x.dtype), x.shape));
          g.give(0, axes ? sum_leading(g.dy(), axes) : g.dy());
        },
    .zeros = keeps_zeros,
    .cpu = {.run = run_broadcast},
    .cuda = &broadcast_leading_cuda,
    .examples = {{.operands = {example({7})}, .attrs = BroadcastAttrs{{3, 7}}},
                 {.operands = {example({1})}, .attrs = BroadcastAttrs{{3, 7}}},
                 {.operands = {example({1}, DType::bf16)}, .attrs = BroadcastAttrs{{2, 3}}},
                 {.operands = {example({13}, DType::bf16)}, .attrs = BroadcastAttrs{{5, 13}}},
                 {.operands = {example({1031})}, .attrs = BroadcastAttrs{{33, 1031}}}},
};

const OpDef add_broadcast_op{
    .name = "add_broadcast",
    .formula = "x + b for every leading index",
    .infer = [](SpecSpan in, const Attrs&) -> Specs {
      require_operands(in, 2, 2);
      require(is_float(in[0].dtype) && is_float(in[1].dtype), in[0], ", ", in[1],
              ": not floating-point");
      require(in[1].shape.rank() > 0 && is_suffix(in[1].shape, in[0].shape), in[0], ", ", in[1],
              ": not the trailing axes");
      return {{in[0].shape, in[0].dtype}};
    },
    .gradient =
        [](GradientArgs& g) {
          g.give(0, g.dy());
          if (!g.wants(1)) return;
          const int axes = g.dy().shape().rank() - g.in(1).shape().rank();
          if (axes == 0) return g.give(1, cast(g.dy(), g.type(1)));
          g.give(1, g.builder.emit1(sum_leading_op, {g.dy(), g.take_sum(1)},
                                    SumLeadingAttrs{axes, g.type(1)}));
        },
    .shares = {{0, 0}},
    .rows = rows_of_first,
    .cpu = {.run = run_add_broadcast},
    .cuda = &add_broadcast_cuda,
    .examples = {{.operands = {example({3, 7}), example({7})}},
                 {.operands = {example({4, 3, 5}), example({3, 5})}},
                 {.operands = {example({5, 13}, DType::bf16), example({13})}},
                 {.operands = {example({33, 1031}), example({1031})}},
                 {.operands = {example({3, 4530}, DType::bf16), example({4530})}},
                 {.operands = {example({3, 4532}, DType::bf16), example({4532}, DType::bf16)}}},
};

Val sum_leading(Val x, int axes, Val sum) {
  const DType type = sum ? sum.spec().dtype : x.spec().dtype;
  return x.builder->emit1(sum_leading_op, {x, sum}, SumLeadingAttrs{axes, type});
}
Val sum_rows(Val x, Val sum) {
  return x.builder->emit1(sum_leading_op, {x, sum},
                          SumLeadingAttrs{x.shape().rank() - 1, DType::f32});
}
Val sum_all(Val x) { return x.builder->emit1(sum_all_op, {x}); }
Val broadcast_leading(Val x, const Shape& shape) {
  return x.builder->emit1(broadcast_leading_op, {x}, BroadcastAttrs{shape});
}
Val add_broadcast(Val x, Val b) { return x.builder->emit1(add_broadcast_op, {x, b}); }

}  // namespace pal
