// cuDNN's descriptors of a recurrent layer, and its three calls. All rows are as long as the layer:
// the library reads lengths from the host's memory, where a recorded step has none.
#include <climits>
#include <vector>

#include "core/cuda/cudnn.h"
#include "core/cuda/libraries.h"
#include "ops/libraries/cudnn_rnn.h"
#include "ops/libraries/library_scratch.h"

namespace pal {
namespace {

template <class H> using RnnObject = LibraryObject<H, cudnnStatus_t>;

class Rnn final : public CudnnRnn {
 public:
  // `handle`: what it is described with.
  Rnn(CudaDevice& device, cudnnHandle_t handle, const CudnnRnnShape& shape, cudnnMathType_t math)
      : device_(device), handle_(handle), shape_(shape) {
    describe_layer(math);
    describe_data(x_, shape.inputs);
    describe_data(y_, shape.hidden);
    describe_states();
    if (!refused_) take(library_.rnn_weight_space(handle_, layer_.get, &weights_));
    if (!refused_) {
      take(library_.rnn_spaces(handle_, layer_.get, CUDNN_FWD_MODE_TRAINING, x_.get, &workspace_,
                               &reserve_));
    }
  }

  bool refused() const { return refused_; }
  int64_t workspace() const override { return library_workspace(int64_t(workspace_)); }
  int64_t weights() const override { return int64_t(weights_); }
  int64_t reserve() const override { return int64_t(reserve_); }

  CudnnRnnParts parts(void* weights) const override {
    CudnnRnnParts out{};
    for (int i = 0; i < 2 * shape_.gates(); ++i) {
      CudnnRnnPart &matrix = out.matrix[size_t(i)], &bias = out.bias[size_t(i)];
      check(library_.rnn_weight_place(handle_, layer_.get, 0, weights_, weights, i, place_.get,
                                      &matrix.at, bias_place_.get, &bias.at));
      read_strides(place_.get, matrix, i < shape_.gates() ? shape_.inputs : shape_.hidden);
      read_strides(bias_place_.get, bias, 1);
    }
    return out;
  }

  void forward(const Queue& queue, const void* x, const void* weights, void* y, void* reserve,
               std::byte* workspace) const override {
    const cudnnHandle_t handle = handle_on(queue);
    check(library_.rnn_forward(handle, layer_.get, CUDNN_FWD_MODE_TRAINING, nullptr, x_.get, x,
                               y_.get, y, h_.get, nullptr, nullptr, of_c(), nullptr, nullptr,
                               weights_, weights, workspace_,
                               library_scratch(workspace, int64_t(workspace_)), reserve_, reserve));
  }
  void data_grad(const Queue& queue, const void* y, const void* dy, const void* weights, void* dx,
                 void* reserve, std::byte* workspace) const override {
    const cudnnHandle_t handle = handle_on(queue);
    check(library_.rnn_data_grad(
        handle, layer_.get, nullptr, y_.get, y, dy, x_.get, dx, h_.get, nullptr, nullptr, nullptr,
        of_c(), nullptr, nullptr, nullptr, weights_, weights, workspace_,
        library_scratch(workspace, int64_t(workspace_)), reserve_, reserve));
  }
  void weight_grad(const Queue& queue, const void* x, const void* y, void* gradients, void* reserve,
                   std::byte* workspace) const override {
    const cudnnHandle_t handle = handle_on(queue);
    check(library_.rnn_weight_grad(handle, layer_.get, CUDNN_WGRAD_MODE_ADD, nullptr, x_.get, x,
                                   h_.get, nullptr, y_.get, y, weights_, gradients, workspace_,
                                   library_scratch(workspace, int64_t(workspace_)), reserve_,
                                   reserve));
  }

 private:
  cudnnHandle_t handle_on(const Queue& queue) const {
    const cudnnHandle_t handle = cudnn_of(device_, queue.id);
    check_cudnn(library_.set_stream(handle, static_cast<cudaStream_t>(queue.stream)));
    return handle;
  }
  static void check(cudnnStatus_t status, const char* file = __builtin_FILE(),
                    int line = __builtin_LINE()) {
    check_taken(status, "recurrent layer", file, line);
  }
  // A description that the library does not take is a layer that it does not.
  void take(cudnnStatus_t status) {
    if (is_refusal(status))
      refused_ = true;
    else
      check_cudnn(status);
  }

  void describe_layer(cudnnMathType_t math) {
    dropout_.destroy = library_.dropout_destroy;
    check_cudnn(library_.dropout_create(&dropout_.get));
    check_cudnn(library_.dropout_set(dropout_.get, handle_, 0, nullptr, 0, 0));
    layer_.destroy = library_.rnn_destroy;
    check_cudnn(library_.rnn_create(&layer_.get));
    const int32_t inputs = int32_t(shape_.inputs), hidden = int32_t(shape_.hidden);
    take(library_.rnn_set(layer_.get, CUDNN_RNN_ALGO_STANDARD, shape_.lstm ? CUDNN_LSTM : CUDNN_GRU,
                          CUDNN_RNN_DOUBLE_BIAS, CUDNN_UNIDIRECTIONAL, CUDNN_LINEAR_INPUT,
                          cudnn_type(shape_.type), CUDNN_DATA_FLOAT, math, inputs, hidden, hidden,
                          1, dropout_.get, CUDNN_RNN_PADDED_IO_ENABLED));
  }
  void describe_data(RnnObject<cudnnRNNDataDescriptor_t>& data, int64_t width) {
    data.destroy = library_.rnn_data_destroy;
    check_cudnn(library_.rnn_data_create(&data.get));
    const std::vector<int> lengths(size_t(shape_.batch), int(shape_.steps));
    take(library_.rnn_data_set(data.get, cudnn_type(shape_.type),
                               CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED, int(shape_.steps),
                               int(shape_.batch), int(width), lengths.data(), nullptr));
  }
  // An LSTM's c, which is zero before the first step, as h is.
  cudnnTensorDescriptor_t of_c() const { return shape_.lstm ? h_.get : nullptr; }
  void describe_states() {
    for (RnnObject<cudnnTensorDescriptor_t>* tensor : {&h_, &place_, &bias_place_}) {
      tensor->destroy = library_.tensor_destroy;
      check_cudnn(library_.tensor_create(&tensor->get));
    }
    const int batch = int(shape_.batch), hidden = int(shape_.hidden);
    const int extents[] = {1, batch, hidden}, strides[] = {batch * hidden, hidden, 1};
    take(library_.tensor_set(h_.get, cudnn_type(shape_.type), 3, extents, strides));
  }

  // Of (1, hidden, columns), as the library says that its part is.
  void read_strides(cudnnTensorDescriptor_t place, CudnnRnnPart& part, int64_t columns) const {
    int rank = 0, extents[3] = {}, strides[3] = {};
    cudnnDataType_t type{};
    check(library_.tensor_get(place, 3, &type, &rank, extents, strides));
    if (!part.at || rank != 3 || extents[0] != 1 || extents[1] != shape_.hidden ||
        extents[2] != columns || type != cudnn_type(shape_.type)) {
      throw DeviceError(
          "cuDNN " + cudnn_version() +
          " has another layout of a layer's weights than is known here; device.cudnn: "
          "false does without");
    }
    part.row_stride = strides[1], part.column_stride = strides[2];
  }

  const Cudnn& library_ = *cudnn_library();
  CudaDevice& device_;
  cudnnHandle_t handle_;
  CudnnRnnShape shape_;
  RnnObject<cudnnDropoutDescriptor_t> dropout_;
  RnnObject<cudnnRNNDescriptor_t> layer_;
  RnnObject<cudnnRNNDataDescriptor_t> x_, y_;
  RnnObject<cudnnTensorDescriptor_t> h_, place_, bias_place_;
  size_t weights_ = 0, workspace_ = 0, reserve_ = 0;  // bytes
  bool refused_ = false;
};

}  // namespace

std::unique_ptr<CudnnRnn> cudnn_rnn(const Device& device, const CudnnRnnShape& s) {
  if (!device.cudnn) return nullptr;
  const int64_t most = INT_MAX;
  if (s.steps > most || s.batch * std::max(s.inputs, s.hidden) > most) return nullptr;
  const cudnnHandle_t handle = cudnn_of(device);
  if (!handle) return nullptr;
  const cudnnMathType_t math = s.type != DType::f32 ? CUDNN_TENSOR_OP_MATH
                               : device.tf32        ? CUDNN_DEFAULT_MATH
                                                    : CUDNN_FMA_MATH;
  auto rnn = std::make_unique<Rnn>(cuda_of(device), handle, s, math);
  if (rnn->refused()) return nullptr;
  return rnn;
}

}  // namespace pal
