// cuDNN's descriptors of a convolution, filled from ops/libraries/cudnn_shape.h, and the algorithms
// that it may take. docs/decisions/cudnn-convolutions.md has the reasons.
#include "core/cuda/cudnn.h"
#include "core/cuda/libraries.h"
#include "ops/libraries/cudnn_convolution.h"
#include "ops/libraries/cudnn_shape.h"

namespace pal {
namespace {

// Of cuDNN's algorithms, those that its manual has for weights with their channels last and calls
// deterministic. Which versions have which of the forward ones differs.
constexpr auto kForward = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
constexpr auto kOtherForward = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM;
constexpr auto kDataGrad = CUDNN_CONVOLUTION_BWD_DATA_ALGO_1;
constexpr auto kWeightGrad = CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1;

template <class H> using Descriptor = LibraryObject<H, cudnnStatus_t>;

class Convolution final : public CudnnConvolution {
 public:
  Convolution(cudnnHandle_t handle, ConvKind kind, const CudnnShape& shape, DType type,
              cudnnMathType_t math)
      : handle_(handle), kind_(kind) {
    const cudnnDataType_t data = cudnn_type(type);
    describe(x_, data, shape.x, shape.x_stride, shape.rank());
    describe(y_, data, shape.y, shape.y_stride, shape.rank());
    w_.destroy = library_.filter_destroy;
    check_cudnn(library_.filter_create(&w_.get));
    take(library_.filter_set(w_.get, data, CUDNN_TENSOR_NHWC, shape.rank(), shape.w.data()));
    windows_.destroy = library_.convolution_destroy;
    check_cudnn(library_.convolution_create(&windows_.get));
    take(library_.convolution_set(windows_.get, shape.axes, shape.pad.data(), shape.stride.data(),
                                  shape.dilation.data(), CUDNN_CROSS_CORRELATION,
                                  CUDNN_DATA_FLOAT));
    take(library_.convolution_groups(windows_.get, shape.groups));
    take(library_.convolution_math(windows_.get, math));
  }

  // Whether cuDNN takes it, with so many bytes at most.
  bool choose(int64_t most_workspace) {
    if (refused_) return false;
    if (takes(most_workspace)) return true;
    if (kind_ != ConvKind::forward) return false;
    forward_ = kOtherForward;
    return takes(most_workspace);
  }

  int64_t workspace() const override { return bytes_ ? int64_t(bytes_) + kCudnnBoundary : 0; }

  void run(cudaStream_t stream, const void* a, const void* b, void* out, bool add,
           std::byte* workspace) const override {
    check_cudnn(library_.set_stream(handle_, stream));
    check_taken(
        call(a, b, add ? 1.0f : 0.0f, out, bytes_ ? on_cudnn_boundary(workspace) : nullptr));
  }

 private:
  void describe(Descriptor<cudnnTensorDescriptor_t>& tensor, cudnnDataType_t type,
                const CudnnShape::Extents& extents, const CudnnShape::Extents& strides, int rank) {
    tensor.destroy = library_.tensor_destroy;
    check_cudnn(library_.tensor_create(&tensor.get));
    take(library_.tensor_set(tensor.get, type, rank, extents.data(), strides.data()));
  }
  // A description that the library does not take is a convolution that it does not.
  void take(cudnnStatus_t status) {
    if (is_refusal(status))
      refused_ = true;
    else
      check_cudnn(status);
  }

  bool takes(int64_t most_workspace) {
    const cudnnStatus_t status = ask_workspace();
    if (is_refusal(status)) return false;
    check_cudnn(status);
    return bytes_ <= size_t(most_workspace);
  }

  cudnnStatus_t ask_workspace() {
    const auto x = x_.get, y = y_.get;
    switch (kind_) {
      case ConvKind::forward:
        return library_.forward_workspace(handle_, x, w_.get, windows_.get, y, forward_, &bytes_);
      case ConvKind::data_grad:
        return library_.data_grad_workspace(handle_, w_.get, y, windows_.get, x, kDataGrad,
                                            &bytes_);
      default:
        return library_.weight_grad_workspace(handle_, x, y, windows_.get, w_.get, kWeightGrad,
                                              &bytes_);
    }
  }

  // out = the convolution + beta out; what is there is not read where beta is 0.
  cudnnStatus_t call(const void* a, const void* b, float beta, void* out, void* workspace) const {
    const float one = 1;
    switch (kind_) {
      case ConvKind::forward:
        return library_.forward(handle_, &one, x_.get, a, w_.get, b, windows_.get, forward_,
                                workspace, bytes_, &beta, y_.get, out);
      case ConvKind::data_grad:
        return library_.data_grad(handle_, &one, w_.get, b, y_.get, a, windows_.get, kDataGrad,
                                  workspace, bytes_, &beta, x_.get, out);
      default:
        return library_.weight_grad(handle_, &one, x_.get, a, y_.get, b, windows_.get, kWeightGrad,
                                    workspace, bytes_, &beta, w_.get, out);
    }
  }

  const Cudnn& library_ = *cudnn_library();
  cudnnHandle_t handle_;
  ConvKind kind_;
  cudnnConvolutionFwdAlgo_t forward_ = kForward;
  Descriptor<cudnnTensorDescriptor_t> x_, y_;
  Descriptor<cudnnFilterDescriptor_t> w_;
  Descriptor<cudnnConvolutionDescriptor_t> windows_;
  size_t bytes_ = 0;  // of workspace
  bool refused_ = false;
};

}  // namespace

std::unique_ptr<CudnnConvolution> cudnn_convolution(const Device& device, ConvKind kind,
                                                    const ConvShape& shape, DType type,
                                                    int64_t most_workspace) {
  if (!device.cudnn) return nullptr;
  const std::optional<CudnnShape> described = cudnn_shape(shape);
  const cudnnHandle_t handle = described ? cudnn_of(device) : nullptr;
  if (!handle) return nullptr;
  const bool exact = type == DType::f32 && !device.tf32;
  auto convolution = std::make_unique<Convolution>(handle, kind, *described, type,
                                                   exact ? CUDNN_FMA_MATH : CUDNN_TENSOR_OP_MATH);
  if (!convolution->choose(most_workspace)) return nullptr;
  return convolution;
}

}  // namespace pal
