// oneDNN's brgemm kernels share the m·n tiles among the threads and run through k in one fixed
// order, whoever does it, and for every offset of 4 bytes; but where a is transposed, k is 2048 or
// more and there are more threads than blocks of 64 columns, they split k among up to four threads.
// They do not where a is described as one of a time-major batch (of one), which is the same bytes:
// so these products are described. Where that cannot be, no more threads are asked for than there
// are blocks. Measured bit-identical for 1 to 16 threads: docs/decisions/determinism.md.
//
// On AMX its brgemm kernels of bf16 take k in as many goes as a thread's share of a cache has room
// for, and how much a thread has of m and n depends on how many there are: tile_sums.h. Where k may
// not be one go, weight gradients (a transposed) are computed in pieces of k that are one each, by
// all threads, one piece after the other; others as a batch of slabs of columns, or in parts by
// shape, one thread each.
//
// Its gemm kernels, the choice where there is no AVX-512, split k among the threads where m and n
// are small. There the product is cut into parts that depend on the shape alone (batch elements, or
// slabs of rows or columns), and each part is computed by one thread.
#include "ops/libraries/matmul_product.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <vector>

#include "core/parallel.h"
#include "ops/libraries/onednn.h"
#include "ops/libraries/tile_sums.h"

namespace pal {
namespace {

using onednn::Desc;
using onednn::Dims;
using onednn::Launch;

constexpr int64_t kSlabs = 16;      // at most so many parts of a product without a batch
constexpr int64_t kSlabWidth = 48;  // rows or columns of a part: a multiple of this
constexpr int64_t kTileSlab = 128;  // rows of a part on AMX: fewer pack b too often
constexpr int64_t kTileColumns = 64;

// oneDNN 2.6.3: a transposed a's sums of so many may be split, where threads outnumber the blocks
// of so many columns.
constexpr int64_t kSplitSum = 2048, kColumnBlock = 64;

bool may_split_sum(const ProductShape& s) { return s.a[1] == 1 && s.k >= kSplitSum; }

// `axes`: 2, or 4, of which the first has one element. With three, only batch-major operands reach
// the fast kernels.
Desc matrix(int axes, int64_t batch, DType type, int64_t rows, int64_t columns,
            const std::array<int64_t, 3>& stride) {
  const auto element = onednn::data_type(type);
  if (axes == 2) return {{rows, columns}, element, {stride[1], stride[2]}};
  const int64_t all = std::max({batch * stride[0], rows * stride[1], columns * stride[2]});
  return {{1, batch, rows, columns}, element, {all, stride[0], stride[1], stride[2]}};
}

Desc bias_desc(int axes, int64_t n) {
  const auto f32 = dnnl::memory::data_type::f32;
  return axes == 2 ? Desc({1, n}, f32, Dims{n, 1}) : Desc({1, 1, 1, n}, f32, Dims{n, n, n, 1});
}

Desc b_desc(int axes, const ProductShape& s) {
  if (!s.b_layout) return matrix(axes, s.batch, s.in, s.k, s.n, s.b);
  Desc packed = *static_cast<const Desc*>(s.b_layout->descriptor.get());
  return s.b_transposed ? packed.permute_axes({1, 0}) : packed;
}

bool has_tiles(const dnnl::matmul::primitive_desc& pd) {
  return std::string_view(pd.impl_info_str()).find("amx") != std::string_view::npos;
}

// oneDNN 2.6.3, on AMX: of 31 terms beyond a multiple of 32 the last go without tiles that are set
// up for them, an illegal instruction (oneDNN's issue 1661).
bool is_illegal(const dnnl::matmul::primitive_desc& pd, int64_t k) {
  return has_tiles(pd) && k % 32 == 31;
}

TileSum sum_of(const ProductShape& s) {
  return {.batch = s.batch,
          .m = s.m,
          .n = s.n,
          .k = s.k,
          .accumulate = s.accumulate,
          .to_f32 = s.out == DType::f32};
}

dnnl::matmul::primitive_desc describe(const Desc& a, const Desc& b, int axes,
                                      const ProductShape& s) {
  const Desc c = matrix(axes, s.batch, s.out, s.m, s.n, s.c);
  const dnnl::matmul::desc desc =
      s.bias ? dnnl::matmul::desc(a, b, bias_desc(axes, s.n), c) : dnnl::matmul::desc(a, b, c);
  dnnl::matmul::primitive_desc pd(desc, onednn::user_scratchpad(s.accumulate), onednn::engine());
  while (is_illegal(pd, s.k) && pd.next_impl()) {
  }
  return pd;
}

dnnl::matmul::primitive_desc describe(int axes, const ProductShape& s, const Desc& b) {
  return describe(matrix(axes, s.batch, s.in, s.m, s.k, s.a), b, axes, s);
}

// A part, which one thread computes.
dnnl::matmul::primitive_desc describe(const ProductShape& s) {
  const int axes = s.batch == 1 ? 2 : 4;
  return describe(axes, s, b_desc(axes, s));
}

std::unique_ptr<Launch> launch(const dnnl::matmul::primitive_desc& pd, bool bias) {
  std::vector<std::pair<int, Desc>> operands{{DNNL_ARG_SRC, pd.src_desc()},
                                             {DNNL_ARG_WEIGHTS, pd.weights_desc()},
                                             {DNNL_ARG_DST, pd.dst_desc()}};
  if (bias) operands.push_back({DNNL_ARG_BIAS, pd.bias_desc()});
  return std::make_unique<Launch>(dnnl::matmul(pd), pd.scratchpad_desc(), std::move(operands));
}

// As a matrix of a time-major batch of one, which is the same bytes: a: (1, k, batch, m).
ProductShape time_major(ProductShape s) {
  s.a[0] = s.m, s.b[0] = std::max(s.k * s.b[1], s.n * s.b[2]);
  s.c[0] = std::max(s.m * s.c[1], s.n * s.c[2]);
  return s;
}

// For many threads, none of which is given a part of a sum, nor orders it by how many there are.
// Null where the kernel is another kind. Made as well as described under one setting of threads: by
// it oneDNN finds what it made before.
std::unique_ptr<Launch> launch_whole(ProductShape s, int& threads) {
  int axes = s.batch == 1 ? 2 : 4;
  if (may_split_sum(s) && s.batch == 1 && !s.b_layout) {
    axes = 4, s = time_major(s);
  } else if (may_split_sum(s)) {
    const int64_t blocks = s.batch * ((s.n + kColumnBlock - 1) / kColumnBlock);
    threads = int(std::min<int64_t>(threads, blocks));
  }
  const onednn::ThreadScope scope(threads);
  const auto pd = describe(axes, s, b_desc(axes, s));
  if (!std::string_view(pd.impl_info_str()).starts_with("brg")) return nullptr;
  if (has_tiles(pd)) {
    const int most = threads_of_tile_sum(sum_of(s));
    if (most == 0) return nullptr;
    if (most < threads) return launch_whole(s, threads = most);
  }
  return launch(pd, s.bias);
}

// On AMX, as a batch of slabs of columns, all of the same rows of a: with so few columns a sum is
// one of more terms. Null where that is no dense batch, or no more of one.
std::unique_ptr<Launch> launch_columns(const ProductShape& s, int& threads) {
  const bool b_rows = s.b[1] == s.n && s.b[2] == 1, b_columns = s.b[1] == 1 && s.b[2] == s.k;
  if (s.batch > 1 || s.b_layout || s.bias || s.n % kTileColumns > 0) return nullptr;
  if (s.a[1] != s.k || s.a[2] != 1 || (!b_rows && !b_columns)) return nullptr;
  ProductShape slab = s;
  slab.batch = s.n / kTileColumns, slab.n = kTileColumns;
  slab.b[0] = kTileColumns * s.b[2], slab.c[0] = kTileColumns;
  const int most = threads_of_tile_sum(sum_of(slab));
  if (most == 0) return nullptr;
  const int asked = std::min(threads, most);
  const onednn::ThreadScope scope(asked);
  const Desc a({1, 1, s.m, s.k}, onednn::data_type(s.in), {s.m * s.k, s.m * s.k, s.k, 1});
  const auto pd = describe(a, b_desc(4, slab), 4, slab);
  if (!has_tiles(pd)) return nullptr;
  threads = asked;
  return launch(pd, false);
}

void start(Launch& launch, const void* a, const void* b, void* c, const void* bias,
           std::byte* scratch, int threads) {
  if (bias) {
    launch.run({a, b, c, bias, scratch}, threads);
  } else {
    launch.run({a, b, c, scratch}, threads);
  }
}

// Whether an element of a batch, or the only one, lies in one piece.
bool is_dense(int64_t rows, int64_t columns, const std::array<int64_t, 3>& stride) {
  return (stride[1] == columns && stride[2] == 1) || (stride[1] == 1 && stride[2] == rows);
}

}  // namespace

struct Product::Parts {
  ProductShape shape;
  std::unique_ptr<Launch> whole;  // null: in pieces of k, or in parts
  int threads = 1;                // that it was made for

  // Pieces of k, by all threads, one after the other: the first, those between, the last.
  std::unique_ptr<Launch> first, middle, end;
  int64_t pieces = 0;

  // By worker: the ordinary part and, where the extent is no multiple of it, the last.
  std::vector<std::unique_ptr<Launch>> each, last;
  int64_t count = 0;
  // Bytes from a part or a piece to the next.
  int64_t a_step = 0, b_step = 0, c_step = 0, bias_step = 0;
  int64_t scratch = 0;  // bytes of a worker, or of all

  void make(const Device& device) {
    threads = std::max(device.threads, 1);
    whole = launch_whole(shape, threads);
    if (whole) return;
    const onednn::ThreadScope alone(1);
    const int axes = shape.batch == 1 ? 2 : 4;
    if (!has_tiles(describe(shape))) return cut(device, kSlabWidth, shape.n >= shape.m);
    if (make_pieces()) return;
    whole = launch_columns(shape, threads);
    if (whole) return;
    const bool rows = shape.batch == 1 && shape.a[1] == shape.k && shape.a[2] == 1;
    const bool elements = shape.batch > 1 && is_dense(shape.m, shape.k, shape.a) &&
                          is_dense(shape.k, shape.n, shape.b) &&
                          is_dense(shape.m, shape.n, shape.c);
    if (rows || elements) return cut(device, kTileSlab, false);
    threads = 1;
    whole = launch(describe(axes, shape, b_desc(axes, shape)), shape.bias);
  }

  // Of weight gradients: a transposed, b not, so that a piece of k is one of both.
  bool make_pieces() {
    const ProductShape& s = shape;
    if (s.batch > 1 || s.b_layout || s.out != DType::f32) return false;
    if (s.a[1] != 1 || s.a[2] != s.m || s.b[1] != s.n || s.b[2] != 1) return false;
    const int64_t most = tile_piece(s.m, s.n);
    if (most == 0) return false;
    pieces = (s.k + most - 1) / most;
    ProductShape one = s;
    one.k = ((s.k + pieces - 1) / pieces + 31) / 32 * 32;
    pieces = (s.k + one.k - 1) / one.k;
    a_step = one.k * s.a[2] * bits(s.in) / 8, b_step = one.k * s.b[1] * bits(s.in) / 8;
    const onednn::ThreadScope scope(threads);
    first = launch(describe(one), one.bias);
    one.accumulate = true, one.bias = false;
    middle = launch(describe(one), false);
    one.k = s.k - (pieces - 1) * one.k;
    end = launch(describe(one), false);
    scratch =
        align_up(std::max({first->scratch_bytes(), middle->scratch_bytes(), end->scratch_bytes()}));
    return true;
  }

  void cut(const Device& device, int64_t width, bool columns) {
    ProductShape one = shape, tail = shape;
    const int64_t in = bits(shape.in) / 8, out = bits(shape.out) / 8;
    if (shape.batch > 1) {
      one.batch = tail.batch = 1;
      count = shape.batch;
      a_step = shape.a[0] * in, b_step = shape.b[0] * in, c_step = shape.c[0] * out;
    } else {
      columns &= !shape.b_layout;  // whose blocks another part need not end with
      const int64_t extent = columns ? shape.n : shape.m;
      const int64_t least = (extent + kSlabs - 1) / kSlabs;
      const int64_t slab = (least + width - 1) / width * width;
      count = (extent + slab - 1) / slab;
      (columns ? one.n : one.m) = std::min(slab, extent);
      (columns ? tail.n : tail.m) = extent - (count - 1) * slab;
      if (columns) {
        b_step = slab * shape.b[2] * in, c_step = slab * shape.c[2] * out, bias_step = slab * 4;
      } else {
        a_step = slab * shape.a[1] * in, c_step = slab * shape.c[1] * out;
      }
    }
    const onednn::ThreadScope alone(1);
    const auto pd = describe(one), pd_last = describe(tail);
    for (int64_t w = 0; w < std::clamp<int64_t>(device.threads, 1, count); ++w) {
      each.push_back(launch(pd, shape.bias));
      last.push_back(launch(pd_last, shape.bias));
    }
    scratch = align_up(std::max(each[0]->scratch_bytes(), last[0]->scratch_bytes()));
  }

  int64_t scratch_bytes() const {
    return whole ? whole->scratch_bytes() : scratch * int64_t(pieces > 0 ? 1 : each.size());
  }

  void run_pieces(const char* a, const char* b, void* c, const void* bias, std::byte* workspace,
                  int workers) {
    start(*first, a, b, c, bias, workspace, workers);
    for (int64_t i = 1; i < pieces; ++i) {
      start(*(i + 1 == pieces ? end : middle), a + i * a_step, b + i * b_step, c, nullptr,
            workspace, workers);
    }
  }

  void run_part(int64_t i, const char* a, const char* b, char* c, const char* bias,
                std::byte* workspace) {
    const size_t worker = size_t(omp_get_thread_num());
    start(*(i + 1 == count ? last : each)[worker], a + i * a_step, b + i * b_step, c + i * c_step,
          bias ? bias + i * bias_step : nullptr, workspace + int64_t(worker) * scratch, 1);
  }
};

Product::Product(const Device& device, const ProductShape& shape)
    : parts_(std::make_unique<Parts>()) {
  parts_->shape = shape;
  parts_->make(device);
}

Product::~Product() = default;

int64_t Product::workspace() const { return parts_->scratch_bytes(); }

void Product::run(const void* a, const void* b, void* c, const void* bias, std::byte* workspace,
                  const Queue& queue) const {
  const int threads = std::clamp(queue.workers, 1, parts_->threads);
  if (parts_->whole) return start(*parts_->whole, a, b, c, bias, workspace, threads);
  const auto *a_bytes = static_cast<const char*>(a), *b_bytes = static_cast<const char*>(b);
  if (parts_->pieces > 0) {
    return parts_->run_pieces(a_bytes, b_bytes, c, bias, workspace, threads);
  }
  Queue workers = queue;  // no more of them than prepare made room for
  workers.workers = std::min(queue.workers, int(parts_->each.size()));
  parallel_chunks(workers, parts_->count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      parts_->run_part(i, a_bytes, b_bytes, static_cast<char*>(c), static_cast<const char*>(bias),
                       workspace);
    }
  });
}

bool Product::has_bf16() {
  constexpr auto wanted = unsigned(dnnl::cpu_isa::avx512_core_bf16);
  return (unsigned(dnnl::get_effective_cpu_isa()) & wanted) == wanted;
}

Layout Product::packed_b(const Device& device, const ProductShape& shape) {
  if (may_split_sum(shape)) return nullptr;
  const onednn::ThreadScope threads(std::max(device.threads, 1));
  const Desc any({shape.k, shape.n}, onednn::data_type(shape.in), dnnl::memory::format_tag::any);
  const auto pd = describe(2, shape, any);
  if (std::strncmp(pd.impl_info_str(), "brg", 3) != 0) return nullptr;
  // How wide the blocks are follows from the number of threads, and how a sum is cut from them.
  const TileSum sum{.m = shape.m, .n = shape.n, .k = shape.k, .accumulate = true};
  if (has_tiles(pd) && threads_of_tile_sum(sum) == 0) return nullptr;
  const Desc chosen = pd.weights_desc();
  return onednn::layout_of(shape.b_transposed ? chosen.permute_axes({1, 0}) : chosen);
}

}  // namespace pal
