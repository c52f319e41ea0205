// A convolution's weight gradient in f32 of 16-bit operands, by cuDNN's graph API. The graph is one
// operation. Engines are tried in the order of the library's heuristics, then of its fallback, and
// the first that may be is taken: which that is depends on the device and the library's version
// alone. docs/decisions/cudnn-convolutions.md has the reasons.
#include <algorithm>
#include <vector>

#include "core/cuda/cudnn.h"
#include "core/cuda/libraries.h"
#include "ops/libraries/cudnn_convolution.h"
#include "ops/libraries/cudnn_shape.h"

namespace pal {
namespace {

// The manual asks for no boundary of a workspace; allocations begin on such.
constexpr int64_t kGraphWorkspace = 256;
// Of tensors, in the graph and in what it is run with.
enum GraphTensor : int64_t { kGraphX = 1, kGraphDy, kGraphDw };

// An object of the graph API: its attributes are set, it is finished, and may be used.
class GraphObject {
 public:
  explicit GraphObject(cudnnBackendDescriptorType_t type) {
    object_.destroy = library_.backend_destroy;
    check_cudnn(library_.backend_create(type, &object_.get));
  }
  GraphObject(const GraphObject&) = delete;
  GraphObject& operator=(const GraphObject&) = delete;

  cudnnBackendDescriptor_t get() const { return object_.get; }

  template <class T>
  GraphObject& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                   const std::vector<T>& values) {
    if (!refused_)
      take(library_.backend_set(get(), name, type, int64_t(values.size()), values.data()));
    return *this;
  }
  GraphObject& set(cudnnBackendAttributeName_t name, const std::vector<int64_t>& numbers) {
    return set(name, CUDNN_TYPE_INT64, numbers);
  }
  GraphObject& set(cudnnBackendAttributeName_t name, const GraphObject& other) {
    return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::vector{other.get()});
  }
  // Whether the library takes it.
  bool finish() {
    if (!refused_) take(library_.backend_finalize(get()));
    return !refused_;
  }

  // At most as many as `values` has; -> how many there are.
  template <class T>
  int64_t ask(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
              std::vector<T>& values) const {
    int64_t count = 0;
    check_cudnn(
        library_.backend_get(get(), name, type, int64_t(values.size()), &count, values.data()));
    return count;
  }

 private:
  void take(cudnnStatus_t status) {
    refused_ = is_refusal(status);
    if (!refused_) check_cudnn(status);
  }

  const Cudnn& library_ = *cudnn_library();
  LibraryObject<cudnnBackendDescriptor_t, cudnnStatus_t> object_;
  bool refused_ = false;
};

std::vector<int64_t> wide(const int* numbers, int n) { return {numbers, numbers + n}; }

// Channels last, whatever the extents: outputs, channels, then space.
std::vector<int64_t> channels_last_strides(const std::vector<int64_t>& extents) {
  std::vector<int64_t> strides(extents.size());
  int64_t step = extents[1];
  strides[1] = 1;
  for (size_t i = extents.size(); i-- > 2;) strides[i] = step, step *= extents[i];
  strides[0] = step;
  return strides;
}

class WeightGradGraph final : public CudnnConvolution {
 public:
  WeightGradGraph(cudnnHandle_t handle, const CudnnShape& shape, DType type, int64_t boundary)
      : handle_(handle) {
    const cudnnDataType_t half = type == DType::bf16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF;
    const int rank = shape.rank(), axes = shape.axes;
    const std::vector<int64_t> w = wide(shape.w.data(), rank);
    bool good = describe(x_, kGraphX, half, wide(shape.x.data(), rank),
                         wide(shape.x_stride.data(), rank), boundary);
    good &= describe(dy_, kGraphDy, half, wide(shape.y.data(), rank),
                     wide(shape.y_stride.data(), rank), boundary);
    good &= describe(dw_, kGraphDw, CUDNN_DATA_FLOAT, w, channels_last_strides(w), boundary);
    const std::vector<int64_t> pad = wide(shape.pad.data(), axes);
    good &= windows_.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, {axes})
                .set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE,
                     std::vector{CUDNN_DATA_FLOAT})
                .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE,
                     std::vector{CUDNN_CROSS_CORRELATION})
                .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, pad)
                .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, pad)
                .set(CUDNN_ATTR_CONVOLUTION_DILATIONS, wide(shape.dilation.data(), axes))
                .set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, wide(shape.stride.data(), axes))
                .finish();
    good &= operation_.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, x_)
                .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, dy_)
                .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, dw_)
                .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, windows_)
                .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, CUDNN_TYPE_FLOAT,
                     std::vector{1.0f})
                .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, CUDNN_TYPE_FLOAT,
                     std::vector{0.0f})
                .finish();
    taken_ =
        good && graph_.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operation_)
                    .set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, std::vector{handle})
                    .finish();
  }

  // Whether there is an engine for it, with so many bytes at most.
  bool choose(int64_t most_workspace) {
    if (!taken_) return false;
    for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
      for (const auto& engine : engines(mode)) {
        if (gives_its_bits_again(*engine) && plan(*engine, most_workspace)) return true;
      }
    }
    return false;
  }

  int64_t workspace() const override { return bytes_ ? bytes_ + kGraphWorkspace : 0; }

  void run(cudaStream_t stream, const void* x, const void* dy, void* dw, bool add,
           std::byte* workspace) const override {
    if (add) throw DeviceError("cuDNN's graph of a weight gradient adds to nothing");
    check_cudnn(cudnn_library()->set_stream(handle_, stream));
    const auto past = int64_t(reinterpret_cast<uintptr_t>(workspace) % kGraphWorkspace);
    void* const scratch = bytes_ ? workspace + (kGraphWorkspace - past) % kGraphWorkspace : nullptr;
    GraphObject operands(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    operands.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, {kGraphX, kGraphDy, kGraphDw})
        .set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
             std::vector<void*>{const_cast<void*>(x), const_cast<void*>(dy), dw})
        .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, std::vector<void*>{scratch});
    check_taken(operands.finish()
                    ? cudnn_library()->backend_execute(handle_, plan_->get(), operands.get())
                    : CUDNN_STATUS_NOT_SUPPORTED);
  }

 private:
  static bool describe(GraphObject& tensor, GraphTensor number, cudnnDataType_t type,
                       const std::vector<int64_t>& extents, const std::vector<int64_t>& strides,
                       int64_t boundary) {
    return tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, {number})
        .set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, std::vector{type})
        .set(CUDNN_ATTR_TENSOR_DIMENSIONS, extents)
        .set(CUDNN_ATTR_TENSOR_STRIDES, strides)
        .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, {boundary})
        .finish();
  }

  using Objects = std::vector<std::unique_ptr<GraphObject>>;
  // Configured engines, best first.
  Objects engines(cudnnBackendHeurMode_t mode) const {
    GraphObject heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph_)
        .set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, std::vector{mode});
    Objects out;
    if (!heuristics.finish()) return out;
    std::vector<cudnnBackendDescriptor_t> results;
    const int64_t count =
        heuristics.ask(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, results);
    for (int64_t i = 0; i < count; ++i) {
      out.push_back(std::make_unique<GraphObject>(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
      results.push_back(out.back()->get());
    }
    out.resize(size_t(std::min(count, heuristics.ask(CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                     CUDNN_TYPE_BACKEND_DESCRIPTOR, results))));
    return out;
  }

  // Also: sums in f32, of the operands as they are.
  static bool gives_its_bits_again(const GraphObject& config) {
    GraphObject engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    std::vector one{engine.get()};
    config.ask(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, one);
    std::vector<cudnnBackendNumericalNote_t> notes(CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
    notes.resize(
        size_t(engine.ask(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, notes)));
    return std::ranges::none_of(notes, [](cudnnBackendNumericalNote_t note) {
      switch (note) {
        case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
        case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
        case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION:
        case CUDNN_NUMERICAL_NOTE_FFT:
        case CUDNN_NUMERICAL_NOTE_WINOGRAD: return true;
        default: return false;
      }
    });
  }

  bool plan(const GraphObject& config, int64_t most_workspace) {
    auto made = std::make_unique<GraphObject>(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    made->set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, std::vector{handle_})
        .set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    if (!made->finish()) return false;
    std::vector<int64_t> bytes(1);
    made->ask(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, bytes);
    if (bytes[0] > most_workspace) return false;
    plan_ = std::move(made), bytes_ = bytes[0];
    return true;
  }

  cudnnHandle_t handle_;
  GraphObject x_{CUDNN_BACKEND_TENSOR_DESCRIPTOR}, dy_{CUDNN_BACKEND_TENSOR_DESCRIPTOR},
      dw_{CUDNN_BACKEND_TENSOR_DESCRIPTOR}, windows_{CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR},
      operation_{CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR},
      graph_{CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR};
  std::unique_ptr<GraphObject> plan_;
  int64_t bytes_ = 0;  // of workspace
  bool taken_ = false;
};

}  // namespace

std::unique_ptr<CudnnConvolution> cudnn_weight_grad(const Device& device, const ConvShape& shape,
                                                    DType type, int64_t boundary,
                                                    int64_t most_workspace) {
  if (!device.cudnn || type == DType::f32) return nullptr;
  const std::optional<CudnnShape> described = cudnn_shape(shape);
  const cudnnHandle_t handle = described ? cudnn_of(device) : nullptr;
  if (!handle) return nullptr;
  auto graph = std::make_unique<WeightGradGraph>(handle, *described, type, boundary);
  if (!graph->choose(most_workspace)) return nullptr;
  return graph;
}

}  // namespace pal
