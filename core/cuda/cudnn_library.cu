// Opening cuDNN, which loads its parts from its own folder as they are wanted.
#include "core/cuda/cudnn.h"
#include "core/cuda/libraries.h"

namespace pal {
namespace {

template <class F> void find(void* library, const char* name, F*& function) {
  function = reinterpret_cast<F*>(function_of(library, "cuDNN", name));
}

const Cudnn* load_cudnn() {
  static constexpr const char* names[] = {"libcudnn.so.9", nullptr};
  void* library = open_library(names, "cudnn", nullptr);
  if (!library) return nullptr;
  static Cudnn t{};
  find(library, "cudnnGetVersion", t.version);
  find(library, "cudnnGetErrorString", t.error_string);
  find(library, "cudnnCreate", t.create);
  find(library, "cudnnDestroy", t.destroy);
  find(library, "cudnnSetStream", t.set_stream);
  find(library, "cudnnCreateTensorDescriptor", t.tensor_create);
  find(library, "cudnnDestroyTensorDescriptor", t.tensor_destroy);
  find(library, "cudnnSetTensorNdDescriptor", t.tensor_set);
  find(library, "cudnnCreateFilterDescriptor", t.filter_create);
  find(library, "cudnnDestroyFilterDescriptor", t.filter_destroy);
  find(library, "cudnnSetFilterNdDescriptor", t.filter_set);
  find(library, "cudnnCreateConvolutionDescriptor", t.convolution_create);
  find(library, "cudnnDestroyConvolutionDescriptor", t.convolution_destroy);
  find(library, "cudnnSetConvolutionNdDescriptor", t.convolution_set);
  find(library, "cudnnSetConvolutionGroupCount", t.convolution_groups);
  find(library, "cudnnSetConvolutionMathType", t.convolution_math);
  find(library, "cudnnGetConvolutionForwardWorkspaceSize", t.forward_workspace);
  find(library, "cudnnGetConvolutionBackwardDataWorkspaceSize", t.data_grad_workspace);
  find(library, "cudnnGetConvolutionBackwardFilterWorkspaceSize", t.weight_grad_workspace);
  find(library, "cudnnConvolutionForward", t.forward);
  find(library, "cudnnConvolutionBackwardData", t.data_grad);
  find(library, "cudnnConvolutionBackwardFilter", t.weight_grad);
  return &t;
}

}  // namespace

const Cudnn* cudnn_library() {
  static const Cudnn* const table = load_cudnn();  // stays open to the program's end
  return table;
}

}  // namespace pal
