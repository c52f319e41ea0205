// The attributes as the manual lists them.
#include "tests/emulation/cudnn_graph_descriptor.h"

#include <algorithm>

#include "tests/emulation/cudnn_problem.h"

namespace pal::emulation {

const std::map<cudnnBackendAttributeName_t, KnownAttribute>& known_attributes() {
  constexpr auto kWindows = CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR;
  constexpr auto kTensor = CUDNN_BACKEND_TENSOR_DESCRIPTOR;
  constexpr auto kOperation = CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR;
  constexpr auto kDataGrad = CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR;
  constexpr auto kForward = CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR;
  constexpr auto kFormula = CUDNN_BACKEND_POINTWISE_DESCRIPTOR;
  constexpr auto kPointwise = CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR;
  constexpr auto kGraph = CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR;
  constexpr auto kHeuristics = CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR;
  constexpr auto kPlan = CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR;
  constexpr auto kPack = CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR;
  constexpr auto kPart = CUDNN_TYPE_BACKEND_DESCRIPTOR;
  constexpr auto kNumber = CUDNN_TYPE_INT64;
  static const std::map<cudnnBackendAttributeName_t, KnownAttribute> all = {
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
      {CUDNN_ATTR_TENSOR_IS_VIRTUAL, {kTensor, CUDNN_TYPE_BOOLEAN, 1, 1, true}},
      {CUDNN_ATTR_POINTWISE_MODE, {kFormula, CUDNN_TYPE_POINTWISE_MODE, 1, 1}},
      {CUDNN_ATTR_POINTWISE_MATH_PREC, {kFormula, CUDNN_TYPE_DATA_TYPE, 1, 1}},
      {CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, {kPointwise, kPart, 1, 1}},
      {CUDNN_ATTR_OPERATION_POINTWISE_XDESC, {kPointwise, kPart, 1, 1}},
      {CUDNN_ATTR_OPERATION_POINTWISE_BDESC, {kPointwise, kPart, 1, 1, true}},
      {CUDNN_ATTR_OPERATION_POINTWISE_YDESC, {kPointwise, kPart, 1, 1}},
      {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, {kForward, CUDNN_TYPE_FLOAT, 1, 1}},
      {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, {kForward, CUDNN_TYPE_FLOAT, 1, 1}},
      {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, {kForward, kPart, 1, 1}},
      {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, {kForward, kPart, 1, 1}},
      {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, {kForward, kPart, 1, 1}},
      {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, {kForward, kPart, 1, 1}},
      {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, {kDataGrad, CUDNN_TYPE_FLOAT, 1, 1}},
      {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, {kDataGrad, CUDNN_TYPE_FLOAT, 1, 1}},
      {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, {kDataGrad, kPart, 1, 1}},
      {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, {kDataGrad, kPart, 1, 1}},
      {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, {kDataGrad, kPart, 1, 1}},
      {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, {kDataGrad, kPart, 1, 1}},
      {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, {kOperation, CUDNN_TYPE_FLOAT, 1, 1}},
      {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, {kOperation, CUDNN_TYPE_FLOAT, 1, 1}},
      {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, {kOperation, kPart, 1, 1}},
      {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, {kOperation, kPart, 1, 1}},
      {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, {kOperation, kPart, 1, 1}},
      {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, {kOperation, kPart, 1, 1}},
      {CUDNN_ATTR_OPERATIONGRAPH_HANDLE, {kGraph, CUDNN_TYPE_HANDLE, 1, 1}},
      {CUDNN_ATTR_OPERATIONGRAPH_OPS, {kGraph, kPart, 1, 3}},
      {CUDNN_ATTR_ENGINEHEUR_MODE, {kHeuristics, CUDNN_TYPE_HEUR_MODE, 1, 1}},
      {CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, {kHeuristics, kPart, 1, 1}},
      {CUDNN_ATTR_EXECUTION_PLAN_HANDLE, {kPlan, CUDNN_TYPE_HANDLE, 1, 1}},
      {CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, {kPlan, kPart, 1, 1}},
      {CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, {kPack, kNumber, 3, 4}},
      {CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, {kPack, CUDNN_TYPE_VOID_PTR, 3, 4}},
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
    case CUDNN_TYPE_BOOLEAN: return 1;
    default: return 4;
  }
}

bool is_complete(const GraphDescriptor& d) {
  return std::ranges::all_of(known_attributes(), [&](const auto& attribute) {
    return attribute.second.of != d.type || attribute.second.optional || d.has(attribute.first);
  });
}

}  // namespace pal::emulation
