// y_t = gru_cell(x_t wx + bias, y_before wh + bias_h, y_before), for all t in one node. What its
// gradient reads is the reserve: of the kernels here the gates and y_n of all steps, elsewhere
// whatever a library keeps, so no pass may round it or look into it.
#include "ops/recurrent/gru_layer.h"

#include <optional>

#include "core/gradient.h"
#include "ops/kernels/operands.h"
#include "ops/recurrent/gru_steps.h"

namespace pal {

namespace {

enum : size_t { kX, kWx, kWh, kBias, kBiasH, kLengths };

// Of the operands that both operators have first, and the lengths.
void check_layer(SpecSpan in, size_t lengths) {
  const TensorSpec &x = in[kX], &wx = in[kWx], &wh = in[kWh];
  require(x.shape.rank() == 3 && is_float(x.dtype) && x.numel() > 0 && !x.layout, x,
          ": want x (T, B, I)");
  require(wh.shape.rank() == 2 && wh.shape[0] > 0 && !wh.layout && wh.dtype == x.dtype &&
              wh.shape[1] == 3 * wh.shape[0],
          wh, ": want wh (H, 3H) of x's type");
  require(wx == TensorSpec{{x.shape[2], wh.shape[1]}, x.dtype}, wx, ": want wx (I, 3H) for x ", x,
          " and wh ", wh);
  const TensorSpec bias{{wh.shape[1]}};
  require(in[kBias] == bias && in[kBiasH] == bias, in[kBias], ", ", in[kBiasH],
          ": want both biases ", bias);
  require(!present(in, lengths) || in[lengths] == TensorSpec{{x.shape[1]}, DType::i32},
          present(in, lengths) ? in[lengths] : x, ": want lengths i32[B]");
}

Specs infer_layer(SpecSpan in, const Attrs& attrs) {
  require(in.size() == 6, "takes x, wx, wh, bias, bias_h, lengths");
  check_layer(in, kLengths);
  const GruLayerShape s = gru_layer_shape(in, attrs.as<GruLayerAttrs>().backwards, kLengths);
  return {{{s.T, s.B, s.H}, s.type}, gru_reserve_spec(s)};
}

using G = GruLayerGrad;

Specs infer_layer_grad(SpecSpan in, const Attrs& attributes) {
  require(in.size() == G::kOperands, "takes x, wx, wh, bias, bias_h, y, dy, lengths, reserve");
  check_layer(in, G::kLengths);
  const auto& attrs = attributes.as<GruLayerGradAttrs>();
  require(is_float(attrs.dwx) && is_float(attrs.dwh), "gives floats");
  const GruLayerShape s = gru_layer_shape(in, attrs.backwards, G::kLengths);
  const TensorSpec y{{s.T, s.B, s.H}, s.type};
  require(in[G::kY] == y && in[G::kDy] == y, in[G::kY], ", ", in[G::kDy], ": want y and dy ", y);
  require(!present(in[G::kReserve]) || in[G::kReserve] == gru_reserve_spec(s), in[G::kReserve],
          ": want the reserve of such a layer");
  return {plain(in[kX]),
          {in[kWx].shape, attrs.dwx},
          {in[kWh].shape, attrs.dwh},
          plain(in[kBias]),
          plain(in[kBiasH])};
}

// The outputs that nobody reads lie in the workspace.
struct LayerOnCpu {
  WorkspaceParts parts;
  GruSteps steps;
  int64_t y_at, reserve_at;

  LayerOnCpu(const Device& device, const GruLayerShape& s, bool has_y, bool has_reserve)
      : steps(device, s, parts),
        y_at(parts.add(has_y ? 0 : s.T * s.state_bytes())),
        reserve_at(parts.add(has_reserve ? 0 : GruSteps::reserve_bytes(s))) {}
};

Prepared prepare_layer(const Device& device, SpecSpan in, SpecSpan out, const Attrs& attrs) {
  const GruLayerShape s = gru_layer_shape(in, attrs.as<GruLayerAttrs>().backwards, kLengths);
  auto state = std::make_shared<LayerOnCpu>(device, s, present(out[0]), present(out[1]));
  return {.state = state, .workspace = state->parts.bytes()};
}

void run_layer(const KernelArgs& a) {
  const LayerOnCpu& s = *static_cast<const LayerOnCpu*>(a.state);
  auto output = [&](size_t i, int64_t at) {
    return a.out[i] ? a.output<std::byte>(i) : a.workspace + at;
  };
  s.steps.run(
      a, {a.in[kX], a.in[kWx], a.in[kWh], a.in[kBias], a.in[kBiasH], input_if_present(a, kLengths)},
      output(0, s.y_at), output(1, s.reserve_at));
}

struct LayerGradOnCpu {
  WorkspaceParts parts;
  GruStepsGrad grad;
  std::optional<LayerOnCpu> again;  // where there is no reserve
  int64_t again_at = 0;

  LayerGradOnCpu(const Device& device, const GruLayerShape& s, const GruLayerGradAttrs& attrs,
                 SpecSpan out, bool has_reserve)
      : grad(device, s, attrs, out, parts) {
    if (has_reserve) return;
    again.emplace(device, s, false, false);
    again_at = parts.add(again->parts.bytes());
  }
};

Prepared prepare_layer_grad(const Device& device, SpecSpan in, SpecSpan out, const Attrs& attrs) {
  const auto& its = attrs.as<GruLayerGradAttrs>();
  const GruLayerShape s = gru_layer_shape(in, its.backwards, G::kLengths);
  auto state = std::make_shared<LayerGradOnCpu>(device, s, its, out, present(in[G::kReserve]));
  return {.state = state, .workspace = state->parts.bytes()};
}

void run_layer_grad(const KernelArgs& a) {
  const LayerGradOnCpu& s = *static_cast<const LayerGradOnCpu*>(a.state);
  const std::byte* reserve = a.input<std::byte>(G::kReserve);
  if (s.again) {
    KernelArgs of_layer{
        a.in, a.out, a.in_spec, a.out_spec, a.attrs, nullptr, a.workspace + s.again_at, a.queue};
    std::byte* const made = of_layer.workspace + s.again->reserve_at;
    s.again->steps.run(of_layer,
                       {a.in[G::kX], a.in[G::kWx], a.in[G::kWh], a.in[G::kBias], a.in[G::kBiasH],
                        input_if_present(a, G::kLengths)},
                       of_layer.workspace + s.again->y_at, made);
    reserve = made;
  }
  s.grad.run(a, reserve);
}

void layer_gradient(GradientArgs& g) {
  if (!g.dy()) return;
  std::vector<Val> in;
  for (size_t k = kX; k <= kBiasH; ++k) in.push_back(g.in(int(k)));
  in.insert(in.end(), {g.out(0), g.dy(), g.in(kLengths), g.out(1)});
  g.give_all(g.builder.emit(
      gru_layer_grad_op, in,
      GruLayerGradAttrs{g.attrs<GruLayerAttrs>().backwards, g.type(kWx), g.type(kWh)}));
}

// Each step reads wh again, as the products of an unrolled layer do.
Cost layer_cost(SpecSpan in, SpecSpan out, double products) {
  const GruLayerShape s = gru_layer_shape(in, false, kLengths);
  const double rows = double(s.T) * double(s.B), gates = 3 * double(s.H);
  Cost cost =
      streaming_cost(rows * (products * 2 * gates * double(s.I + s.H) + 70 * double(s.H)), in, out);
  cost.bytes += double(s.T - 1) * double(in[kWh].bytes());
  return cost;
}

// (T, B, I) -> (T, B, H); `kinds` of the last operands: `l` lengths, `y` like the result, - absent.
std::vector<ExampleOperand> layer_operands(int64_t T, int64_t B, int64_t I, int64_t H,
                                           const char* kinds, DType type = DType::f32) {
  std::vector<ExampleOperand> out = {
      example({T, B, I}, type), example({I, 3 * H}, type, -1, 1), example({H, 3 * H}, type, -1, 1),
      example({3 * H}, DType::f32, -1, 1), example({3 * H}, DType::f32, -1, 1)};
  for (const char* kind = kinds; *kind; ++kind) {
    out.push_back(*kind == 'y'   ? example({T, B, H}, type)
                  : *kind == 'l' ? example({B}, DType::i32, 0, float(T))
                                 : absent_example());
  }
  return out;
}

}  // namespace

// Whether the reserve's bytes are as another run made them is for nobody to compare.
const OpDef gru_layer_op{
    .name = "gru_layer",
    .formula = "gru_cell(x_t wx + bias, y_t' wh + bias_h, y_t') for all t; bytes for its gradient",
    .infer = infer_layer,
    .gradient = layer_gradient,
    .optional_from = kLengths,
    .cost = [](SpecSpan in, SpecSpan out, const Attrs&) { return layer_cost(in, out, 1); },
    .cpu = {.run = run_layer, .prepare = prepare_layer},
    .cuda = &gru_layer_cuda,
    .examples =
        {{.operands = layer_operands(3, 2, 4, 5, "-"), .attrs = GruLayerAttrs{}, .unread = {0, 1}},
         {.operands = layer_operands(4, 5, 3, 6, "l"), .attrs = GruLayerAttrs{}, .unread = {0, 1}},
         {.operands = layer_operands(4, 5, 3, 6, "l"),
          .attrs = GruLayerAttrs{true},
          .unread = {0, 1}},
         {.operands = layer_operands(3, 2, 9, 4, "-"),
          .attrs = GruLayerAttrs{true},
          .unread = {0, 1}},
         {.operands = layer_operands(1, 3, 4, 5, "l"), .attrs = GruLayerAttrs{}, .unread = {0, 1}},
         {.operands = layer_operands(3, 4, 8, 8, "l", DType::bf16),
          .attrs = GruLayerAttrs{true},
          .unread = {0, 1}},
         {.operands = layer_operands(5, 1, 4, 7, "l", DType::f16),
          .attrs = GruLayerAttrs{},
          .unread = {0, 1}}},
};

const OpDef gru_layer_grad_op{
    .name = "gru_layer_grad",
    .formula = "d(x, wx, wh, bias, bias_h) of gru_layer from its bytes, or from x again",
    .infer = infer_layer_grad,
    .optional_from = G::kLengths,
    .cost = [](SpecSpan in, SpecSpan out,
               const Attrs&) { return layer_cost(in, out, present(in[G::kReserve]) ? 2 : 3); },
    .cpu = {.run = run_layer_grad, .prepare = prepare_layer_grad},
    .cuda = &gru_layer_grad_cuda,
    // Backwards, y drawn at random is no layer's where rows end early: it would be zero there.
    .examples = {{.operands = layer_operands(3, 2, 4, 5, "yy--"), .attrs = GruLayerGradAttrs{}},
                 {.operands = layer_operands(4, 5, 3, 6, "yyl-"), .attrs = GruLayerGradAttrs{}},
                 {.operands = layer_operands(4, 5, 3, 6, "yy--"), .attrs = GruLayerGradAttrs{true}},
                 {.operands = layer_operands(1, 3, 4, 5, "yyl-"), .attrs = GruLayerGradAttrs{true}},
                 {.operands = layer_operands(3, 4, 8, 8, "yy--", DType::bf16),
                  .attrs = GruLayerGradAttrs{true},
                  // The others are f32 sums of what is rounded in between.
                  .unread = {0, 1, 1, 1, 1}}},
};

Val gru_layer(const GruLayerOperands& in, bool backwards) {
  return in.x.builder->emit(gru_layer_op, {in.x, in.wx, in.wh, in.bias, in.bias_h, in.lengths},
                            GruLayerAttrs{backwards})[0];
}

}  // namespace pal
