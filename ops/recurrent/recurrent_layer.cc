// y_t = cell(x_t wx + bias, y_before wh), for all t in one node: of GRU cells, where the state's
// product has a bias of its own, and of LSTM cells. What its gradient reads is the reserve: of the
// kernels here the gates of all steps and y_n or c, elsewhere whatever a library keeps, so no pass
// may round it or look into it.
#include "ops/recurrent/recurrent_layer.h"

#include <optional>

#include "core/gradient.h"
#include "ops/kernels/operands.h"
#include "ops/recurrent/recurrent_steps.h"

namespace pal {

namespace {

using Cell = RecurrentCell;
using Operands = RecurrentOperands;
using Gradients = RecurrentGradients;

constexpr int64_t gates_of(Cell cell) { return cell == Cell::gru ? 3 : 4; }

// Of the operands that both operators have.
void check_layer(SpecSpan in, Cell cell, const Operands& at) {
  const char* const names = cell == Cell::gru ? "x, wx, wh, bias, bias_h" : "x, wx, wh, bias";
  require(in.size() == at.count, "takes ", names, at.y ? ", y, dy, lengths, reserve" : ", lengths");
  const TensorSpec &x = in[at.kX], &wx = in[at.kWx], &wh = in[at.kWh];
  require(x.shape.rank() == 3 && is_float(x.dtype) && x.numel() > 0 && !x.layout, x,
          ": want x (T, B, I)");
  require(wh.shape.rank() == 2 && wh.shape[0] > 0 && !wh.layout && wh.dtype == x.dtype &&
              wh.shape[1] == gates_of(cell) * wh.shape[0],
          wh, ": want wh (H, ", gates_of(cell), "H) of x's type");
  require(wx == TensorSpec{{x.shape[2], wh.shape[1]}, x.dtype}, wx, ": want wx (I, ",
          gates_of(cell), "H) for x ", x, " and wh ", wh);
  for (size_t k = 0; k < biases_of(cell); ++k) {
    const TensorSpec bias{{wh.shape[1]}};
    require(in[at.kBias + k] == bias, in[at.kBias + k], ": want a bias ", bias);
  }
  require(!present(in, at.lengths) || in[at.lengths] == TensorSpec{{x.shape[1]}, DType::i32},
          present(in, at.lengths) ? in[at.lengths] : x, ": want lengths i32[B]");
}

template <Cell cell> Specs infer_layer(SpecSpan in, const Attrs& attrs) {
  constexpr Operands at = Operands::of_layer(cell);
  check_layer(in, cell, at);
  const RecurrentShape s = recurrent_shape(cell, in, attrs.as<RecurrentAttrs>().backwards, at);
  return {{{s.T, s.B, s.H}, s.type}, recurrent_reserve_spec(s)};
}

template <Cell cell> Specs infer_layer_grad(SpecSpan in, const Attrs& attributes) {
  constexpr Operands at = Operands::of_gradient(cell);
  check_layer(in, cell, at);
  const auto& attrs = attributes.as<RecurrentGradAttrs>();
  require(is_float(attrs.dwx) && is_float(attrs.dwh), "gives floats");
  const RecurrentShape s = recurrent_shape(cell, in, attrs.backwards, at);
  const TensorSpec y{{s.T, s.B, s.H}, s.type};
  require(in[at.y] == y && in[at.dy] == y, in[at.y], ", ", in[at.dy], ": want y and dy ", y);
  require(!present(in[at.reserve]) || in[at.reserve] == recurrent_reserve_spec(s), in[at.reserve],
          ": want the reserve of such a layer");
  Specs out{plain(in[at.kX]), {in[at.kWx].shape, attrs.dwx}, {in[at.kWh].shape, attrs.dwh}};
  for (size_t k = 0; k < biases_of(cell); ++k) out.push_back(plain(in[at.kBias + k]));
  return out;
}

// The outputs that nobody reads lie in the workspace.
struct LayerOnCpu {
  RecurrentShape shape;
  WorkspaceParts parts;
  RecurrentSteps steps;
  int64_t y_at, reserve_at;

  LayerOnCpu(const Device& device, const RecurrentShape& s, bool has_y, bool has_reserve)
      : shape(s),
        steps(device, s, parts),
        y_at(parts.add(has_y ? 0 : s.T * s.state_bytes())),
        reserve_at(parts.add(has_reserve ? 0 : RecurrentSteps::reserve_bytes(s))) {}
};

template <Cell cell>
Prepared prepare_layer(const Device& device, SpecSpan in, SpecSpan out, const Attrs& attrs) {
  const RecurrentShape s =
      recurrent_shape(cell, in, attrs.as<RecurrentAttrs>().backwards, Operands::of_layer(cell));
  auto state = std::make_shared<LayerOnCpu>(device, s, present(out[0]), present(out[1]));
  return {.state = state, .workspace = state->parts.bytes()};
}

void run_layer(const KernelArgs& a) {
  const LayerOnCpu& s = *static_cast<const LayerOnCpu*>(a.state);
  const Cell cell = s.shape.cell;
  auto output = [&](size_t i, int64_t at) {
    return a.out[i] ? a.output<std::byte>(i) : a.workspace + at;
  };
  s.steps.run(a, {a, cell, Operands::of_layer(cell)}, output(0, s.y_at), output(1, s.reserve_at));
}

struct LayerGradOnCpu {
  RecurrentShape shape;
  WorkspaceParts parts;
  RecurrentStepsGrad grad;
  std::optional<LayerOnCpu> again;  // where there is no reserve
  int64_t again_at = 0;

  LayerGradOnCpu(const Device& device, const RecurrentShape& s, const RecurrentGradAttrs& attrs,
                 SpecSpan out, bool has_reserve)
      : shape(s), grad(device, s, attrs, out, parts) {
    if (has_reserve) return;
    again.emplace(device, s, false, false);
    again_at = parts.add(again->parts.bytes());
  }
};

template <Cell cell>
Prepared prepare_layer_grad(const Device& device, SpecSpan in, SpecSpan out, const Attrs& attrs) {
  constexpr Operands at = Operands::of_gradient(cell);
  const auto& its = attrs.as<RecurrentGradAttrs>();
  const RecurrentShape s = recurrent_shape(cell, in, its.backwards, at);
  auto state = std::make_shared<LayerGradOnCpu>(device, s, its, out, present(in[at.reserve]));
  return {.state = state, .workspace = state->parts.bytes()};
}

void run_layer_grad(const KernelArgs& a) {
  const LayerGradOnCpu& s = *static_cast<const LayerGradOnCpu*>(a.state);
  const Cell cell = s.shape.cell;
  const Operands at = Operands::of_gradient(cell);
  const std::byte* reserve = a.input<std::byte>(at.reserve);
  if (s.again) {
    KernelArgs of_layer{
        a.in, a.out, a.in_spec, a.out_spec, a.attrs, nullptr, a.workspace + s.again_at, a.queue};
    std::byte* const made = of_layer.workspace + s.again->reserve_at;
    s.again->steps.run(of_layer, {a, cell, at}, of_layer.workspace + s.again->y_at, made);
    reserve = made;
  }
  s.grad.run(a, reserve);
}

template <Cell cell> void layer_gradient(GradientArgs& g) {
  if (!g.dy()) return;
  std::vector<Val> in;
  for (size_t k = 0; k < Operands::kBias + biases_of(cell); ++k) in.push_back(g.in(int(k)));
  const Val lengths = g.in(int(Operands::of_layer(cell).lengths));
  in.insert(in.end(), {g.out(0), g.dy(), lengths, g.out(1)});
  g.give_all(g.builder.emit(cell == Cell::gru ? gru_layer_grad_op : lstm_layer_grad_op, in,
                            RecurrentGradAttrs{g.attrs<RecurrentAttrs>().backwards,
                                               g.type(Operands::kWx), g.type(Operands::kWh)}));
}

// Each step reads wh again, as the products of an unrolled layer do.
template <Cell cell> Cost layer_cost(SpecSpan in, SpecSpan out, double products) {
  const RecurrentShape s = recurrent_shape(cell, in, false, Operands::of_layer(cell));
  const double rows = double(s.T) * double(s.B), gates = double(s.gates() * s.H);
  const double of_cell = cell == Cell::gru ? 70 : 110;
  Cost cost = streaming_cost(
      rows * (products * 2 * gates * double(s.I + s.H) + of_cell * double(s.H)), in, out);
  cost.bytes += double(s.T - 1) * double(in[Operands::kWh].bytes());
  return cost;
}
template <Cell cell> Cost forward_cost(SpecSpan in, SpecSpan out, const Attrs&) {
  return layer_cost<cell>(in, out, 1);
}
template <Cell cell> Cost gradient_cost(SpecSpan in, SpecSpan out, const Attrs&) {
  return layer_cost<cell>(in, out, present(in[Operands::of_gradient(cell).reserve]) ? 2 : 3);
}

// (T, B, I) -> (T, B, H); `kinds` of the last operands: `l` lengths, `y` like the result, - absent.
std::vector<ExampleOperand> layer_operands(Cell cell, int64_t T, int64_t B, int64_t I, int64_t H,
                                           const char* kinds, DType type = DType::f32) {
  const int64_t width = gates_of(cell) * H;
  std::vector<ExampleOperand> out = {example({T, B, I}, type), example({I, width}, type, -1, 1),
                                     example({H, width}, type, -1, 1)};
  for (size_t k = 0; k < biases_of(cell); ++k) {
    out.push_back(example({width}, DType::f32, -1, 1));
  }
  for (const char* kind = kinds; *kind; ++kind) {
    out.push_back(*kind == 'y'   ? example({T, B, H}, type)
                  : *kind == 'l' ? example({B}, DType::i32, 0, float(T))
                                 : absent_example());
  }
  return out;
}

// Whether the reserve's bytes are as another run made them is for nobody to compare.
std::vector<Example> layer_examples(Cell cell) {
  auto one = [&](bool backwards, auto... operands) {
    return Example{.operands = layer_operands(cell, operands...),
                   .attrs = RecurrentAttrs{backwards},
                   .unread = {0, 1}};
  };
  return {one(false, 3, 2, 4, 5, "-"),
          one(false, 4, 5, 3, 6, "l"),
          one(true, 4, 5, 3, 6, "l"),
          one(true, 3, 2, 9, 4, "-"),
          one(false, 1, 3, 4, 5, "l"),
          one(true, 3, 4, 8, 8, "l", DType::bf16),
          one(false, 5, 1, 4, 7, "l", DType::f16)};
}

// Backwards, y drawn at random is no layer's where rows end early: it would be zero there.
std::vector<Example> gradient_examples(Cell cell) {
  auto one = [&](bool backwards, auto... operands) {
    return Example{.operands = layer_operands(cell, operands...),
                   .attrs = RecurrentGradAttrs{backwards}};
  };
  std::vector<Example> out = {one(false, 3, 2, 4, 5, "yy--"), one(false, 4, 5, 3, 6, "yyl-"),
                              one(true, 4, 5, 3, 6, "yy--"), one(true, 1, 3, 4, 5, "yyl-"),
                              one(true, 3, 4, 8, 8, "yy--", DType::bf16)};
  // But dx they are f32 sums of what is rounded in between.
  out.back().unread.assign(Gradients::kDbias + biases_of(cell), 1);
  out.back().unread[Gradients::kDx] = 0;
  return out;
}

}  // namespace

const OpDef gru_layer_op{
    .name = "gru_layer",
    .formula = "gru_cell(x_t wx + bias, y_t' wh + bias_h, y_t') for all t; bytes for its gradient",
    .infer = infer_layer<Cell::gru>,
    .gradient = layer_gradient<Cell::gru>,
    .optional_from = Operands::of_layer(Cell::gru).lengths,
    .cost = forward_cost<Cell::gru>,
    .cpu = {.run = run_layer, .prepare = prepare_layer<Cell::gru>},
    .cuda = &gru_layer_cuda,
    .examples = layer_examples(Cell::gru),
};

const OpDef gru_layer_grad_op{
    .name = "gru_layer_grad",
    .formula = "d(x, wx, wh, bias, bias_h) of gru_layer from its bytes, or from x again",
    .infer = infer_layer_grad<Cell::gru>,
    .optional_from = Operands::of_gradient(Cell::gru).lengths,
    .cost = gradient_cost<Cell::gru>,
    .cpu = {.run = run_layer_grad, .prepare = prepare_layer_grad<Cell::gru>},
    .cuda = &gru_layer_grad_cuda,
    .examples = gradient_examples(Cell::gru),
};

const OpDef lstm_layer_op{
    .name = "lstm_layer",
    .formula = "lstm_cell(x_t wx + bias + y_t' wh, c_t') for all t; bytes for its gradient",
    .infer = infer_layer<Cell::lstm>,
    .gradient = layer_gradient<Cell::lstm>,
    .optional_from = Operands::of_layer(Cell::lstm).lengths,
    .cost = forward_cost<Cell::lstm>,
    .cpu = {.run = run_layer, .prepare = prepare_layer<Cell::lstm>},
    .cuda = &lstm_layer_cuda,
    .examples = layer_examples(Cell::lstm),
};

const OpDef lstm_layer_grad_op{
    .name = "lstm_layer_grad",
    .formula = "d(x, wx, wh, bias) of lstm_layer from its bytes, or from x again",
    .infer = infer_layer_grad<Cell::lstm>,
    .optional_from = Operands::of_gradient(Cell::lstm).lengths,
    .cost = gradient_cost<Cell::lstm>,
    .cpu = {.run = run_layer_grad, .prepare = prepare_layer_grad<Cell::lstm>},
    .cuda = &lstm_layer_grad_cuda,
    .examples = gradient_examples(Cell::lstm),
};

Val gru_layer(const GruLayerOperands& in, bool backwards) {
  return in.x.builder->emit(gru_layer_op, {in.x, in.wx, in.wh, in.bias, in.bias_h, in.lengths},
                            RecurrentAttrs{backwards})[0];
}

Val lstm_layer(const LstmLayerOperands& in, bool backwards) {
  return in.x.builder->emit(lstm_layer_op, {in.x, in.wx, in.wh, in.bias, in.lengths},
                            RecurrentAttrs{backwards})[0];
}

}  // namespace pal
