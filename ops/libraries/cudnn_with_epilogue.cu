// A convolution with what is done to its sums before they are rounded, its bias and relu, by
// cuDNN's graph API: the convolution, and one pointwise operation for each. What they hand to each
// other is f32 and nowhere in memory.
#include "ops/libraries/cudnn_convolution.h"
#include "ops/libraries/cudnn_graph.h"

namespace pal {
namespace {

enum EpilogueTensor : int64_t { kConvX = 1, kConvW, kConvBias, kConvY, kConvSums, kConvBiased };

class EpilogueGraph final : public CudnnConvolution {
 public:
  EpilogueGraph(cudnnHandle_t handle, const CudnnShape& shape, DType type, bool relu,
                const CudnnBoundaries& on)
      : graph_(handle), relu_(relu) {
    const int rank = shape.rank();
    const cudnnDataType_t data = cudnn_type(type);
    const GraphObject& x = graph_.tensor({kConvX, data, wide(shape.x.data(), rank), on.a});
    const GraphObject& w = graph_.tensor({kConvW, data, wide(shape.w.data(), rank), on.b});
    // The last operation writes y, the others what the next one reads.
    auto result = [&](EpilogueTensor number, bool last) -> const GraphObject& {
      const std::vector<int64_t> extents = wide(shape.y.data(), rank);
      return last ? graph_.tensor({kConvY, data, extents, on.out})
                  : graph_.tensor({number, CUDNN_DATA_FLOAT, extents, kWidestBoundary, true});
    };
    const GraphObject& sums = result(kConvSums, false);
    const GraphObject& windows = graph_.windows(shape);
    graph_.operation(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, [&](GraphObject& o) {
      o.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x)
          .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, w)
          .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, sums)
          .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, windows)
          .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, std::vector{1.0f})
          .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, std::vector{0.0f});
    });
    std::vector<int64_t> extents(size_t(rank), 1);
    extents[1] = shape.y[1];
    const GraphObject& row = graph_.tensor({kConvBias, CUDNN_DATA_FLOAT, extents, on.bias});
    const GraphObject& biased = result(kConvBiased, !relu);
    pointwise(CUDNN_POINTWISE_ADD, sums, &row, biased);
    if (relu) pointwise(CUDNN_POINTWISE_RELU_FWD, biased, nullptr, result(kConvY, true));
  }

  bool choose(int64_t most_workspace, const EpilogueGraph* like = nullptr) {
    return graph_.choose(most_workspace, like ? &like->graph_ : nullptr);
  }
  int64_t workspace() const override { return graph_.workspace(); }
  bool does_relu() const override { return relu_; }

  void run(cudaStream_t stream, const CudnnOperands& o, std::byte* workspace) const override {
    if (o.add) throw DeviceError("cuDNN's graph of a convolution adds to nothing");
    graph_.run(stream, {{kConvX, o.a}, {kConvW, o.b}, {kConvY, o.out}, {kConvBias, o.bias}},
               workspace);
  }

 private:
  // `other`: the second operand; null: there is one.
  void pointwise(cudnnPointwiseMode_t mode, const GraphObject& from, const GraphObject* other,
                 const GraphObject& to) {
    const GraphObject& formula =
        graph_.part(CUDNN_BACKEND_POINTWISE_DESCRIPTOR, [&](GraphObject& o) {
          o.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, std::vector{mode})
              .set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE,
                   std::vector{CUDNN_DATA_FLOAT});
        });
    graph_.operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, [&](GraphObject& o) {
      o.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, formula)
          .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, from)
          .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, to);
      if (other) o.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *other);
    });
  }

  CudnnGraph graph_;
  bool relu_;
};

}  // namespace

std::unique_ptr<CudnnConvolution> cudnn_with_epilogue(const Device& device, const ConvShape& shape,
                                                      DType type, bool relu,
                                                      const CudnnBoundaries& boundaries,
                                                      int64_t most_workspace) {
  if (!device.cudnn || !shape.bias || (type == DType::f32 && !device.tf32)) return nullptr;
  const std::optional<CudnnShape> described = cudnn_shape(shape);
  const cudnnHandle_t handle = described ? cudnn_of(device) : nullptr;
  if (!handle) return nullptr;
  auto plain = std::make_unique<EpilogueGraph>(handle, *described, type, false, boundaries);
  if (!plain->choose(most_workspace)) return nullptr;
  if (!relu) return plain;
  auto whole = std::make_unique<EpilogueGraph>(handle, *described, type, true, boundaries);
  if (!whole->choose(most_workspace, plain.get())) return plain;
  return whole;
}

}  // namespace pal
