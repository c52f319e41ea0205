// Convolutions and their gradients by cuDNN's graph API: one operation, and behind a forward one
// what is done to its sums before they are rounded, a pointwise operation for the bias and one for
// relu. What they hand to each other is f32 and nowhere in memory.
#include <algorithm>
#include <set>

#include "ops/libraries/cudnn_convolution.h"
#include "ops/libraries/cudnn_graph.h"

namespace pal {
namespace {

enum ConvTensor : int64_t { kConvA = 1, kConvB, kConvBias, kConvOut, kConvSums, kConvBiased };

// The operation of a kind, and the names of its attributes. a, b and out: as CudnnOperands'.
struct ConvOperation {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t a, b, out, windows, alpha, beta;
};
const ConvOperation& operation_of(ConvKind kind) {
  static const ConvOperation forward{CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                                     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                                     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                                     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                                     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                                     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                                     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
  static const ConvOperation data_grad{CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                                       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                                       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                                       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                                       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                                       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                                       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
  static const ConvOperation weight_grad{
      CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
  switch (kind) {
    case ConvKind::forward: return forward;
    case ConvKind::data_grad: return data_grad;
    case ConvKind::weight_grad: return weight_grad;
  }
  return forward;
}

// Extents of operands and result.
struct ConvExtents {
  std::vector<int64_t> a, b, out;
  ConvExtents(ConvKind kind, const CudnnShape& shape) {
    const int rank = shape.rank();
    const auto x = wide(shape.x.data(), rank), w = wide(shape.w.data(), rank),
               y = wide(shape.y.data(), rank);
    a = kind == ConvKind::data_grad ? y : x;
    b = kind == ConvKind::weight_grad ? y : w;
    out = kind == ConvKind::forward ? y : kind == ConvKind::data_grad ? x : w;
  }
};

class ConvolutionGraph final : public CudnnConvolution {
 public:
  ConvolutionGraph(cudnnHandle_t handle, const GraphConvolution& c, const CudnnShape& shape,
                   bool relu)
      : graph_(handle), relu_(relu) {
    const ConvExtents extents(c.kind, shape);
    const cudnnDataType_t data = cudnn_type(c.type);
    const GraphObject& a = graph_.tensor({kConvA, data, extents.a, c.boundaries.a});
    const GraphObject& b = graph_.tensor({kConvB, data, extents.b, c.boundaries.b});
    // The last operation writes the result, the others what the next one reads.
    const auto result = [&](ConvTensor number, bool last) -> const GraphObject& {
      return last ? graph_.tensor({kConvOut, cudnn_type(c.result), extents.out, c.boundaries.out})
                  : graph_.tensor({number, CUDNN_DATA_FLOAT, extents.out, kWidestBoundary, true});
    };
    const bool bias = c.shape.bias;
    const GraphObject* sums = &result(kConvSums, !bias && !relu);
    const GraphObject& windows = graph_.windows(shape);
    const ConvOperation& names = operation_of(c.kind);
    graph_.operation(names.type, [&](GraphObject& o) {
      o.set(names.a, a)
          .set(names.b, b)
          .set(names.out, *sums)
          .set(names.windows, windows)
          .set(names.alpha, CUDNN_TYPE_FLOAT, std::vector{1.0f})
          .set(names.beta, CUDNN_TYPE_FLOAT, std::vector{0.0f});
    });
    if (bias) {
      std::vector<int64_t> row_extents(extents.out.size(), 1);
      row_extents[1] = extents.out[1];
      const GraphObject& row =
          graph_.tensor({kConvBias, CUDNN_DATA_FLOAT, row_extents, c.boundaries.bias});
      const GraphObject& biased = result(kConvBiased, !relu);
      pointwise(CUDNN_POINTWISE_ADD, *sums, &row, biased);
      sums = &biased;
    }
    if (relu) pointwise(CUDNN_POINTWISE_RELU_FWD, *sums, nullptr, result(kConvOut, true));
  }

  bool choose(int64_t most_workspace, const std::string* like = nullptr) {
    return graph_.choose(most_workspace, like);
  }
  std::vector<std::string> offered() { return graph_.offered(); }
  std::string engine() const override { return graph_.settings(); }
  const std::string& why_not() const { return graph_.why_not(); }
  int64_t workspace() const override { return graph_.workspace(); }
  bool does_relu() const override { return relu_; }

  void run(cudaStream_t stream, const CudnnOperands& o, std::byte* workspace) const override {
    if (o.add) throw DeviceError("cuDNN's graph of a convolution adds to nothing");
    std::vector<CudnnGraph::Bound> bound{{kConvA, o.a}, {kConvB, o.b}, {kConvOut, o.out}};
    if (o.bias) bound.push_back({kConvBias, o.bias});
    graph_.run(stream, bound, workspace);
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

using MadeGraph = std::unique_ptr<ConvolutionGraph>;

// Without relu or with it, of what the graph API may be given; null: it is left to others.
MadeGraph made_graph(const Device& device, const GraphConvolution& c, bool relu = false) {
  if (!device.cudnn || (c.type == DType::f32 && !device.tf32) || c.shape.accumulate) return nullptr;
  const std::optional<CudnnShape> described = cudnn_shape(c.shape);
  const cudnnHandle_t handle = described ? cudnn_of(device) : nullptr;
  return handle ? std::make_unique<ConvolutionGraph>(handle, c, *described, relu) : nullptr;
}

// One engine of each number first: those of a number differ least.
std::vector<std::string> varied(const std::vector<std::string>& settings) {
  std::vector<std::string> first, others;
  std::set<std::string> seen;
  for (const std::string& each : settings) {
    const size_t knobs = each.find(':', each.find(':') + 1);
    (seen.insert(each.substr(0, knobs)).second ? first : others).push_back(each);
  }
  first.insert(first.end(), others.begin(), others.end());
  return first;
}

}  // namespace

std::unique_ptr<CudnnConvolution> cudnn_convolution_graph(const Device& device,
                                                          const GraphConvolution& c,
                                                          std::string* why_not) {
  MadeGraph plain = made_graph(device, c);
  if (!plain) return nullptr;
  const auto say = [&](const ConvolutionGraph& graph) {
    if (why_not) *why_not = graph.why_not();
  };
  if (!plain->choose(c.most_workspace, c.engine.empty() ? nullptr : &c.engine)) {
    return say(*plain), nullptr;
  }
  if (!c.relu) return plain;
  MadeGraph whole = made_graph(device, c, true);
  const std::string engine = plain->engine();
  if (whole->choose(c.most_workspace, &engine)) return whole;
  say(*whole);
  return plain;
}

std::vector<std::unique_ptr<CudnnConvolution>> cudnn_convolution_graphs(const Device& device,
                                                                        const GraphConvolution& c,
                                                                        size_t most,
                                                                        std::string* why_not) {
  std::vector<std::unique_ptr<CudnnConvolution>> out;
  const MadeGraph offering = made_graph(device, c);
  if (!offering) return out;
  const std::vector<std::string> offered = varied(offering->offered());
  // Each is compiled to be tried.
  for (size_t i = 0; i < std::min(2 * most, offered.size()) && out.size() < most; ++i) {
    MadeGraph graph = made_graph(device, c);
    if (graph->choose(c.most_workspace, &offered[i])) out.push_back(std::move(graph));
  }
  if (out.empty()) {
    if (auto any = cudnn_convolution_graph(device, c, why_not)) out.push_back(std::move(any));
  }
  return out;
}

}  // namespace pal
