// Of the ways to do a convolution the first that there is; of those to do a weight gradient the one
// that was the fastest when they were timed, and then always that one.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "core/algorithm_choices.h"
#include "ops/convolution/conv_ways.h"
#include "ops/convolution/cuda_windows.h"
#include "ops/kernels/operands.h"
#include "ops/libraries/fastest_call.h"
#include "ops/libraries/library_scratch.h"

namespace pal {
namespace {

// Of the windows that are there at a time, and of what cuDNN may ask for: this part of the device's
// memory, and so much at most.
constexpr int64_t kPartOfMemory = 256;
constexpr int64_t kMostWindows = int64_t(64) << 20, kMostCudnn = int64_t(512) << 20;
// A weight gradient over fewer pixels is done soon by any way: one block of an engine that divides
// no sum needs some 5 ns a pixel (H100).
constexpr int64_t kLongSum = 4096;
constexpr size_t kMostEngines = 4;  // that are tried: each may be compiled first
constexpr const char* kWindowsName = "windows";

// A convolution that is to be prepared, and the ways to do it.
class ConvWays {
 public:
  // in: image and weights, or the two images.
  ConvWays(ConvKind kind, const Device& device, const ConvShape& shape, SpecSpan in,
           const TensorSpec& out, bool relu, void (*run)(const KernelArgs&))
      : kind_(kind), device_(device), shape_(shape), in_(in), out_(out), relu_(relu), run_(run) {
    const int64_t part = cuda_of(device).total_bytes() / kPartOfMemory;
    most_ = std::min(kMostCudnn, part);
    cut_ = cut_into_stripes(shape, std::min(kMostWindows, part), in[0].dtype);
    if (kind == ConvKind::weight_grad) cut_.pad_rows();
    // Parts begin with rows of theirs.
    on_ = {row_boundary(in[0]), row_boundary(in[1]), row_boundary(out)};
    if (present(in, 2)) on_.bias = row_boundary(in[2]);
  }

  Prepared prepare() const {
    if (cut_.groups > 1 && cut_.c == 1) return depthwise();
    return has_several() ? weight_grad() : first();
  }

 private:
  std::shared_ptr<CudaConvState> state() const {
    auto state = std::make_shared<CudaConvState>();
    state->kind = kind_, state->stripes = cut_;
    return state;
  }
  GraphConvolution graph(const std::string& engine = {}) const {
    return {.kind = kind_,
            .shape = shape_,
            .type = cut_.type,
            .result = out_.dtype,
            .relu = relu_,
            .boundaries = on_,
            .most_workspace = most_,
            .engine = engine};
  }

  Prepared depthwise() const {
    auto s = state();
    s->depthwise = true;
    const int64_t bytes = depthwise_workspace(kind_, cut_);
    return {.state = std::move(s), .workspace = bytes};
  }
  Prepared cudnn(std::unique_ptr<CudnnConvolution> library, bool adds_bias, std::string by) const {
    auto s = state();
    const int64_t bytes = library->workspace();
    s->cudnn = std::move(library), s->adds_bias = adds_bias;
    return {.state = std::move(s), .workspace = bytes, .by = std::move(by)};
  }
  Prepared windows(const std::string& more = {}) const;
  // The library's first engine, or what else there is.
  Prepared first() const;

  // Weight gradients alone: of those the engines that are listed first may be far behind others.
  bool has_several() const;
  bool is_long() const { return cut_.lines * cut_.pixels >= kLongSum; }
  bool are_windows_first() const;
  Prepared weight_grad() const;
  std::optional<Prepared> named(const std::string& name, const std::string& more) const;
  std::optional<size_t> fastest_of(const std::vector<Prepared>& ways) const;
  std::string key() const;

  ConvKind kind_;
  const Device& device_;
  const ConvShape& shape_;
  SpecSpan in_;
  const TensorSpec& out_;
  bool relu_;
  void (*run_)(const KernelArgs&);
  int64_t most_;  // of cuDNN's workspace
  ConvStripes cut_;
  CudnnBoundaries on_;
};

Prepared ConvWays::windows(const std::string& more) const {
  auto s = state();
  // One group's weight gradient reads dy and the windows as they lie; else all begin as the least.
  const TensorSpec rows{{cut_.lines, cut_.row}, cut_.type};
  const int64_t least = std::min({on_.a, on_.b, on_.out});
  ProductBoundaries boundaries{.a = least, .b = least, .c = least, .bias = least};
  if (kind_ == ConvKind::weight_grad && cut_.groups == 1) {
    boundaries.a = on_.b, boundaries.b = cut_.in_place ? on_.a : row_boundary(rows);
    boundaries.c = cut_.padded() ? kWidestBoundary : on_.out;
  }
  auto product_of = [&](int64_t lines) {
    ProductShape p = cut_.product(kind_, lines);
    p.bias = shape_.bias && cut_.groups == 1 && !cut_.f32_y;
    auto product = std::make_unique<CudaProduct>(device_, "convolution", p, boundaries);
    s->windows_at = std::max(s->windows_at, product->workspace());
    return product;
  };
  s->product = product_of(cut_.stripe);
  if (const int64_t rest = cut_.last_lines()) s->last = product_of(rest);
  const TensorSpec laid{{cut_.window_floats()}, cut_.window_type(kind_)};
  s->sums_at = s->windows_at + align_up(laid.bytes());
  const int64_t bytes = s->sums_at + cut_.sum_floats(kind_) * int64_t(sizeof(float));
  return {.state = std::move(s), .workspace = bytes, .by = "windows, cuBLASLt" + more};
}

Prepared ConvWays::first() const {
  std::string why_not;
  const auto reason = [&] { return why_not.empty() ? "" : " (" + why_not + ")"; };
  if (cudnn_convolution_graph) {
    if (auto library = cudnn_convolution_graph(device_, graph(), &why_not)) {
      const bool apart = relu_ && !library->does_relu();
      std::string by = "cuDNN's graph";
      if (apart) by += ", relu by a kernel" + reason();
      return cudnn(std::move(library), shape_.bias, std::move(by));
    }
  }
  // The older interface is not told where operands begin, and adds in another order where that is
  // not on 16 bytes (9.19 on an H100). Where their rows keep that, all do.
  const bool on_widest = std::min({on_.a, on_.b, on_.out}) == kWidestBoundary;
  if (cudnn_convolution && cut_.type == out_.dtype && on_widest) {
    if (auto library = cudnn_convolution(device_, kind_, shape_, cut_.type, most_)) {
      return cudnn(std::move(library), false, "cuDNN" + reason());
    }
  }
  return windows(reason());
}

bool ConvWays::has_several() const {
  return kind_ == ConvKind::weight_grad && cudnn_convolution_graphs && device_.cudnn &&
         !cudnn_version().empty() && !shape_.accumulate && out_.dtype == DType::f32 &&
         (cut_.type != DType::f32 || device_.tf32);
}

// Without measuring: an image that is its own windows is one product, of which the library divides
// the sum; and where dw has so few tiles of a product that engines which divide no sum leave most
// of the card idle, laying windows out is cheap beside that.
bool ConvWays::are_windows_first() const {
  if (cut_.groups > 1) return false;
  if (cut_.in_place) return true;
  constexpr int64_t kTile = 128;
  const int64_t tiles = blocks_of(cut_.o, kTile) * blocks_of(cut_.row, kTile);
  return is_long() && 4 * tiles < cuda_of(device_).multiprocessors();
}

// All that times may follow from.
std::string ConvWays::key() const {
  std::string key = "weight gradient, cuDNN " + cudnn_version() + ", cuBLASLt " +
                    std::to_string(cublas_lt().version()) + ", " + cuda_of(device_).description() +
                    ", " + to_string(cut_.type);
  const auto add = [&](const char* name, std::initializer_list<int64_t> numbers) {
    key.append(", ").append(name);
    for (const int64_t n : numbers) key.append(" ").append(std::to_string(n));
  };
  add("images", {shape_.n, shape_.c, shape_.o, shape_.groups});
  for (const ConvAxis& a : std::span(shape_.axis).first(size_t(shape_.axes))) {
    add("axis", {a.in, a.kernel, a.out, a.stride, a.before, a.after, a.dilation});
  }
  add("boundaries", {on_.a, on_.b, on_.out});
  return key;
}

// The way that was chosen before, unless the library has it no more.
std::optional<Prepared> ConvWays::named(const std::string& name, const std::string& more) const {
  if (name == kWindowsName) return windows(more);
  if (name.empty()) return {};
  auto library = cudnn_convolution_graph(device_, graph(name), nullptr);
  if (!library) return {};
  return cudnn(std::move(library), false, "cuDNN's graph" + more);
}

std::string name_of(const Prepared& way) {
  const auto& s = *static_cast<const CudaConvState*>(way.state.get());
  return s.cudnn ? s.cudnn->engine() : kWindowsName;
}

Prepared ConvWays::weight_grad() const {
  const auto by_rule = [&] { return are_windows_first() ? windows() : first(); };
  AlgorithmChoices* const choices = device_.algorithms.get();
  if (!choices || !is_long()) return by_rule();
  const std::string for_this = key();
  if (const auto known = choices->find(for_this)) {
    if (auto way = named(*known, ", as chosen before")) return *std::move(way);
  }
  std::optional<Prepared> chosen;
  bool timed = false;
  if (choices->may_measure()) {
    std::vector<Prepared> ways;
    for (auto& engine : cudnn_convolution_graphs(device_, graph(), kMostEngines, nullptr)) {
      if (engine->engine().empty()) continue;  // it could not be found again
      ways.push_back(cudnn(std::move(engine), false, "cuDNN's graph, timed"));
    }
    if (ways.empty()) return first();
    ways.insert(are_windows_first() ? ways.begin() : ways.end(), windows(", timed"));
    if (const auto fastest = fastest_of(ways)) chosen = std::move(ways[*fastest]), timed = true;
  }
  if (!chosen) chosen = by_rule();
  const std::string name = name_of(*chosen);
  if (name.empty()) return *std::move(chosen);
  const std::string kept = choices->keep(for_this, name, timed);
  if (kept != name) {
    if (auto way = named(kept, ", as chosen before")) return *std::move(way);
  }
  return *std::move(chosen);
}

// Nothing where the device has no room for operands to try them with, or none of them runs.
std::optional<size_t> ConvWays::fastest_of(const std::vector<Prepared>& ways) const {
  CudaDevice& device = cuda_of(device_);
  int64_t bytes = 0, most = 0;
  for (const Prepared& way : ways) most = std::max(most, way.workspace);
  const auto room = [&](int64_t wanted) { return std::exchange(bytes, bytes + align_up(wanted)); };
  const int64_t x = room(in_[0].bytes()), dy = room(in_[1].bytes()), dw = room(out_.bytes()),
                scratch = room(most);
  const auto memory = trial_memory_if_room(device, bytes);
  if (!memory) return {};
  std::byte* const base = memory->at();
  fill_with_numbers(device, base, dw);
  void* const operands[] = {base + x, base + dy};
  void* const results[] = {base + dw};
  const Attrs none;
  Queue queue{.id = kComputeQueue, .stream = device.stream(kComputeQueue)};
  const auto fastest = fastest_call(device, ways.size(), [&](size_t i) {
    run_({.in = operands,
          .out = results,
          .in_spec = in_.first(2),
          .out_spec = {&out_, 1},
          .attrs = none,
          .state = ways[i].state.get(),
          .workspace = base + scratch,
          .queue = queue});
  });
  device.synchronize();
  return fastest;
}

}  // namespace

Prepared prepare_conv_ways(ConvKind kind, const Device& device, const ConvShape& shape, SpecSpan in,
                           const TensorSpec& out, bool relu, void (*run)(const KernelArgs&)) {
  return ConvWays(kind, device, shape, in, out, relu, run).prepare();
}

}  // namespace pal
