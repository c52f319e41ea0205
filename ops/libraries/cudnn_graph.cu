// A graph's parts as the library has them, the choice of its engine, and its run.
#include <algorithm>
#include <utility>

#include "ops/libraries/cudnn_graph.h"

namespace pal {
namespace {

constexpr cudnnBackendHeurMode_t kHeuristics[] = {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK};

// Channels last, whatever the extents.
std::vector<int64_t> channels_last_strides(const std::vector<int64_t>& extents) {
  std::vector<int64_t> strides(extents.size());
  int64_t step = extents[1];
  strides[1] = 1;
  for (size_t i = extents.size(); i-- > 2;) strides[i] = step, step *= extents[i];
  strides[0] = step;
  return strides;
}

// The engine of a configuration.
bool ask_engine(const GraphObject& config, const GraphObject& engine) {
  std::vector one{engine.get()};
  int64_t count = 0;
  return config.ask(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, one, count);
}

// Whether it is known to give the same bits each time, with sums in f32, of the operands as they
// are.
bool may_be_taken(const GraphObject& config) {
  const GraphObject engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  std::vector<cudnnBackendNumericalNote_t> notes(CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  int64_t count = 0;
  if (!ask_engine(config, engine) ||
      !engine.ask(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, notes, count)) {
    return false;
  }
  notes.resize(std::min(notes.size(), size_t(count)));
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

std::string settings_of(const GraphObject& config) {
  const GraphObject engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  std::vector<int64_t> value(1);
  std::vector<cudnnBackendKnobType_t> type(1);
  int64_t count = 0;
  if (!ask_engine(config, engine) ||
      !engine.ask(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, value, count)) {
    return {};
  }
  std::string out = "cudnn:" + std::to_string(value[0]);
  // At most one of each type, which are filled at once.
  std::vector<std::unique_ptr<GraphObject>> knobs;
  std::vector<cudnnBackendDescriptor_t> results;
  for (int i = 0; i < CUDNN_KNOB_TYPE_COUNTS; ++i) {
    knobs.push_back(std::make_unique<GraphObject>(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR));
    results.push_back(knobs.back()->get());
  }
  if (!config.ask(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR, results,
                  count)) {
    return {};
  }
  knobs.resize(std::min(knobs.size(), size_t(count)));
  for (const auto& knob : knobs) {
    if (!knob->ask(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, type, count) ||
        !knob->ask(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, value, count)) {
      return {};
    }
    out += ":" + std::to_string(int64_t(type[0])) + ":" + std::to_string(value[0]);
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

// The graph of all operations; where it is not taken, `why_not_` says so.
const GraphObject& CudnnGraph::whole() {
  if (whole_) return *whole_;
  whole_ = &part(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, [&](GraphObject& graph) {
    if (!why_not_.empty()) return;  // of the parts
    graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, operations_)
        .set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, std::vector{handle_});
  });
  return *whole_;
}

std::vector<std::string> CudnnGraph::offered() {
  const GraphObject& graph = whole();
  std::vector<std::string> out;
  if (!why_not_.empty()) return out;
  for (const auto mode : kHeuristics) {
    for (const auto& engine : engines(graph, mode)) {
      if (!may_be_taken(*engine)) continue;
      std::string settings = settings_of(*engine);
      if (settings.empty() || std::ranges::find(out, settings) != out.end()) continue;
      out.push_back(std::move(settings));
    }
  }
  return out;
}

bool CudnnGraph::choose(int64_t most_workspace, const std::string* like) {
  const GraphObject& graph = whole();
  if (!why_not_.empty()) return false;
  int offered = 0, other_bits = 0, other_engine = 0, no_plan = 0, too_large = 0;
  for (const auto mode : kHeuristics) {
    for (auto& engine : engines(graph, mode)) {
      ++offered;
      if (!may_be_taken(*engine)) {
        ++other_bits;
        continue;
      }
      std::string settings = settings_of(*engine);
      if (like && (settings.empty() || settings != *like)) {
        ++other_engine;
        continue;
      }
      switch (plan(*engine, most_workspace)) {
        case Planned::no_plan: ++no_plan; continue;
        case Planned::too_large: ++too_large; continue;
        case Planned::yes: break;
      }
      settings_ = std::move(settings), engine_ = std::move(engine);
      return true;
    }
  }
  const auto part_of = [&](int count, const char* what) {
    return count ? ", " + std::to_string(count) + " " + what : "";
  };
  why_not_ = std::to_string(offered) + " engines are offered" +
             part_of(other_bits, "of which give other bits or are not described") +
             part_of(other_engine, "of which are others than are wanted") +
             part_of(no_plan, "of which have no plan") +
             part_of(too_large, "of which want more workspace");
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
  if (!operands.finish()) throw DeviceError("cudnn_graph.cu: cuDNN: " + operands.refusal());
  check_taken(cudnn_library()->backend_execute(handle_, plan_->get(), operands.get()));
}

// Configured engines, best first.
CudnnGraph::Objects CudnnGraph::engines(const GraphObject& graph,
                                        cudnnBackendHeurMode_t mode) const {
  GraphObject heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph)
      .set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, std::vector{mode});
  Objects out;
  if (!heuristics.finish()) return out;
  std::vector<cudnnBackendDescriptor_t> results;
  int64_t count = 0, filled = 0;
  const auto ask = [&](int64_t& how_many) {
    return heuristics.ask(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, results,
                          how_many);
  };
  if (!ask(count)) return out;
  for (int64_t i = 0; i < count; ++i) {
    out.push_back(std::make_unique<GraphObject>(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
    results.push_back(out.back()->get());
  }
  out.resize(ask(filled) ? size_t(std::min(count, filled)) : 0);
  return out;
}

CudnnGraph::Planned CudnnGraph::plan(const GraphObject& config, int64_t most_workspace) {
  auto made = std::make_unique<GraphObject>(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  made->set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, std::vector{handle_})
      .set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
  std::vector<int64_t> bytes(1);
  int64_t count = 0;
  if (!made->finish() ||
      !made->ask(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, bytes, count)) {
    return Planned::no_plan;
  }
  if (bytes[0] > most_workspace) return Planned::too_large;
  plan_ = std::move(made), bytes_ = bytes[0];
  return Planned::yes;
}

}  // namespace pal
