// cuDNN's graph API, as far as a convolution's weight gradient goes: objects that take attributes,
// are finished, and are used then and not before. An attribute of another name, type or number of
// elements than the manual has is refused, as are tensors that do not lie as they were said to.
// Heuristics name an engine that gives other bits each time first, then one that has no plan, then
// one that wants much workspace, then one that will do.
#include <cudnn.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <stdexcept>
#include <vector>

#include "tests/emulation/cudnn_problem.h"
#include "tests/emulation/emulation.h"

namespace {

using pal::emulation::DnnProblem;

// Engines, best first.
enum Engine : int { kOtherBits, kNoPlan, kMuchWorkspace, kGood, kEngines };
constexpr int64_t kMuch = int64_t(1) << 40;

struct Attribute {
  cudnnBackendAttributeType_t type;
  std::vector<std::byte> bytes;
};
struct GraphDescriptor {
  cudnnBackendDescriptorType_t type;
  bool finished = false;
  std::map<cudnnBackendAttributeName_t, Attribute> set;
  Engine engine = kEngines;                // of an engine or its configuration
  const GraphDescriptor* graph = nullptr;  // likewise

  bool has(cudnnBackendAttributeName_t name) const { return set.contains(name); }
  template <class T> std::vector<T> all(cudnnBackendAttributeName_t name) const {
    const std::vector<std::byte>& bytes = set.at(name).bytes;
    std::vector<T> out(bytes.size() / sizeof(T));
    std::memcpy(out.data(), bytes.data(), out.size() * sizeof(T));
    return out;
  }
  template <class T> T one(cudnnBackendAttributeName_t name) const { return all<T>(name).at(0); }
  // Another descriptor, which has been finished.
  const GraphDescriptor* part(cudnnBackendAttributeName_t name,
                              cudnnBackendDescriptorType_t wanted) const {
    const auto* other = static_cast<GraphDescriptor*>(one<cudnnBackendDescriptor_t>(name));
    return other && other->finished && other->type == wanted ? other : nullptr;
  }
};

struct Known {
  cudnnBackendDescriptorType_t of;
  cudnnBackendAttributeType_t type;
  int64_t least, most;  // elements
};
// What may be set; all of it has to be.
const std::map<cudnnBackendAttributeName_t, Known>& known() {
  constexpr auto kWindows = CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR;
  constexpr auto kTensor = CUDNN_BACKEND_TENSOR_DESCRIPTOR;
  constexpr auto kOperation = CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR;
  constexpr auto kGraph = CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR;
  constexpr auto kHeuristics = CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR;
  constexpr auto kPlan = CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR;
  constexpr auto kPack = CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR;
  constexpr auto kPart = CUDNN_TYPE_BACKEND_DESCRIPTOR;
  constexpr auto kNumber = CUDNN_TYPE_INT64;
  static const std::map<cudnnBackendAttributeName_t, Known> all = {
      {CUDNN_ATTR_CONVOLUTION_COMP_TYPE, {kWindows, CUDNN_TYPE_DATA_TYPE, 1, 1}},
      {CUDNN_ATTR_CONVOLUTION_CONV_MODE, {kWindows, CUDNN_TYPE_CONVOLUTION_MODE, 1, 1}},
      {CUDNN_ATTR_CONVOLUTION_DILATIONS, {kWindows, kNumber, 2, 3}},
      {CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, {kWindows, kNumber, 2, 3}},
      {CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, {kWindows, kNumber, 2, 3}},
      {CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, {kWindows, kNumber, 2, 3}},
      {CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, {kWindows, kNumber, 1, 1}},
      {CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, {kTensor, kNumber, 1, 1}},
      {CUDNN_ATTR_TENSOR_DATA_TYPE, {kTensor, CUDNN_TYPE_DATA_TYPE, 1, 1}},
      {CUDNN_ATTR_TENSOR_DIMENSIONS, {kTensor, kNumber, 4, kMostRank}},
      {CUDNN_ATTR_TENSOR_STRIDES, {kTensor, kNumber, 4, kMostRank}},
      {CUDNN_ATTR_TENSOR_UNIQUE_ID, {kTensor, kNumber, 1, 1}},
      {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, {kOperation, CUDNN_TYPE_FLOAT, 1, 1}},
      {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, {kOperation, CUDNN_TYPE_FLOAT, 1, 1}},
      {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, {kOperation, kPart, 1, 1}},
      {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, {kOperation, kPart, 1, 1}},
      {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, {kOperation, kPart, 1, 1}},
      {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, {kOperation, kPart, 1, 1}},
      {CUDNN_ATTR_OPERATIONGRAPH_HANDLE, {kGraph, CUDNN_TYPE_HANDLE, 1, 1}},
      {CUDNN_ATTR_OPERATIONGRAPH_OPS, {kGraph, kPart, 1, 1}},
      {CUDNN_ATTR_ENGINEHEUR_MODE, {kHeuristics, CUDNN_TYPE_HEUR_MODE, 1, 1}},
      {CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, {kHeuristics, kPart, 1, 1}},
      {CUDNN_ATTR_EXECUTION_PLAN_HANDLE, {kPlan, CUDNN_TYPE_HANDLE, 1, 1}},
      {CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, {kPlan, kPart, 1, 1}},
      {CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, {kPack, kNumber, 3, 3}},
      {CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, {kPack, CUDNN_TYPE_VOID_PTR, 3, 3}},
      {CUDNN_ATTR_VARIANT_PACK_WORKSPACE, {kPack, CUDNN_TYPE_VOID_PTR, 1, 1}},
  };
  return all;
}

int64_t bytes_of(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR: return 8;
    default: return 4;
  }
}

bool complete(const GraphDescriptor& d) {
  return std::ranges::all_of(known(), [&](const auto& attribute) {
    return attribute.second.of != d.type || d.has(attribute.first);
  });
}

template <class T> void read_tensor(const GraphDescriptor& d, T& out) {
  out.type = d.one<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE);
  const auto extents = d.all<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
  const auto strides = d.all<int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
  out.rank = int(extents.size());
  std::ranges::copy(extents, out.extent.begin());
  std::ranges::copy(strides, out.stride.begin());
}

constexpr cudnnBackendAttributeName_t kTensors[] = {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                                                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                                                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW};

// Of a finished operation.
DnnProblem problem_of(const GraphDescriptor& operation) {
  DnnProblem p{};
  auto tensor = [&](int i) -> const GraphDescriptor& {
    return *operation.part(kTensors[i], CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  };
  read_tensor(tensor(0), p.x), read_tensor(tensor(1), p.y), read_tensor(tensor(2), p.w);
  p.w.format = CUDNN_TENSOR_NHWC;
  const GraphDescriptor& windows = *operation.part(
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  p.windows.axes = int(windows.one<int64_t>(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS));
  p.windows.mode = windows.one<cudnnConvolutionMode_t>(CUDNN_ATTR_CONVOLUTION_CONV_MODE);
  p.windows.compute = windows.one<cudnnDataType_t>(CUDNN_ATTR_CONVOLUTION_COMP_TYPE);
  std::ranges::copy(windows.all<int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS),
                    p.windows.pad.begin());
  std::ranges::copy(windows.all<int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES),
                    p.windows.stride.begin());
  std::ranges::copy(windows.all<int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS),
                    p.windows.dilation.begin());
  if (p.w.extent[1]) p.windows.groups = p.x.extent[1] / p.w.extent[1];  // as its extents have it
  return p;
}

cudnnStatus_t finish_windows(const GraphDescriptor& d) {
  const size_t axes = size_t(d.one<int64_t>(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS));
  for (auto name : {CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES,
                    CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS}) {
    if (d.all<int64_t>(name).size() != axes) return CUDNN_STATUS_BAD_PARAM;
  }
  return d.all<int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS) ==
                 d.all<int64_t>(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS)
             ? CUDNN_STATUS_SUCCESS
             : CUDNN_STATUS_NOT_SUPPORTED;
}

cudnnStatus_t finish_operation(const GraphDescriptor& d) {
  for (auto name : kTensors) {
    if (!d.part(name, CUDNN_BACKEND_TENSOR_DESCRIPTOR)) return CUDNN_STATUS_BAD_PARAM;
  }
  if (!d.part(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
              CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR) ||
      d.one<float>(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA) != 0) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  const DnnProblem p = problem_of(d);
  if (!p.consistent()) return CUDNN_STATUS_BAD_PARAM;
  const bool last = p.w.stride == pal::emulation::channels_last(p.w);
  return p.supported() && last && p.w.type == CUDNN_DATA_FLOAT ? CUDNN_STATUS_SUCCESS
                                                               : CUDNN_STATUS_NOT_SUPPORTED;
}

cudnnStatus_t finish(GraphDescriptor& d) {
  if (d.finished || !complete(d)) return CUDNN_STATUS_BAD_PARAM;
  switch (d.type) {
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR: return finish_windows(d);
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR: return finish_operation(d);
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
      return d.part(CUDNN_ATTR_OPERATIONGRAPH_OPS,
                    CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR)
                 ? CUDNN_STATUS_SUCCESS
                 : CUDNN_STATUS_BAD_PARAM;
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
      return d.part(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)
                 ? CUDNN_STATUS_SUCCESS
                 : CUDNN_STATUS_BAD_PARAM;
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR: {
      const auto* config =
          d.part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
      if (!config) return CUDNN_STATUS_BAD_PARAM;
      d.engine = config->engine, d.graph = config->graph;
      return d.engine == kNoPlan ? CUDNN_STATUS_NOT_SUPPORTED : CUDNN_STATUS_SUCCESS;
    }
    default: return CUDNN_STATUS_SUCCESS;
  }
}

const GraphDescriptor& operation_of(const GraphDescriptor& graph) {
  return *graph.part(CUDNN_ATTR_OPERATIONGRAPH_OPS,
                     CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR);
}

// The descriptors that a caller made for results, filled.
void give_results(const GraphDescriptor& d, int64_t requested, int64_t* count,
                  cudnnBackendDescriptor_t* to) {
  const auto mode = d.one<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE);
  const int engines = mode == CUDNN_HEUR_MODE_A ? int(kGood) : int(kEngines);
  *count = engines;
  for (int i = 0; i < engines && i < requested; ++i) {
    auto& config = *static_cast<GraphDescriptor*>(to[i]);
    config.engine = Engine(i), config.finished = true;
    config.graph =
        d.part(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  }
}

}  // namespace

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* d) {
  *d = new GraphDescriptor{.type = type};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t d) {
  delete static_cast<GraphDescriptor*>(d);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void* elements) {
  auto& d = *static_cast<GraphDescriptor*>(descriptor);
  const auto at = known().find(name);
  if (d.finished || at == known().end() || at->second.of != d.type || at->second.type != type ||
      count < at->second.least || count > at->second.most) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  const auto* from = static_cast<const std::byte*>(elements);
  d.set[name] = {type, {from, from + count * bytes_of(type)}};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  auto& d = *static_cast<GraphDescriptor*>(descriptor);
  const cudnnStatus_t status = finish(d);
  d.finished = status == CUDNN_STATUS_SUCCESS;
  return status;
}
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t requested,
                                       int64_t* count, void* elements) {
  const auto& d = *static_cast<GraphDescriptor*>(descriptor);
  if (!d.finished) return CUDNN_STATUS_BAD_PARAM;
  if (d.type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR && name == CUDNN_ATTR_ENGINEHEUR_RESULTS &&
      type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    give_results(d, requested, count, static_cast<cudnnBackendDescriptor_t*>(elements));
    return CUDNN_STATUS_SUCCESS;
  }
  if (d.type == CUDNN_BACKEND_ENGINECFG_DESCRIPTOR && name == CUDNN_ATTR_ENGINECFG_ENGINE &&
      type == CUDNN_TYPE_BACKEND_DESCRIPTOR && requested == 1) {
    auto& engine =
        *static_cast<GraphDescriptor*>(*static_cast<cudnnBackendDescriptor_t*>(elements));
    engine.engine = d.engine, engine.finished = true, *count = 1;
    return CUDNN_STATUS_SUCCESS;
  }
  if (d.type == CUDNN_BACKEND_ENGINE_DESCRIPTOR && name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE &&
      type == CUDNN_TYPE_NUMERICAL_NOTE && requested >= 2) {
    auto* notes = static_cast<cudnnBackendNumericalNote_t*>(elements);
    notes[0] = CUDNN_NUMERICAL_NOTE_TENSOR_CORE, notes[1] = CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
    *count = d.engine == kOtherBits ? 2 : 1;
    return CUDNN_STATUS_SUCCESS;
  }
  if (d.type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR &&
      name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE && type == CUDNN_TYPE_INT64 &&
      requested == 1) {
    const int64_t needed = int64_t(problem_of(operation_of(*d.graph)).workspace());
    *static_cast<int64_t*>(elements) = d.engine == kMuchWorkspace ? kMuch : needed;
    *count = 1;
    return CUDNN_STATUS_SUCCESS;
  }
  return CUDNN_STATUS_BAD_PARAM;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan_descriptor,
                                  cudnnBackendDescriptor_t pack_descriptor) {
  const auto& plan = *static_cast<GraphDescriptor*>(plan_descriptor);
  const auto& pack = *static_cast<GraphDescriptor*>(pack_descriptor);
  if (!plan.finished || !pack.finished) return CUDNN_STATUS_BAD_PARAM;
  if (plan.engine == kOtherBits) {
    throw std::runtime_error("cuDNN: an engine that gives other bits each time");
  }
  const GraphDescriptor& operation = operation_of(*plan.graph);
  const auto ids = pack.all<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto pointers = pack.all<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  void* at[3];
  for (size_t i = 0; i < 3; ++i) {
    const GraphDescriptor& tensor = *operation.part(kTensors[i], CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    const auto place = std::ranges::find(ids, tensor.one<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID));
    if (place == ids.end()) return CUDNN_STATUS_BAD_PARAM;
    at[i] = pointers[size_t(place - ids.begin())];
    const auto boundary = uintptr_t(tensor.one<int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT));
    if (reinterpret_cast<uintptr_t>(at[i]) % boundary) return CUDNN_STATUS_BAD_PARAM;
  }
  const DnnProblem p = problem_of(operation);
  const float one = operation.one<float>(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA);
  const float none = operation.one<float>(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA);
  return pal::emulation::run(
      pal::ConvKind::weight_grad, p,
      {handle, &one, &none, pack.one<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE), p.workspace()},
      at[0], at[1], at[2]);
}
