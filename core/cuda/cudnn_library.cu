// Opening cuDNN, which loads its parts from its own folder as they are wanted.
#include "core/cuda/cudnn.h"
#include "core/cuda/libraries.h"
#include "core/cuda/library_folders.h"

namespace pal {
namespace {

template <class F> void find_cudnn(void* library, const char* name, F*& function) {
  function = reinterpret_cast<F*>(function_of(library, "cuDNN", name));
}

const Cudnn* load_cudnn() {
  // cuDNN opens cuBLASLt by its name alone, which succeeds anywhere once it is open.
  try {
    cublas_lt();
  } catch (const DeviceError&) {  // the first product says so
  }
  static constexpr const char* names[] = {"libcudnn.so.9", nullptr};
  void* library = open_library(names, "cudnn", nullptr);
  if (!library) return nullptr;
  static Cudnn t{};
  find_cudnn(library, "cudnnGetVersion", t.version);
  find_cudnn(library, "cudnnGetErrorString", t.error_string);
  find_cudnn(library, "cudnnCreate", t.create);
  find_cudnn(library, "cudnnDestroy", t.destroy);
  find_cudnn(library, "cudnnSetStream", t.set_stream);
  find_cudnn(library, "cudnnCreateTensorDescriptor", t.tensor_create);
  find_cudnn(library, "cudnnDestroyTensorDescriptor", t.tensor_destroy);
  find_cudnn(library, "cudnnSetTensorNdDescriptor", t.tensor_set);
  find_cudnn(library, "cudnnCreateFilterDescriptor", t.filter_create);
  find_cudnn(library, "cudnnDestroyFilterDescriptor", t.filter_destroy);
  find_cudnn(library, "cudnnSetFilterNdDescriptor", t.filter_set);
  find_cudnn(library, "cudnnCreateConvolutionDescriptor", t.convolution_create);
  find_cudnn(library, "cudnnDestroyConvolutionDescriptor", t.convolution_destroy);
  find_cudnn(library, "cudnnSetConvolutionNdDescriptor", t.convolution_set);
  find_cudnn(library, "cudnnSetConvolutionGroupCount", t.convolution_groups);
  find_cudnn(library, "cudnnSetConvolutionMathType", t.convolution_math);
  find_cudnn(library, "cudnnGetConvolutionForwardWorkspaceSize", t.forward_workspace);
  find_cudnn(library, "cudnnGetConvolutionBackwardDataWorkspaceSize", t.data_grad_workspace);
  find_cudnn(library, "cudnnGetConvolutionBackwardFilterWorkspaceSize", t.weight_grad_workspace);
  find_cudnn(library, "cudnnConvolutionForward", t.forward);
  find_cudnn(library, "cudnnConvolutionBackwardData", t.data_grad);
  find_cudnn(library, "cudnnConvolutionBackwardFilter", t.weight_grad);
  find_cudnn(library, "cudnnBackendCreateDescriptor", t.backend_create);
  find_cudnn(library, "cudnnBackendDestroyDescriptor", t.backend_destroy);
  find_cudnn(library, "cudnnBackendSetAttribute", t.backend_set);
  find_cudnn(library, "cudnnBackendFinalize", t.backend_finalize);
  find_cudnn(library, "cudnnBackendGetAttribute", t.backend_get);
  find_cudnn(library, "cudnnBackendExecute", t.backend_execute);
  find_cudnn(library, "cudnnGetTensorNdDescriptor", t.tensor_get);
  find_cudnn(library, "cudnnCreateDropoutDescriptor", t.dropout_create);
  find_cudnn(library, "cudnnDestroyDropoutDescriptor", t.dropout_destroy);
  find_cudnn(library, "cudnnSetDropoutDescriptor", t.dropout_set);
  find_cudnn(library, "cudnnCreateRNNDescriptor", t.rnn_create);
  find_cudnn(library, "cudnnDestroyRNNDescriptor", t.rnn_destroy);
  find_cudnn(library, "cudnnSetRNNDescriptor_v8", t.rnn_set);
  find_cudnn(library, "cudnnCreateRNNDataDescriptor", t.rnn_data_create);
  find_cudnn(library, "cudnnDestroyRNNDataDescriptor", t.rnn_data_destroy);
  find_cudnn(library, "cudnnSetRNNDataDescriptor", t.rnn_data_set);
  find_cudnn(library, "cudnnGetRNNTempSpaceSizes", t.rnn_spaces);
  find_cudnn(library, "cudnnGetRNNWeightSpaceSize", t.rnn_weight_space);
  find_cudnn(library, "cudnnGetRNNWeightParams", t.rnn_weight_place);
  find_cudnn(library, "cudnnRNNForward", t.rnn_forward);
  find_cudnn(library, "cudnnRNNBackwardData_v8", t.rnn_data_grad);
  find_cudnn(library, "cudnnRNNBackwardWeights_v8", t.rnn_weight_grad);
  return &t;
}

}  // namespace

const Cudnn* cudnn_library() {
  static const Cudnn* const table = load_cudnn();  // stays open to the program's end
  return table;
}

}  // namespace pal
