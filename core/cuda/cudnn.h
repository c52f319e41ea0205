// cuDNN 9, found when first wanted as cuBLASLt is (core/cuda/libraries.h), and the device's handle.
// Needs its header, which a CUDA build may be without: only files whose names begin with cudnn
// include this one, and such a build leaves them out (cmake/cuda.cmake).
#pragma once
#include <cudnn.h>

#include <string>

#include "core/cuda/device.h"
#include "core/device.h"

namespace pal {

// What is used of the legacy API, of the graph API (docs/decisions/cudnn-convolutions.md says why),
// and of recurrent layers (docs/decisions/recurrent-layers.md).
struct Cudnn {
  decltype(&cudnnGetVersion) version;
  decltype(&cudnnGetErrorString) error_string;
  decltype(&cudnnCreate) create;
  decltype(&cudnnDestroy) destroy;
  decltype(&cudnnSetStream) set_stream;
  decltype(&cudnnCreateTensorDescriptor) tensor_create;
  decltype(&cudnnDestroyTensorDescriptor) tensor_destroy;
  decltype(&cudnnSetTensorNdDescriptor) tensor_set;
  decltype(&cudnnCreateFilterDescriptor) filter_create;
  decltype(&cudnnDestroyFilterDescriptor) filter_destroy;
  decltype(&cudnnSetFilterNdDescriptor) filter_set;
  decltype(&cudnnCreateConvolutionDescriptor) convolution_create;
  decltype(&cudnnDestroyConvolutionDescriptor) convolution_destroy;
  decltype(&cudnnSetConvolutionNdDescriptor) convolution_set;
  decltype(&cudnnSetConvolutionGroupCount) convolution_groups;
  decltype(&cudnnSetConvolutionMathType) convolution_math;
  decltype(&cudnnGetConvolutionForwardWorkspaceSize) forward_workspace;
  decltype(&cudnnGetConvolutionBackwardDataWorkspaceSize) data_grad_workspace;
  decltype(&cudnnGetConvolutionBackwardFilterWorkspaceSize) weight_grad_workspace;
  decltype(&cudnnConvolutionForward) forward;
  decltype(&cudnnConvolutionBackwardData) data_grad;
  decltype(&cudnnConvolutionBackwardFilter) weight_grad;
  decltype(&cudnnBackendCreateDescriptor) backend_create;
  decltype(&cudnnBackendDestroyDescriptor) backend_destroy;
  decltype(&cudnnBackendSetAttribute) backend_set;
  decltype(&cudnnBackendFinalize) backend_finalize;
  decltype(&cudnnBackendGetAttribute) backend_get;
  decltype(&cudnnBackendExecute) backend_execute;
  decltype(&cudnnGetTensorNdDescriptor) tensor_get;
  decltype(&cudnnCreateDropoutDescriptor) dropout_create;
  decltype(&cudnnDestroyDropoutDescriptor) dropout_destroy;
  decltype(&cudnnSetDropoutDescriptor) dropout_set;
  decltype(&cudnnCreateRNNDescriptor) rnn_create;
  decltype(&cudnnDestroyRNNDescriptor) rnn_destroy;
  decltype(&cudnnSetRNNDescriptor_v8) rnn_set;
  decltype(&cudnnCreateRNNDataDescriptor) rnn_data_create;
  decltype(&cudnnDestroyRNNDataDescriptor) rnn_data_destroy;
  decltype(&cudnnSetRNNDataDescriptor) rnn_data_set;
  decltype(&cudnnGetRNNTempSpaceSizes) rnn_spaces;
  decltype(&cudnnGetRNNWeightSpaceSize) rnn_weight_space;
  decltype(&cudnnGetRNNWeightParams) rnn_weight_place;
  decltype(&cudnnRNNForward) rnn_forward;
  decltype(&cudnnRNNBackwardData_v8) rnn_data_grad;
  decltype(&cudnnRNNBackwardWeights_v8) rnn_weight_grad;
};

// The library's functions; null: it is nowhere. DeviceError where one is missing.
const Cudnn* cudnn_library();

// DeviceError "cudnn_convolution.cu:12: cuDNN: CUDNN_STATUS_BAD_PARAM (2000)" unless the call
// succeeded.
void check_cudnn(cudnnStatus_t status, const char* file = __builtin_FILE(),
                 int line = __builtin_LINE());

// The same of a call whose work, "convolution" or the like, the library took when it was described.
void check_taken(cudnnStatus_t status, const char* work = "convolution",
                 const char* file = __builtin_FILE(), int line = __builtin_LINE());

// "9.19.0" of what cudnnGetVersion gives: 91900.
std::string cudnn_version_text(size_t code);

// "CUDNN_STATUS_BAD_PARAM (2000)".
std::string text_of(cudnnStatus_t status);

// The library does not do that, rather than having failed to.
inline bool is_refusal(cudnnStatus_t status) {
  const int category = int(status) / 1000 * 1000;
  return category == CUDNN_STATUS_NOT_SUPPORTED || category == CUDNN_STATUS_BAD_PARAM;
}

// Elements as the library names their type.
inline cudnnDataType_t cudnn_type(DType type) {
  return type == DType::bf16  ? CUDNN_DATA_BFLOAT16
         : type == DType::f16 ? CUDNN_DATA_HALF
                              : CUDNN_DATA_FLOAT;
}

// The device's handle for what a queue runs, made when first wanted, and not while something is
// recorded: the library's own streams belong to a handle, so that two queues would wait for each
// other. Null: there is no cuDNN, or none for such a GPU or driver. DeviceError where it does not
// start.
cudnnHandle_t cudnn_of(CudaDevice& device, QueueId queue);
cudnnHandle_t cudnn_of(const Device& device);  // the compute queue's

}  // namespace pal
