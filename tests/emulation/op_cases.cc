// The cases of every operator on the emulated GPU, and how far results may be apart.
#include "tests/emulation/op_cases.h"

#include <cmath>
#include <map>

#include "ops/convolution/conv2d.h"
#include "ops/convolution/conv_relu.h"
#include "ops/convolution/convolution.h"
#include "ops/losses/cross_entropy.h"
#include "ops/norms/lrn.h"
#include "ops/optimizer/adam.h"
#include "ops/sums/gates.h"
#include "ops/sums/reduce.h"
#include "ops/tensors/embedding.h"
#include "ops/tensors/state.h"

namespace pal::test {

bool is_convolution(const OpDef& op) {
  const std::string name = op.name;
  return name.starts_with("conv2d") || name.starts_with("conv3d");
}

bool is_recurrent_layer(const OpDef& op) {
  const std::string name = op.name;
  return name.starts_with("gru_layer") || name.starts_with("lstm_layer");
}

bool may_be_cudnns(const OpDef& op) { return is_convolution(op) || is_recurrent_layer(op); }

// Never destroyed: at the program's end the libraries whose handles it has may have gone before it.
std::shared_ptr<Accelerator> gpu() {
  static const auto* const one = new std::shared_ptr<Accelerator>([] {
    try {
      return cuda_device().accelerator;
    } catch (const UsageError&) {
      return std::shared_ptr<Accelerator>();
    }
  }());
  return *one;
}

std::vector<const OpDef*> ops_with_kernels() {
  std::vector<const OpDef*> out;
  for (const OpDef* op : all_ops()) {
    if (op->cuda && op->cuda->run) out.push_back(op);
  }
  return out;
}

namespace {

// Two outputs a channel; the widths of vectors; 1 x 1 in groups, which needs no windows; taps
// apart, some windows of which lie inside.
std::vector<Example> convolutions(const OpDef& op) {
  struct Shapes {
    Shape x, w, y;
    Conv2dAttrs attrs;
  };
  std::vector<Shapes> all = {
      {{3, 7, 9, 9}, {18, 3, 3, 1}, {3, 4, 5, 18}, conv2d_attrs(2, 1, 9)},
      {{2, 7, 5, 16},
       {16, 3, 2, 1},
       {2, 7, 6, 16},
       {.top = 1, .left = 1, .bottom = 1, .right = 1, .groups = 16}},
      {{2, 5, 3, 6}, {9, 1, 1, 2}, {2, 5, 3, 9}, {.groups = 3}},
      {{2, 7, 11, 5},
       {6, 3, 3, 5},
       {2, 7, 11, 6},
       {.top = 2, .left = 3, .bottom = 2, .right = 3, .dilation_h = 2, .dilation_w = 3}},
  };
  std::vector<Example> out;
  for (Shapes& s : all) {
    if (&op == &conv2d_op || &op == &conv2d_relu_op) {
      out.push_back(
          {.operands = {example(s.x), example(s.w), example({s.w[0]})}, .attrs = s.attrs});
    } else if (&op == &conv2d_data_grad_op) {
      s.attrs.height = s.x[1], s.attrs.width = s.x[2];
      out.push_back({.operands = {example(s.y), example(s.w)}, .attrs = s.attrs});
    } else {
      s.attrs.height = s.w[1], s.attrs.width = s.w[2];
      out.push_back({.operands = {example(s.x), example(s.y), example(s.w)}, .attrs = s.attrs});
    }
  }
  return out;
}

// The operator's examples in 16 bits, in rows that are moved 16 bytes at a time: more than a warp
// moves at once.
std::vector<Example> wide_rows(const OpDef& op) {
  std::vector<Example> out;
  for (Example wide : op.examples) {
    const TensorSpec& first = wide.operands[0].spec;
    const int64_t width = first.shape.back();
    if (first.dtype != DType::bf16 && first.dtype != DType::f16) continue;
    for (ExampleOperand& x : wide.operands) {
      if (!x.absent && x.spec.shape.back() == width) x.spec.shape[x.spec.shape.rank() - 1] = 296;
    }
    out.push_back(std::move(wide));
  }
  return out;
}

// Last extents that are multiples of `from` become such of `to`.
Example widened(Example of, int64_t from, int64_t to) {
  for (ExampleOperand& x : of.operands) {
    if (x.absent || x.spec.shape.rank() == 0) continue;
    int64_t& last = x.spec.shape[x.spec.shape.rank() - 1];
    if (x.spec.dtype != DType::i32 && last % from == 0) last = last / from * to;
  }
  return of;
}

// An example of a norm with these rows: of several chunks, or of more columns than a block has.
Example of_rows(Example of, const Shape& x, DType type) {
  for (ExampleOperand& operand : of.operands) {
    if (operand.spec.dtype == DType::i32)
      operand = example({x[1]}, DType::i32, 0, float(x[0]));
    else
      operand.spec = operand.spec.shape.rank() > 1 ? TensorSpec{x, type} : TensorSpec{{x.back()}};
  }
  return of;
}

// Operators whose f32 rows have two fours a thread, or fewer columns, and the width of their first
// example.
const std::map<std::string, int64_t> kRowsOfFours = {
    {"add_broadcast", 7},    {"add_positions", 6},        {"batch_norm", 5},
    {"batch_norm_apply", 5}, {"batch_norm_grad", 5},      {"batch_norm_infer", 5},
    {"batch_norm_relu", 5},  {"batch_norm_relu_grad", 5}, {"frame_norm", 5},
    {"frame_norm_apply", 5}, {"frame_norm_grad", 5},      {"frame_norm_infer", 5},
    {"gru_cell", 5},         {"gru_cell_grad", 5},        {"gru_cell_replay_grad", 5},
    {"lstm_cell", 5},        {"lstm_cell_grad", 5},       {"lstm_cell_replay_grad", 5},
    {"scale_channels", 5}};

}  // namespace

std::vector<Example> examples_of(const OpDef& op) {
  std::vector<Example> out = op.examples;
  const std::string name = op.name;
  const ExampleOperand scalars = example({16}, DType::i32, -1, 0);
  if (const auto rows = kRowsOfFours.find(name); rows != kRowsOfFours.end()) {
    out.push_back(widened(out[0], rows->second, 40));
  }
  if (name == "batch_norm" || name == "batch_norm_grad" || name == "batch_norm_relu" ||
      name == "batch_norm_relu_grad" || name == "frame_norm" || name == "frame_norm_grad") {
    out.push_back(of_rows(out[0], {35, 2, 264}, DType::bf16));
    out.push_back(of_rows(out[0], {35, 2, 264}, DType::f32));
    out.push_back(of_rows(out[0], {35, 11, 2, 24}, DType::bf16));
  }
  if (name == "embedding_grad") {
    for (const int64_t count : {4096, 4097, 16500}) {
      out.push_back(
          {.operands = {example({count, 3}), example({count}, DType::i32, 0, 60), absent_example()},
           .attrs = EmbeddingGradAttrs{61, 7}});
    }
  } else if (name == "masked_softmax") {
    out.push_back({.operands = {example({700, 3}), example({3}, DType::i32, 0, 700)}});
  } else if (name == "attention" || name == "attention_grad") {  // heads of 4 and 8 chunks
    for (const int64_t width : {200, 464}) {
      Example wide = out[4];
      for (ExampleOperand& x : wide.operands) {
        if (x.spec.shape.rank() == 3 && x.spec.shape[2] == 40) x.spec.shape[2] = width;
      }
      out.push_back(std::move(wide));
    }
    // Several tiles of keys, added up before they are rounded; on tensor cores, and not.
    for (const DType type : {DType::bf16, DType::f16}) {
      Example halves = out[4];
      for (ExampleOperand& x : halves.operands) {
        if (x.spec.shape.rank() == 3 && x.spec.shape[2] == 40) x.spec.dtype = type;
      }
      out.push_back(std::move(halves));
    }
  } else if (name == "lrn" || name == "lrn_grad") {  // the widest rows, fewer to a block
    const std::vector<ExampleOperand> rows(out[0].operands.size(), example({3, 2048}));
    out.push_back({.operands = rows, .attrs = LrnAttrs{5, 0.3f, 0.6f, 2}});
  } else if (name.starts_with("conv2d")) {
    for (Example& more : convolutions(op)) out.push_back(std::move(more));
  } else if (name == "masked_softmax_grad") {
    out.push_back({.operands = {example({321, 33}, DType::f32, 0, 1), example({321, 33})}});
  } else if (name == "cross_entropy") {  // more chunks than the last kernel has threads
    out.push_back({.operands = {example({2100, 3}), example({2100}, DType::i32, 0, 2), scalars},
                   .attrs = CrossEntropyAttrs{0.1f, 0}});
    for (const DType type : {DType::f32, DType::bf16}) {  // rows that a block has
      for (const int64_t width : {2048, 2301}) {
        out.push_back({.operands = {example({5, width}, type, -3, 3),
                                    example({5}, DType::i32, 0, float(width)), scalars},
                       .attrs = CrossEntropyAttrs{type == DType::f32 ? 0.1f : 0.0f, 3}});
      }
    }
  } else if (name == "ctc_loss") {
    Example many = out[0];
    many.operands[1].spec.shape = {1600, 2};
    many.operands[3] = example({2}, DType::i32, 0, 1600);
    out.push_back(std::move(many));
  } else if (name == "ctc_loss_grad") {  // more states than shared memory is asked for
    Example many = out[0];
    many.operands[4].spec = {{5, 2, 2 * 1030 + 1}};
    many.operands[5].spec.shape = {1030, 2};
    many.operands[7] = example({2}, DType::i32, 900, 1030);
    out.push_back(std::move(many));
  } else if (name == "cross_entropy_grad") {  // wide rows, on boundaries and off them
    for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
      for (const int64_t width : {1040, 1042, 1045}) {
        Example wide = out[1];
        wide.operands[1].spec = {{5, width}, type};
        wide.operands[3] = example({5}, DType::i32, 0, float(width - 1));
        out.push_back(std::move(wide));
      }
    }
  } else if (name ==
             "sum_of_squares") {  // more tensors than a launch takes, some of several chunks
    Example many;
    for (int64_t k = 0; k < 103; ++k)
      many.operands.push_back(example({k % 25 == 3 ? 17000 : 1 + k}));
    many.unread.assign(103, 0);
    many.unread[5] = many.unread[28] = 1;
    out.push_back(std::move(many));
  } else if (name == "clip_norm_gate") {
    Example many{.operands = {scalars, absent_example()}, .attrs = ClipNormAttrs{0.5f}};
    for (int k = 0; k < 600; ++k) {
      many.operands.push_back(k % 7 ? example({1}, DType::f32, 0, 4) : absent_example());
    }
    out.push_back(std::move(many));
  } else if (name.starts_with("layer_norm") || name.starts_with("softmax") ||
             name == "log_softmax" || name == "argmax_rows") {
    for (Example& wide : wide_rows(op)) out.push_back(std::move(wide));
  } else if (name == "sum_leading") {  // chunks of groups, of which a block adds up eight itself
    for (const int64_t rows : {64 * 256 + 3, 512 * 256, 513 * 256 + 1}) {
      out.push_back({.operands = {example({rows, 3}), example({3})}, .attrs = SumLeadingAttrs{}});
    }
  } else if (name == "moving_average") {  // of more than one launch
    Example many{.attrs = MovingAverageAttrs{0.1f}};
    for (int64_t k = 0; k < 70; ++k) {
      const Shape shape{k % 7 ? 3 + k : 3000};
      many.operands.insert(many.operands.end(),
                           {example(shape), example(shape), example({4}, DType::f32, 0.5f, 1)});
    }
    out.push_back(std::move(many));
  } else if (name == "adam") {
    Example many{.attrs = AdamAttrs{.weight_decay = 0.1f, .decoupled = true}};
    for (int64_t k = 0; k < 70; ++k) {
      const Shape shape{k % 5 == 0 ? 300 : 3, 1 + k};
      many.operands.insert(many.operands.end(), {example(shape), example(shape), example(shape),
                                                 example(shape, DType::f32, 0, 2), scalars,
                                                 example({4}, DType::f32, 0.5f, 1)});
    }
    out.push_back(std::move(many));
  }
  return out;
}

std::vector<Case> cases_of(const OpDef& op, const std::shared_ptr<Accelerator>& accelerator) {
  std::vector<Case> out;
  for (const bool cudnn : {true, false}) {
    if (!cudnn && !may_be_cudnns(op)) break;
    for (const Example& example : examples_of(op)) {
      out.push_back(make_case(op, example, out.size() + 1, accelerator));
      out.back().cudnn = cudnn;
    }
  }
  return out;
}

namespace {

// Half a unit in the last place of the type, relative to the larger number.
float tolerance_of(DType type) {
  return type == DType::bf16 ? 0x1p-8f : type == DType::f16 ? 0x1p-10f : 3e-6f;
}

}  // namespace

std::string difference(const TensorSpec& spec, const Bytes& want, const Bytes& got, bool bitwise,
                       float halves) {
  if (bitwise) return first_difference(spec, want, got);
  const std::vector<float> a = decode(spec, want), b = decode(spec, got);
  float scale = 0;
  for (float x : a) scale = std::max(scale, std::fabs(x));
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::fabs(a[i] - b[i]) <= halves * tolerance_of(spec.dtype) * scale) continue;
    return "element " + std::to_string(i) + ": " + std::to_string(a[i]) + " against " +
           std::to_string(b[i]);
  }
  return "";
}

}  // namespace pal::test
