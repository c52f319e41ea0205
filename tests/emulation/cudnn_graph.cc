// cuDNN's graph API, as far as a convolution and its gradients go, and what is done to a
// convolution's sums: objects that take attributes, are finished, and are used then and not before.
// An attribute of another name, type or number of elements than the manual has is refused, as are
// tensors that do not lie as they were said to, and operations that do not hand their results on.
// Heuristics name an engine that gives other bits each time first, then one that has no plan, then
// one that wants much workspace, then one for tensor cores, then one that does without.
#include <cudnn.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

#include "tests/emulation/cudnn_graph_descriptor.h"
#include "tests/emulation/cudnn_problem.h"
#include "tests/emulation/emulation.h"

namespace {

using namespace pal::emulation;

template <class T> void read_tensor(const GraphDescriptor& d, T& out) {
  out.type = d.one<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE);
  const auto extents = d.all<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
  const auto strides = d.all<int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
  out.rank = int(extents.size());
  std::ranges::copy(extents, out.extent.begin());
  std::ranges::copy(strides, out.stride.begin());
}

// The names of a convolution's attributes: image, weights, output, windows, alpha, beta.
struct Names {
  pal::ConvKind kind;
  cudnnBackendAttributeName_t x, w, y, windows, alpha, beta;

  cudnnBackendAttributeName_t result() const {
    return kind == pal::ConvKind::forward ? y : kind == pal::ConvKind::data_grad ? x : w;
  }
  // In the order in which they are run with.
  std::array<cudnnBackendAttributeName_t, 2> operands() const {
    return {kind == pal::ConvKind::data_grad ? y : x, kind == pal::ConvKind::weight_grad ? y : w};
  }
};
const std::map<cudnnBackendDescriptorType_t, Names>& convolutions() {
  static const std::map<cudnnBackendDescriptorType_t, Names> all{
      {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
       {pal::ConvKind::forward, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA}},
      {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
       {pal::ConvKind::data_grad, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA}},
      {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
       {pal::ConvKind::weight_grad, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA}}};
  return all;
}
const Names& names_of(const GraphDescriptor& convolution) {
  return convolutions().at(convolution.type);
}

// Of a convolution whose parts are finished.
DnnProblem problem_of(const GraphDescriptor& operation) {
  DnnProblem p{};
  const Names& names = names_of(operation);
  read_tensor(*operation.tensor(names.x), p.x), read_tensor(*operation.tensor(names.y), p.y);
  read_tensor(*operation.tensor(names.w), p.w);
  p.w.format = CUDNN_TENSOR_NHWC;
  const GraphDescriptor& windows =
      *operation.part(names.windows, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
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

// A graph: a convolution, and what is done to its sums.
struct Whole {
  const GraphDescriptor* convolution = nullptr;
  const GraphDescriptor* bias = nullptr;  // a tensor
  bool relu = false;
  const GraphDescriptor* result = nullptr;

  pal::ConvKind kind() const { return names_of(*convolution).kind; }
  // The tensors that are in memory: a convolution's operands and the result, then the bias.
  std::vector<const GraphDescriptor*> tensors() const {
    std::vector<const GraphDescriptor*> out;
    for (auto name : names_of(*convolution).operands()) out.push_back(convolution->tensor(name));
    out.push_back(result);
    if (bias) out.push_back(bias);
    return out;
  }
  // As though the convolution wrote the result.
  DnnProblem problem(Engine engine) const {
    DnnProblem p = problem_of(*convolution);
    if (kind() == pal::ConvKind::forward) read_tensor(*result, p.y);
    p.windows.math = engine == kCores ? CUDNN_TENSOR_OP_MATH : CUDNN_FMA_MATH;
    return p;
  }
};

int64_t number_of(const GraphDescriptor& tensor) {
  return tensor.one<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
}
cudnnDataType_t type_of(const GraphDescriptor& tensor) {
  return tensor.one<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE);
}
cudnnPointwiseMode_t mode_of(const GraphDescriptor& pointwise) {
  return pointwise
      .part(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, CUDNN_BACKEND_POINTWISE_DESCRIPTOR)
      ->one<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
}

// Every operation reads what the one before it wrote, which is handed on in f32 and is not in
// memory; all else is.
std::optional<Whole> whole_of(const GraphDescriptor& graph) {
  const auto operations = graph.parts(CUDNN_ATTR_OPERATIONGRAPH_OPS);
  Whole w{.convolution = operations[0]};
  if (!w.convolution || !convolutions().contains(w.convolution->type)) return {};
  w.result = w.convolution->tensor(names_of(*w.convolution).result());
  for (size_t i = 1; i < operations.size(); ++i) {
    const GraphDescriptor* o = operations[i];
    if (!o || o->type != CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR) return {};
    if (w.kind() != pal::ConvKind::forward) return {};
    const GraphDescriptor& from = *o->tensor(CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
    if (number_of(from) != number_of(*w.result) || !from.is_virtual()) return {};
    if (type_of(from) != CUDNN_DATA_FLOAT || w.relu) return {};
    if (mode_of(*o) == CUDNN_POINTWISE_ADD) {
      if (std::exchange(w.bias, o->tensor(CUDNN_ATTR_OPERATION_POINTWISE_BDESC))) return {};
    } else {
      w.relu = true;
    }
    w.result = o->tensor(CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
  }
  std::set<int64_t> numbers;
  for (const GraphDescriptor* tensor : w.tensors()) {
    if (tensor->is_virtual() || !numbers.insert(number_of(*tensor)).second) return {};
  }
  return w;
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

cudnnStatus_t finish_convolution(const GraphDescriptor& d) {
  const Names& names = names_of(d);
  for (auto name : {names.x, names.w, names.y}) {
    if (!d.tensor(name)) return CUDNN_STATUS_BAD_PARAM;
  }
  if (!d.part(names.windows, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR) ||
      d.one<float>(names.beta) != 0) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  DnnProblem p = problem_of(d);
  const bool forward = names.kind == pal::ConvKind::forward;
  const bool weights = names.kind == pal::ConvKind::weight_grad;
  if (forward) p.y.type = p.x.type;  // what it may be is the graph's affair
  if (!p.consistent()) return CUDNN_STATUS_BAD_PARAM;
  const bool last = p.w.stride == pal::emulation::channels_last(p.w);
  const bool like_weights = p.w.type == p.x.type || (weights && p.w.type == CUDNN_DATA_FLOAT);
  return p.supported() && last && like_weights ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED;
}

// A sum with a number for each channel, or relu.
cudnnStatus_t finish_pointwise(const GraphDescriptor& d) {
  const GraphDescriptor* x = d.tensor(CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
  const GraphDescriptor* y = d.tensor(CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
  const GraphDescriptor* b = d.tensor(CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
  const GraphDescriptor* formula =
      d.part(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  if (!x || !y || !formula) return CUDNN_STATUS_BAD_PARAM;
  const bool sum = mode_of(d) == CUDNN_POINTWISE_ADD;
  if (d.has(CUDNN_ATTR_OPERATION_POINTWISE_BDESC) != sum || (sum && !b)) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  if (!sum && mode_of(d) != CUDNN_POINTWISE_RELU_FWD) return CUDNN_STATUS_NOT_SUPPORTED;
  if (formula->one<cudnnDataType_t>(CUDNN_ATTR_POINTWISE_MATH_PREC) != CUDNN_DATA_FLOAT) {
    return CUDNN_STATUS_NOT_SUPPORTED;
  }
  for (auto name : {CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_ATTR_TENSOR_STRIDES}) {
    if (x->all<int64_t>(name) != y->all<int64_t>(name)) return CUDNN_STATUS_BAD_PARAM;
  }
  if (!sum) return CUDNN_STATUS_SUCCESS;
  const auto like = x->all<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
  std::vector<int64_t> row(like.size(), 1);
  row[1] = like[1];
  return b->all<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS) == row &&
                 b->all<int64_t>(CUDNN_ATTR_TENSOR_STRIDES)[1] == 1
             ? CUDNN_STATUS_SUCCESS
             : CUDNN_STATUS_BAD_PARAM;
}

cudnnStatus_t finish_graph(const GraphDescriptor& d) {
  const std::optional<Whole> whole = whole_of(d);
  if (!whole) return CUDNN_STATUS_BAD_PARAM;
  if (d.parts(CUDNN_ATTR_OPERATIONGRAPH_OPS).size() > 1 && !pal::emulation::settings().fusions) {
    return CUDNN_STATUS_NOT_SUPPORTED;
  }
  return whole->problem(kGood).consistent() ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

cudnnStatus_t finish(GraphDescriptor& d) {
  if (d.finished || !is_complete(d)) return CUDNN_STATUS_BAD_PARAM;
  switch (d.type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR: {  // 9.26: a multiple of an element, virtual ones too
      const auto boundary = d.one<int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
      const int64_t element = type_of(d) == CUDNN_DATA_FLOAT ? 4 : 2;
      return boundary > 0 && boundary % element == 0 ? CUDNN_STATUS_SUCCESS
                                                     : CUDNN_STATUS_BAD_PARAM;
    }
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR: return finish_windows(d);
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
      return finish_convolution(d);
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR: return finish_pointwise(d);
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR: return finish_graph(d);
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
      return d.part(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)
                 ? CUDNN_STATUS_SUCCESS
                 : CUDNN_STATUS_BAD_PARAM;
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR: {
      const auto* config =
          d.part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
      if (!config) return CUDNN_STATUS_BAD_PARAM;
      d.engine = config->engine, d.graph = config->graph;
      if (d.engine != kNoPlan) return CUDNN_STATUS_SUCCESS;
      return d.graph->parts(CUDNN_ATTR_OPERATIONGRAPH_OPS).size() > 1
                 ? CUDNN_STATUS_INTERNAL_ERROR_COMPILATION_FAILED
                 : CUDNN_STATUS_NOT_SUPPORTED;
    }
    // Of those that have nothing but attributes.
    case CUDNN_BACKEND_POINTWISE_DESCRIPTOR:
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR: return CUDNN_STATUS_SUCCESS;
    default: return CUDNN_STATUS_NOT_SUPPORTED;
  }
}

// The descriptors that a caller made for results, filled.
void give_results(const GraphDescriptor& d, int64_t requested, int64_t* count,
                  cudnnBackendDescriptor_t* to) {
  const auto mode = d.one<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE);
  const int engines = mode == CUDNN_HEUR_MODE_A ? int(kCores) : int(kEngines);
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
  const auto at = known_attributes().find(name);
  if (d.finished || at == known_attributes().end() || at->second.of != d.type ||
      at->second.type != type || count < at->second.least || count > at->second.most) {
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
  if (d.type == CUDNN_BACKEND_ENGINE_DESCRIPTOR && name == CUDNN_ATTR_ENGINE_GLOBAL_INDEX &&
      type == CUDNN_TYPE_INT64 && requested == 1) {
    *static_cast<int64_t*>(elements) = d.engine, *count = 1;
    return CUDNN_STATUS_SUCCESS;
  }
  if (d.type == CUDNN_BACKEND_ENGINECFG_DESCRIPTOR && name == CUDNN_ATTR_ENGINECFG_KNOB_CHOICES &&
      type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    if (requested < 1) return CUDNN_STATUS_BAD_PARAM;
    *count = 1;  // another one where relu is done
    auto& knob = *static_cast<GraphDescriptor*>(*static_cast<cudnnBackendDescriptor_t*>(elements));
    knob.tile = whole_of(*d.graph)->relu && !pal::emulation::settings().same_engines ? 256 : 128;
    knob.finished = true;
    return CUDNN_STATUS_SUCCESS;
  }
  if (d.type == CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR && requested == 1) {
    *count = 1;
    if (name == CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE && type == CUDNN_TYPE_KNOB_TYPE) {
      *static_cast<cudnnBackendKnobType_t*>(elements) = CUDNN_KNOB_TYPE_TILE_SIZE;
      return CUDNN_STATUS_SUCCESS;
    }
    if (name == CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE && type == CUDNN_TYPE_INT64) {
      *static_cast<int64_t*>(elements) = d.tile;
      return CUDNN_STATUS_SUCCESS;
    }
  }
  if (d.type == CUDNN_BACKEND_ENGINE_DESCRIPTOR && name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE &&
      type == CUDNN_TYPE_NUMERICAL_NOTE && requested >= 2) {
    auto* notes = static_cast<cudnnBackendNumericalNote_t*>(elements);
    notes[0] = CUDNN_NUMERICAL_NOTE_TENSOR_CORE, notes[1] = CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
    *count = d.engine == kOtherBits ? 2 : d.engine == kCores ? 1 : 0;
    return CUDNN_STATUS_SUCCESS;
  }
  if (d.type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR &&
      name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE && type == CUDNN_TYPE_INT64 &&
      requested == 1) {
    const int64_t needed = int64_t(whole_of(*d.graph)->problem(d.engine).workspace());
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
  const Whole whole = *whole_of(*plan.graph);
  const auto ids = pack.all<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto pointers = pack.all<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  const auto tensors = whole.tensors();
  if (ids.size() != tensors.size() || pointers.size() != ids.size()) return CUDNN_STATUS_BAD_PARAM;
  std::vector<void*> at;
  for (const GraphDescriptor* tensor : tensors) {
    const auto place = std::ranges::find(ids, number_of(*tensor));
    if (place == ids.end()) return CUDNN_STATUS_BAD_PARAM;
    at.push_back(pointers[size_t(place - ids.begin())]);
    const auto boundary = uintptr_t(tensor->one<int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT));
    if (!at.back() || reinterpret_cast<uintptr_t>(at.back()) % boundary) {
      return CUDNN_STATUS_BAD_PARAM;
    }
  }
  const DnnProblem p = whole.problem(plan.engine);
  const Names& names = names_of(*whole.convolution);
  const float one = whole.convolution->one<float>(names.alpha);
  const float none = whole.convolution->one<float>(names.beta);
  DnnCall call{handle, &one, &none, pack.one<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE),
               p.workspace()};
  if (whole.bias) call.bias = at[3], call.bias_type = type_of(*whole.bias);
  call.relu = whole.relu;
  if (whole.kind() == pal::ConvKind::weight_grad) {
    call.ms = pal::emulation::settings().dnn_ms.at(size_t(plan.engine - kCores));
    if (call.ms < 0) return CUDNN_STATUS_NOT_SUPPORTED;
    if (plan.engine == kGood && pal::emulation::varied_sums) call.parts = 3;
  }
  return pal::emulation::run(whole.kind(), p, call, at[0], at[1], at[2]);
}
