// A convolution's weight gradient in f32 of 16-bit operands, by cuDNN's graph API: a graph of one
// operation.
#include "ops/libraries/cudnn_convolution.h"
#include "ops/libraries/cudnn_graph.h"

namespace pal {
namespace {

enum WeightGradTensor : int64_t { kGradX = 1, kGradDy, kGradDw };

class WeightGradGraph final : public CudnnConvolution {
 public:
  WeightGradGraph(cudnnHandle_t handle, const CudnnShape& shape, DType type,
                  const CudnnBoundaries& on)
      : graph_(handle) {
    const int rank = shape.rank();
    const GraphObject& x =
        graph_.tensor({kGradX, cudnn_type(type), wide(shape.x.data(), rank), on.a});
    const GraphObject& dy =
        graph_.tensor({kGradDy, cudnn_type(type), wide(shape.y.data(), rank), on.b});
    const GraphObject& dw =
        graph_.tensor({kGradDw, CUDNN_DATA_FLOAT, wide(shape.w.data(), rank), on.out});
    const GraphObject& windows = graph_.windows(shape);
    graph_.operation(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                     [&](GraphObject& o) {
                       o.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, x)
                           .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, dy)
                           .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, dw)
                           .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, windows)
                           .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, CUDNN_TYPE_FLOAT,
                                std::vector{1.0f})
                           .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, CUDNN_TYPE_FLOAT,
                                std::vector{0.0f});
                     });
  }

  bool choose(int64_t most_workspace) { return graph_.choose(most_workspace); }
  int64_t workspace() const override { return graph_.workspace(); }

  void run(cudaStream_t stream, const CudnnOperands& o, std::byte* workspace) const override {
    if (o.add) throw DeviceError("cuDNN's graph of a weight gradient adds to nothing");
    graph_.run(stream, {{kGradX, o.a}, {kGradDy, o.b}, {kGradDw, o.out}}, workspace);
  }

 private:
  CudnnGraph graph_;
};

}  // namespace

std::unique_ptr<CudnnConvolution> cudnn_weight_grad(const Device& device, const ConvShape& shape,
                                                    DType type, const CudnnBoundaries& boundaries,
                                                    int64_t most_workspace) {
  if (!device.cudnn || type == DType::f32) return nullptr;
  const std::optional<CudnnShape> described = cudnn_shape(shape);
  const cudnnHandle_t handle = described ? cudnn_of(device) : nullptr;
  if (!handle) return nullptr;
  auto graph = std::make_unique<WeightGradGraph>(handle, *described, type, boundaries);
  if (!graph->choose(most_workspace)) return nullptr;
  return graph;
}

}  // namespace pal
