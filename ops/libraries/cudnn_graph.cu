// A graph's parts as the library has them, the choice of its engine, and its run.
#include <algorithm>
#include <utility>

#include "ops/libraries/cudnn_graph.h"

namespace pal {
namespace {

// Channels last, whatever the extents.
std::vector<int64_t> channels_last_strides(const std::vector<int64_t>& extents) {
  std::vector<int64_t> strides(extents.size());
  int64_t step = extents[1];
  strides[1] = 1;
  for (size_t i = extents.size(); i-- > 2;) strides[i] = step, step *= extents[i];
  strides[0] = step;
  return strides;
}

// Also: sums in f32, of the operands as they are.
bool gives_its_bits_again(const GraphObject& config) {
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

// The engine's number, then its knobs, two numbers each; empty where the library does not say.
std::vector<int64_t> settings_of(const GraphObject& config) {
  GraphObject engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  std::vector one{engine.get()};
  std::vector<int64_t> out(1), value(1);
  std::vector<cudnnBackendKnobType_t> type(1);
  std::vector<cudnnBackendDescriptor_t> results;
  std::vector<std::unique_ptr<GraphObject>> knobs;
  int64_t count = 0;
  auto ask = [&](const GraphObject& of, cudnnBackendAttributeName_t name,
                 cudnnBackendAttributeType_t kind,
                 auto& to) { return of.try_ask(name, kind, to, count) == CUDNN_STATUS_SUCCESS; };
  constexpr auto kPart = CUDNN_TYPE_BACKEND_DESCRIPTOR;
  if (!ask(config, CUDNN_ATTR_ENGINECFG_ENGINE, kPart, one)) return {};
  if (!ask(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, out)) return {};
  if (!ask(config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, kPart, results)) return {};
  for (int64_t i = 0; i < count; ++i) {
    knobs.push_back(std::make_unique<GraphObject>(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR));
    results.push_back(knobs.back()->get());
  }
  if (!ask(config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, kPart, results)) return {};
  for (const auto& knob : knobs) {
    if (!ask(*knob, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, type)) return {};
    if (!ask(*knob, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, value)) return {};
    out.push_back(type[0]), out.push_back(value[0]);
  }
  return out;
}

}  // namespace

const GraphObject& CudnnGraph::tensor(const GraphTensor& as) {
  return part(CUDNN_BACKEND_TENSOR_DESCRIPTOR, [&](GraphObject& tensor) {
    tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, {as.number})
        .set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, std::vector{as.type})
        .set(CUDNN_ATTR_TENSOR_DIMENSIONS, as.extents)
        .set(CUDNN_ATTR_TENSOR_STRIDES, channels_last_strides(as.extents))
        .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, {as.boundary});
    static_assert(sizeof(bool) == sizeof(char));
    if (as.handed_on) {
      tensor.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, std::vector<char>{true});
    }
  });
}

const GraphObject& CudnnGraph::windows(const CudnnShape& shape) {
  const int axes = shape.axes;
  const std::vector<int64_t> pad = wide(shape.pad.data(), axes);
  return part(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, [&](GraphObject& windows) {
    windows.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, {axes})
        .set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, std::vector{CUDNN_DATA_FLOAT})
        .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE,
             std::vector{CUDNN_CROSS_CORRELATION})
        .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, pad)
        .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, pad)
        .set(CUDNN_ATTR_CONVOLUTION_DILATIONS, wide(shape.dilation.data(), axes))
        .set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, wide(shape.stride.data(), axes));
  });
}

bool CudnnGraph::choose(int64_t most_workspace, const CudnnGraph* like) {
  if (!taken_ || (like && like->settings_.empty())) return false;
  const GraphObject& graph = part(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, [&](GraphObject& whole) {
    whole.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, operations_)
        .set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, std::vector{handle_});
  });
  if (!taken_) return false;
  for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    for (const auto& engine : engines(graph, mode)) {
      if (!gives_its_bits_again(*engine)) continue;
      std::vector<int64_t> settings = settings_of(*engine);
      if (like && settings != like->settings_) continue;
      if (!plan(*engine, most_workspace)) continue;
      settings_ = std::move(settings);
      return true;
    }
  }
  return false;
}

void CudnnGraph::run(cudaStream_t stream, const std::vector<Bound>& tensors,
                     std::byte* workspace) const {
  check_cudnn(cudnn_library()->set_stream(handle_, stream));
  void* const scratch = library_scratch(workspace, bytes_);
  std::vector<int64_t> numbers;
  std::vector<void*> data;
  for (const Bound& tensor : tensors) {
    numbers.push_back(tensor.number), data.push_back(const_cast<void*>(tensor.data));
  }
  GraphObject operands(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  operands.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, numbers)
      .set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, data)
      .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, std::vector<void*>{scratch});
  check_taken(operands.finish()
                  ? cudnn_library()->backend_execute(handle_, plan_->get(), operands.get())
                  : CUDNN_STATUS_NOT_SUPPORTED);
}

// Configured engines, best first.
CudnnGraph::Objects CudnnGraph::engines(const GraphObject& graph,
                                        cudnnBackendHeurMode_t mode) const {
  GraphObject heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph)
      .set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, std::vector{mode});
  Objects out;
  if (!heuristics.try_finish()) return out;  // a part of the library may be missing
  std::vector<cudnnBackendDescriptor_t> results;
  int64_t count = 0, filled = 0;
  const auto ask = [&](int64_t& how_many) {
    return heuristics.try_ask(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, results,
                              how_many) == CUDNN_STATUS_SUCCESS;
  };
  if (!ask(count)) return out;
  for (int64_t i = 0; i < count; ++i) {
    out.push_back(std::make_unique<GraphObject>(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
    results.push_back(out.back()->get());
  }
  out.resize(ask(filled) ? size_t(std::min(count, filled)) : 0);
  return out;
}

bool CudnnGraph::plan(const GraphObject& config, int64_t most_workspace) {
  auto made = std::make_unique<GraphObject>(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  made->set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, std::vector{handle_})
      .set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
  if (!made->try_finish()) return false;
  std::vector<int64_t> bytes(1);
  made->ask(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, bytes);
  if (bytes[0] > most_workspace) return false;
  plan_ = std::move(made), bytes_ = bytes[0];
  return true;
}

}  // namespace pal
