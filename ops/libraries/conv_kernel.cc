// oneDNN's direct kernels compute every output element in one fixed order, whoever does it:
// measured bit-identical for 1 to 16 threads and for every offset of 4 bytes. Its weight gradients,
// though, are sums of one partial result per thread, its gemm kernels cut their sums by thread too,
// and its "brgconv" cuts sums where the number of threads makes that look faster
// (docs/decisions/determinism.md). These run on chunks of images that depend on the shape alone,
// each on one thread; the chunks' weight gradients are added in order. So do products with windows
// where oneDNN has only its reference code (for the gradients of an 11 x 21 kernel, say: [M] a
// hundred times slower), and sums over pixels where it has no depthwise weight gradient.
#include "ops/libraries/conv_kernel.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

#include "core/parallel.h"
#include "ops/libraries/conv_depthwise.h"
#include "ops/libraries/conv_windows.h"
#include "ops/libraries/onednn.h"

namespace pal {
namespace {

using dnnl::memory;
using onednn::Desc;
using onednn::Dims;
using onednn::Launch;

constexpr int64_t kChunks = 16;                       // of images, at most
constexpr int64_t kFewImages = 8, kFewPixels = 49;    // see below: a direct kernel
constexpr int64_t kWeightGradChunks = 8;              // the same where each has a weight gradient,
constexpr int64_t kPartialBytes = int64_t{16} << 20;  // and their bytes, unless there are two only

// A primitive that is not made yet: what it is, and its operands in the order of ConvKernel::run.
struct Described {
  std::optional<dnnl::primitive> primitive;
  std::string implementation;
  std::vector<std::pair<int, Desc>> operands;
  Desc weights, scratchpad;

  std::unique_ptr<Launch> launch() const {
    return std::make_unique<Launch>(*primitive, scratchpad, operands);
  }
};

// Our weights (O, K.., C / groups) as oneDNN's (O, C, K..), or (groups, O / groups, C / groups,
// K..), and back; bytes stay.
Desc to_onednn(const ConvShape& s, const TensorSpec& weights) {
  if (s.groups == 1) {
    std::vector<int> to{0};
    for (int i = 0; i < s.axes; ++i) to.push_back(i + 2);
    to.push_back(1);
    return onednn::desc_of(weights).permute_axes(to);
  }
  Shape grouped{s.groups, s.o / s.groups};
  std::vector<int> to{0, 1};
  for (int i = 0; i < s.axes; ++i) grouped.append(s.axis[size_t(i)].kernel), to.push_back(i + 3);
  grouped.append(s.c / s.groups), to.push_back(2);
  return onednn::plain({grouped}).permute_axes(to);
}
Desc from_onednn(const ConvShape& s, const Desc& weights) {
  std::vector<int> to{0, s.axes + 1};
  for (int i = 0; i < s.axes; ++i) to.push_back(i + 1);
  return weights.permute_axes(to);
}

TensorSpec plain_weights(const ConvShape& s) {
  Shape shape{s.o};
  for (int i = 0; i < s.axes; ++i) shape.append(s.axis[size_t(i)].kernel);
  shape.append(s.c / s.groups);
  return {shape};
}

Desc any_weights(const ConvShape& s) {
  Dims dims{s.o, s.c / s.groups};
  if (s.groups > 1) dims = {s.groups, s.o / s.groups, s.c / s.groups};
  for (int i = 0; i < s.axes; ++i) dims.push_back(s.axis[size_t(i)].kernel);
  return {dims, memory::data_type::f32, memory::format_tag::any};
}

bool is_brgconv(std::string_view implementation) { return implementation.starts_with("brgconv:"); }

// `brgconv`: whether a forward pass may be that one, or the next in oneDNN's list instead.
Described describe(ConvKind kind, const ConvShape& s, int64_t images, const Desc& weights,
                   bool brgconv = true) {
  const auto f32 = memory::data_type::f32;
  const auto algorithm = dnnl::algorithm::convolution_direct;
  const auto channels_last = s.axes == 2 ? memory::format_tag::nhwc : memory::format_tag::ndhwc;
  Dims x_dims{images, s.c}, y_dims{images, s.o}, strides, dilations, before, after;
  for (int i = 0; i < s.axes; ++i) {
    const ConvAxis& a = s.axis[size_t(i)];
    x_dims.push_back(a.in), y_dims.push_back(a.out);
    strides.push_back(a.stride), dilations.push_back(a.dilation - 1);
    before.push_back(a.before), after.push_back(a.after);
  }
  const Desc x(x_dims, f32, channels_last), y(y_dims, f32, channels_last);
  const Desc bias({s.o}, f32, memory::format_tag::x);
  const auto attr = onednn::user_scratchpad();
  using Forward = dnnl::convolution_forward;
  const auto training = dnnl::prop_kind::forward_training;
  const Forward::desc desc =
      s.bias ? Forward::desc(training, algorithm, x, weights, bias, y, strides, dilations, before,
                             after)
             : Forward::desc(training, algorithm, x, weights, y, strides, dilations, before, after);
  Forward::primitive_desc forward(desc, attr, onednn::engine());
  while (!brgconv && is_brgconv(forward.impl_info_str()) && forward.next_impl()) {
  }
  Described d;
  auto set = [&](const auto& primitive, const auto& pd, const Desc& own_weights) {
    d.primitive = primitive, d.implementation = pd.impl_info_str();
    d.weights = own_weights, d.scratchpad = pd.scratchpad_desc();
  };
  if (kind == ConvKind::forward) {
    set(Forward(forward), forward, forward.weights_desc());
    d.operands = {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, d.weights}, {DNNL_ARG_DST, y}};
    if (s.bias) d.operands.push_back({DNNL_ARG_BIAS, bias});
  } else if (kind == ConvKind::data_grad) {
    using Backward = dnnl::convolution_backward_data;
    const Backward::primitive_desc pd({algorithm, x, weights, y, strides, dilations, before, after},
                                      attr, onednn::engine(), forward);
    set(Backward(pd), pd, pd.weights_desc());
    d.operands = {{DNNL_ARG_DIFF_DST, y}, {DNNL_ARG_WEIGHTS, d.weights}, {DNNL_ARG_DIFF_SRC, x}};
  } else {
    using Backward = dnnl::convolution_backward_weights;
    const Backward::primitive_desc pd({algorithm, x, weights, y, strides, dilations, before, after},
                                      attr, onednn::engine(), forward);
    set(Backward(pd), pd, pd.diff_weights_desc());
    d.operands = {{DNNL_ARG_SRC, x}, {DNNL_ARG_DIFF_DST, y}, {DNNL_ARG_DIFF_WEIGHTS, d.weights}};
  }
  return d;
}

// Instead of brgconv: chunks of few images leave threads idle, and of few pixels they read all
// weights too often ([M] 3 x 3, 512 channels, 32 images of 7 x 7: 0.8 of its time).
bool wants_direct(ConvKind kind, const ConvShape& s) {
  return kind == ConvKind::forward && (s.n < kFewImages || s.pixels_out() <= kFewPixels);
}

bool any_thread_same_bits(ConvKind kind, const std::string& implementation) {
  return kind != ConvKind::weight_grad &&
         (implementation.starts_with("brgconv_1x1") || implementation.starts_with("brdgmm") ||
          implementation.starts_with("jit"));
}

// The images of a chunk, between 1/16 and 1/8 of all, with which two threads are done first.
int64_t even_chunk(int64_t n) {
  const auto longer_half = [n](int64_t images) { return ((n - 1) / images / 2 + 1) * images; };
  int64_t best = (n + kChunks - 1) / kChunks;
  for (int64_t images = best + 1; images <= n * 2 / kChunks; ++images) {
    if (longer_half(images) < longer_half(best)) best = images;
  }
  return best;
}

// oneDNN 2.6 reads what nobody wrote where windows of one pixel skip some and channels are no whole
// vectors: other weight gradients each time.
bool broken_gradient(ConvKind kind, const ConvShape& s, const std::string& implementation) {
  constexpr int64_t kLanes = 8;
  const bool skips = std::any_of(s.axis.begin(), s.axis.begin() + s.axes,
                                 [](const ConvAxis& a) { return a.stride > 1; });
  return kind == ConvKind::weight_grad && implementation.starts_with("jit_1x1:avx2") && skips &&
         (s.c % kLanes != 0 || s.o % kLanes != 0);
}

// Products with windows are better.
bool wants_windows(ConvKind kind, const ConvShape& s, const std::string& implementation) {
  if (kind == ConvKind::forward || s.groups != 1) return false;
  return implementation.starts_with("ref") || broken_gradient(kind, s, implementation);
}

}  // namespace

struct ConvKernel::Parts {
  ConvKind kind;
  ConvShape shape;
  Layout preferred;
  Desc weights;                     // as the primitive reads or writes them
  std::unique_ptr<Launch> reorder;  // from or to the caller's weights; null where they are equal
  std::unique_ptr<Launch> whole;    // null: in chunks of images
  std::optional<CodedImages> coded;
  bool depthwise = false;  // chunks by our own kernel
  // In chunks, by worker: an ordinary chunk and the last one; or windows, for any chunk.
  std::vector<std::unique_ptr<Launch>> each, last;
  std::vector<std::unique_ptr<ConvWindows>> windows;
  int64_t images = 0, count = 0;  // per chunk, chunks
  // The workspace: scratch of each worker with a chunk of images that were coded, weights as the
  // primitive has them (one partial result a chunk for weight gradients), and the weight gradient
  // before the sum is added.
  int64_t scratch = 0, images_at = 0, workers = 1, weight_bytes = 0, weights_at = 0, total_at = 0,
          bytes = 0;

  void cut(const Device& device) {
    if (kind == ConvKind::weight_grad) {
      const int64_t chunks =
          std::clamp<int64_t>(kPartialBytes / (shape.weights() * 4), 2, kWeightGradChunks);
      images = (shape.n + chunks - 1) / chunks;
    } else {
      images = even_chunk(shape.n);
    }
    count = (shape.n + images - 1) / images;
    workers = std::clamp<int64_t>(device.threads, 1, count);
    const onednn::ThreadScope alone(1);
    const Described first = describe(kind, shape, images, any_weights(shape));
    if (wants_windows(kind, shape, first.implementation)) {
      weights = to_onednn(shape, plain_weights(shape));
      for (int64_t w = 0; w < workers; ++w)
        windows.push_back(std::make_unique<ConvWindows>(kind, shape));
      scratch = align_up(windows[0]->scratch_bytes());
      return;
    }
    if (needs_own_depthwise(kind, shape, first.implementation)) {
      depthwise = true;
      weights = to_onednn(shape, plain_weights(shape));
      scratch = align_up(depthwise_scratch_bytes(shape));
      return;
    }
    weights = first.weights;  // all chunks must agree on the format
    const Described one = describe(kind, shape, images, weights);
    const Described tail = describe(kind, shape, shape.n - (count - 1) * images, weights);
    for (int64_t w = 0; w < workers; ++w) {
      each.push_back(one.launch());
      last.push_back(tail.launch());
    }
    scratch = align_up(std::max(each[0]->scratch_bytes(), last[0]->scratch_bytes()));
  }

  // A chunk of images as f32, in the worker's scratch.
  const char* decoded(int64_t i, const char* codes, std::byte* own) const {
    const int64_t step = images * shape.pixels_in() * shape.c;
    const int64_t all = shape.n * shape.pixels_in() * shape.c;
    auto* to = reinterpret_cast<float*>(own + images_at);
    coded->read(coded->spec, codes, i * step, std::min(all, (i + 1) * step), to);
    return reinterpret_cast<const char*>(to);
  }

  void run_chunk(int64_t i, const char* a, const char* b, char* out, const void* bias,
                 std::byte* workspace) const {
    const size_t worker = size_t(omp_get_thread_num());
    std::byte* own = workspace + int64_t(worker) * scratch;
    const int64_t x_step = images * shape.pixels_in() * shape.c * 4;
    const int64_t y_step = images * shape.pixels_out() * shape.o * 4;
    switch (kind) {
      case ConvKind::forward: a += i * x_step, out += i * y_step; break;
      case ConvKind::data_grad: a += i * y_step, out += i * x_step; break;
      case ConvKind::weight_grad:
        a = coded ? decoded(i, a, own) : a + i * x_step;
        b += i * y_step, out += i * weight_bytes;
        break;
    }
    const int64_t of_chunk = std::min(images, shape.n - i * images);
    const auto floats = [](const char* p) { return reinterpret_cast<const float*>(p); };
    auto* result = reinterpret_cast<float*>(out);
    if (depthwise) {
      return depthwise_weight_grad(shape, of_chunk, floats(a), floats(b), result, own);
    }
    if (!windows.empty()) return windows[worker]->run(of_chunk, floats(a), floats(b), result, own);
    Launch& launch = *(i + 1 == count ? last : each)[worker];
    bias ? launch.run({a, b, out, bias, own}, 1) : launch.run({a, b, out, own}, 1);
  }

  void run_chunks(const char* a, const char* b, char* out, const void* bias, std::byte* workspace,
                  const Queue& queue) const {
    Queue some = queue;  // no more workers than prepare made room for
    some.workers = std::min(queue.workers, int(workers));
    parallel_chunks(some, count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) run_chunk(i, a, b, out, bias, workspace);
    });
  }

  // The chunks' gradients added in order into the first, then as the caller wants them, then the
  // sum.
  void finish_weight_grad(float* partial, float* dw, const float* sum, std::byte* workspace,
                          const Queue& queue) const {
    const int64_t floats = weight_bytes / 4;
    parallel_chunks(queue, floats, kElementGrain, [&](int64_t begin, int64_t end) {
      for (int64_t chunk = 1; chunk < count; ++chunk) {
        const float* more = partial + chunk * floats;
        for (int64_t i = begin; i < end; ++i) partial[i] += more[i];
      }
    });
    float* total = partial;
    if (reorder) {
      total = sum ? reinterpret_cast<float*>(workspace + total_at) : dw;
      reorder->run({partial, total, workspace}, std::max(queue.workers, 1));
    }
    if (total == dw) return;
    parallel_chunks(queue, shape.weights(), kElementGrain, [&](int64_t begin, int64_t end) {
      if (!sum) {
        std::memcpy(dw + begin, total + begin, size_t(end - begin) * sizeof(float));
        return;
      }
      for (int64_t i = begin; i < end; ++i) dw[i] = sum[i] + total[i];
    });
  }
};

ConvKernel::ConvKernel(const Device& device, ConvKind kind, const ConvShape& shape,
                       const TensorSpec& given, const std::optional<CodedImages>& coded)
    : parts_(std::make_unique<Parts>()) {
  Parts& p = *parts_;
  p.kind = kind, p.shape = shape, p.coded = coded;
  const onednn::ThreadScope threads(std::max(device.threads, 1));
  const Described d =
      describe(kind, shape, shape.n, any_weights(shape), !wants_direct(kind, shape));
  if (any_thread_same_bits(kind, d.implementation)) {
    p.weights = d.weights;
    p.whole = d.launch();
    p.scratch = align_up(p.whole->scratch_bytes());
  } else {
    p.cut(device);
  }
  if (coded) {
    p.images_at = p.scratch;
    p.scratch += align_up(p.images * shape.pixels_in() * shape.c * 4);
  }
  if (shape.groups == 1) p.preferred = onednn::layout_of(from_onednn(shape, p.weights));
  p.weight_bytes = align_up(int64_t(p.weights.get_size()));
  const Desc callers = to_onednn(shape, given);
  if (callers != p.weights) {
    const bool back = kind == ConvKind::weight_grad;
    p.reorder = back ? onednn::reorder(p.weights, callers) : onednn::reorder(callers, p.weights);
  }
  p.weights_at = p.scratch * p.workers;
  if (p.reorder) p.weights_at = std::max(p.weights_at, align_up(p.reorder->scratch_bytes()));
  p.total_at = p.weights_at;
  if (kind == ConvKind::weight_grad) {
    p.total_at += p.count * p.weight_bytes;
  } else if (p.reorder) {
    p.total_at += p.weight_bytes;
  }
  p.bytes = p.total_at;
  if (kind == ConvKind::weight_grad && p.reorder && shape.accumulate) {
    p.bytes += align_up(given.numel() * 4);
  }
}

ConvKernel::~ConvKernel() = default;

Layout ConvKernel::preferred_weights() const { return parts_->preferred; }
int64_t ConvKernel::workspace() const { return parts_->bytes; }

void ConvKernel::run(const void* a, const void* b, void* out, const void* extra,
                     std::byte* workspace, const Queue& queue) const {
  const Parts& p = *parts_;
  const int threads = std::max(queue.workers, 1);
  std::byte* weights = workspace + p.weights_at;
  if (p.kind == ConvKind::weight_grad) {
    p.run_chunks(static_cast<const char*>(a), static_cast<const char*>(b),
                 reinterpret_cast<char*>(weights), nullptr, workspace, queue);
    return p.finish_weight_grad(reinterpret_cast<float*>(weights), static_cast<float*>(out),
                                static_cast<const float*>(extra), workspace, queue);
  }
  if (p.reorder) {
    p.reorder->run({b, weights, workspace}, threads);
    b = weights;
  }
  if (!p.whole) {
    return p.run_chunks(static_cast<const char*>(a), static_cast<const char*>(b),
                        static_cast<char*>(out), extra, workspace, queue);
  }
  if (extra) {
    p.whole->run({a, b, out, extra, workspace}, threads);
  } else {
    p.whole->run({a, b, out, workspace}, threads);
  }
}

}  // namespace pal
