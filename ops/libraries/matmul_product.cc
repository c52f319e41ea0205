// oneDNN's brgemm kernels share the m·n tiles among the threads and run through k in one fixed
// order, whoever does it, and for every offset of 4 bytes; but where a is transposed, k is 2048 or
// more and there are more threads than blocks of 64 columns, they split k among up to four threads.
// They do not where a is described as one of a time-major batch (of one), which is the same bytes:
// so these products are described. Where that cannot be, no more threads are asked for than there
// are blocks. Measured bit-identical for 1 to 16 threads: docs/decisions/determinism.md.
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

namespace pal {
namespace {

using onednn::Desc;
using onednn::Dims;
using onednn::Launch;

constexpr int64_t kSlabs = 16;      // at most so many parts of a product without a batch
constexpr int64_t kSlabWidth = 48;  // rows or columns of a part: a multiple of this

// oneDNN 2.6.3: a transposed a's sums of so many may be split, where threads outnumber the blocks
// of so many columns. On AMX, sums of more than the third number may be, by so many threads.
constexpr int64_t kSplitSum = 2048, kColumnBlock = 64, kSplitTileSum = 1024;
constexpr int kSplitTileThreads = 16;

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

dnnl::matmul::primitive_desc describe(int axes, const ProductShape& s, const Desc& b) {
  const Desc a = matrix(axes, s.batch, s.in, s.m, s.k, s.a);
  const Desc c = matrix(axes, s.batch, s.out, s.m, s.n, s.c);
  const dnnl::matmul::desc desc =
      s.bias ? dnnl::matmul::desc(a, b, bias_desc(axes, s.n), c) : dnnl::matmul::desc(a, b, c);
  return {desc, onednn::user_scratchpad(s.accumulate), onednn::engine()};
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

// For many threads, none of which is given a part of a sum. Null where the kernel is another kind.
// Made as well as described under one setting of threads: by it oneDNN finds what it made before.
std::unique_ptr<Launch> launch_whole(ProductShape s, int& threads) {
  int axes = s.batch == 1 ? 2 : 4;
  if (may_split_sum(s) && s.batch == 1 && !s.b_layout) {
    axes = 4;
    s.a[0] = s.m, s.b[0] = std::max(s.k * s.b[1], s.n * s.b[2]);  // a: (1, k, batch, m)
    s.c[0] = std::max(s.m * s.c[1], s.n * s.c[2]);
  } else if (may_split_sum(s)) {
    const int64_t blocks = s.batch * ((s.n + kColumnBlock - 1) / kColumnBlock);
    threads = int(std::min<int64_t>(threads, blocks));
  }
  const onednn::ThreadScope scope(threads);
  const auto pd = describe(axes, s, b_desc(axes, s));
  const std::string_view kernel = pd.impl_info_str();
  if (!kernel.starts_with("brg")) return nullptr;
  const bool tiles = kernel.find("amx") != std::string_view::npos;
  if (tiles && s.batch == 1 && s.k > kSplitTileSum && threads >= kSplitTileThreads) {
    threads = kSplitTileThreads - 1;
    return launch_whole(s, threads);
  }
  return launch(pd, s.bias);
}

void start(Launch& launch, const void* a, const void* b, void* c, const void* bias,
           std::byte* scratch, int threads) {
  if (bias) {
    launch.run({a, b, c, bias, scratch}, threads);
  } else {
    launch.run({a, b, c, scratch}, threads);
  }
}

}  // namespace

struct Product::Parts {
  ProductShape shape;
  std::unique_ptr<Launch> whole;  // null: in parts
  int threads = 1;                // that it was made for

  // By worker: the ordinary part and, where the extent is no multiple of it, the last.
  std::vector<std::unique_ptr<Launch>> each, last;
  int64_t count = 0;
  int64_t a_step = 0, b_step = 0, c_step = 0, bias_step = 0;  // bytes from part to part
  int64_t scratch = 0;                                        // bytes per worker

  void cut(const Device& device) {
    ProductShape one = shape, tail = shape;
    const int64_t in = bits(shape.in) / 8, out = bits(shape.out) / 8;
    if (shape.batch > 1) {
      one.batch = tail.batch = 1;
      count = shape.batch;
      a_step = shape.a[0] * in, b_step = shape.b[0] * in, c_step = shape.c[0] * out;
    } else {
      // A packed b cannot be cut.
      const bool columns = shape.n >= shape.m && !shape.b_layout;
      const int64_t extent = columns ? shape.n : shape.m;
      const int64_t least = (extent + kSlabs - 1) / kSlabs;
      const int64_t slab = (least + kSlabWidth - 1) / kSlabWidth * kSlabWidth;
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
    for (int w = 0; w < std::max(device.threads, 1); ++w) {
      each.push_back(launch(pd, shape.bias));
      last.push_back(launch(pd_last, shape.bias));
    }
    scratch = align_up(std::max(each[0]->scratch_bytes(), last[0]->scratch_bytes()));
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
  parts_->threads = std::max(device.threads, 1);
  parts_->whole = launch_whole(shape, parts_->threads);
  if (!parts_->whole) parts_->cut(device);
}

Product::~Product() = default;

int64_t Product::workspace() const {
  return parts_->whole ? parts_->whole->scratch_bytes()
                       : parts_->scratch * int64_t(parts_->each.size());
}

void Product::run(const void* a, const void* b, void* c, const void* bias, std::byte* workspace,
                  const Queue& queue) const {
  if (parts_->whole) {
    const int threads = std::clamp(queue.workers, 1, parts_->threads);
    return start(*parts_->whole, a, b, c, bias, workspace, threads);
  }
  Queue workers = queue;  // no more of them than prepare made room for
  workers.workers = std::min(queue.workers, int(parts_->each.size()));
  parallel_chunks(workers, parts_->count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      parts_->run_part(i, static_cast<const char*>(a), static_cast<const char*>(b),
                       static_cast<char*>(c), static_cast<const char*>(bias), workspace);
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
  const Desc chosen = pd.weights_desc();
  return onednn::layout_of(shape.b_transposed ? chosen.permute_axes({1, 0}) : chosen);
}

}  // namespace pal
