// Where codes stand: of branches that lie in one storage, after which reader, copies for which
// readers, and not where they would cost bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "autograd/differentiate.h"
#include "core/print.h"
#include "core/verify.h"
#include "memory/passes/encode.h"
#include "memory/storages/lifetimes.h"
#include "ops/convolution/conv2d.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/products/matmul.h"
#include "ops/sums/reduce.h"
#include "ops/tensors/columns.h"
#include "ops/tensors/views.h"
#include "tests/memory/bits.h"

namespace pal::test {
namespace {

constexpr int64_t kBranchRows = 32, kBranchWide = 128;
const Encodings kRounded{.dpr = Dpr::fp8};

// A step whose loss weighs what `f` makes of x (rows, kBranchWide) or an image, and of the weights
// that it asks for; the outputs d0, d1, .. are their gradients.
class Recorder {
 public:
  Val input(const std::string& name, const Shape& shape) { return b_.input(name, {shape}); }
  Val weight(const Shape& shape) {
    weights_.push_back(b_.state("w" + std::to_string(weights_.size()), {shape}, Role::weight));
    return weights_.back();
  }
  Val product(Val x) { return matmul(x, weight({x.shape().back(), kBranchWide})); }
  Program finish(Val y) {
    const Val loss = sum_all(mul(y, input("c", y.shape())));
    b_.output("loss", loss);
    const std::vector<Val> d = differentiate(b_, loss, weights_);
    for (size_t i = 0; i < d.size(); ++i) b_.output("d" + std::to_string(i), d[i]);
    return b_.take();
  }

 private:
  Builder b_;
  std::vector<Val> weights_;
};

Program encoded(const Program& p, const Encodings& encodings) {
  Program out = encode(p, choose_forms(p, encodings));
  verify(out);
  return out;
}

// The op names of those who read what the node of that name makes, in order.
std::string readers_of(const Program& p, const std::string& op) {
  const Readers readers(p);
  std::string out;
  for (const Node& node : p.nodes) {
    if (op != node.op->name) continue;
    for (const NodeId r : readers[node.out[0]]) out += std::string(p.node(r).op->name) + " ";
  }
  return out;
}

// Elements so small that FP8 makes zeros of them: who asks the decoded copy closes every ReLU.
Val small_branch(Recorder& r, Val x) { return relu(scale(r.product(x), 1e-6f)); }

// The gradients of the branches' weights, d0 and d1, are exact, and the joined product's is not.
void expect_exact_branches(const Program& p, const Program& out) {
  const Bits exact = bits_of(p), rounded = bits_of(out);
  EXPECT_EQ(exact.at("loss"), rounded.at("loss"));
  EXPECT_EQ(exact.at("d0"), rounded.at("d0"));
  EXPECT_EQ(exact.at("d1"), rounded.at("d1"));
  EXPECT_NE(exact.at("d2"), rounded.at("d2"));
  for (const char* name : {"d0", "d1"}) {
    const auto& d = exact.at(name);
    EXPECT_TRUE(std::any_of(d.begin(), d.end(), [](std::byte b) { return b != std::byte{0}; }));
  }
}

// The branches are written straight into the storage that is rounded: their gradients have bits,
// asked for or not.
TEST(EncodeBranches, OfARoundedStorageAnswerByBits) {
  Recorder r;
  const Val x = r.input("x", {kBranchRows, kBranchWide});
  const Val joined = stack({small_branch(r, x), small_branch(r, x)});
  const Program p = r.finish(r.product(reshape(joined, {2 * kBranchRows, kBranchWide})));
  const Forms forms = choose_forms(p, kRounded);
  int bits = 0, codes = 0;
  for (const ValueId v : forms.ids()) bits += bool(forms[v].bits), codes += bool(forms[v].dpr);
  EXPECT_EQ(bits, 2);
  EXPECT_EQ(codes, 1);
  const Program out = encoded(p, kRounded);
  EXPECT_EQ(count_of(out, "dpr_encode"), 1) << print(out);
  EXPECT_EQ(readers_of(out, "to_bits"), "pass_inside pass_inside ") << print(out);
  expect_exact_branches(p, out);
}

// Concatenated columns are a copy, so that each branch has a storage of its own: whole without
// binarize, bits with it.
TEST(EncodeBranches, OfConcatenatedProductsKeepTheirOwnForm) {
  Recorder r;
  const Val x = r.input("x", {kBranchRows, kBranchWide});
  const Val joined = concatenate({small_branch(r, x), small_branch(r, x)});
  const Program p = r.finish(r.product(joined));
  Encodings encodings = kRounded;
  for (const bool binarize : {false, true}) {
    encodings.binarize = binarize;
    const Program out = encoded(p, encodings);
    EXPECT_EQ(count_of(out, "dpr_encode"), 1) << print(out);
    EXPECT_EQ(readers_of(out, "to_bits"), binarize ? "pass_inside pass_inside " : "");
    expect_exact_branches(p, out);
  }
}

// As in Inception: 1x1 and 3x3 convolutions side by side, joined along the channels, then another.
TEST(EncodeBranches, OfConcatenatedConvolutionsKeepTheirOwnForm) {
  Recorder r;
  const Val x = r.input("x", {2, 8, 8, 16});
  auto branch = [&](int64_t kernel) {
    const Val w = r.weight({16, kernel, kernel, 16});
    return relu(scale(conv2d(x, w, conv2d_attrs(1, kernel / 2)), 1e-6f));
  };
  const Val joined = concatenate({branch(1), branch(3)});
  const Program p = r.finish(conv2d(joined, r.weight({16, 3, 3, 32}), conv2d_attrs(1, 1)));
  Encodings encodings = kRounded;
  for (const bool binarize : {false, true}) {
    encodings.binarize = binarize;
    const Program out = encoded(p, encodings);
    EXPECT_EQ(count_of(out, "dpr_encode"), 1) << print(out);
    EXPECT_EQ(readers_of(out, "dpr_decode"), "conv2d_weight_grad ") << print(out);
    EXPECT_EQ(readers_of(out, "to_bits"), binarize ? "pass_inside pass_inside " : "");
    expect_exact_branches(p, out);
  }
}

// A clone that reads rounded values would answer other predicates than the node that it repeats.
TEST(EncodeClones, WhatACloneReadsStaysExact) {
  for (const Phase phase : {Phase::backward, Phase::recompute}) {
    Builder b;
    const Val c = b.input("c", {{kBranchRows, kBranchWide}});
    const Val h = tanh(b.input("x", {{kBranchRows, kBranchWide}}));
    b.output("loss", sum_all(relu(h)));
    Val again;
    {
      Builder::Within within(b, phase);
      again = relu(h);
    }
    Builder::Within within(b, Phase::backward);
    b.output("d0", add(mul(h, c), mul(again, c)));
    const Program p = b.take();
    const Program out = encoded(p, kRounded);
    EXPECT_EQ(count_of(out, "dpr_encode"), phase == Phase::backward) << print(out);
    EXPECT_EQ(bits_of(p) == bits_of(out), phase == Phase::recompute);
  }
}

// The codes of tanh are written behind its last reader of the forward phase; before it, where that
// reader may write over the values.
TEST(EncodePlaces, CodesAreWrittenAroundTheLastForwardReader) {
  auto step = [](const std::function<Val(Recorder&, Val)>& last) {
    Recorder r;
    const Val y = tanh(r.product(r.input("x", {kBranchRows, kBranchWide})));
    const Val first = r.product(y);
    return encoded(r.finish(add(first, last(r, y))), kRounded);
  };
  const std::string product = ops_in(step([](Recorder& r, Val y) { return r.product(y); }));
  EXPECT_EQ(product.find("matmul tanh matmul matmul +dpr_encode "), 0u) << product;
  const std::string over = ops_in(step([](Recorder&, Val y) { return scale(y, 2); }));
  EXPECT_EQ(over.find("matmul tanh matmul +dpr_encode scale "), 0u) << over;
}

// tanh's gradient is `between` nodes behind the gradient of the product that reads the values too.
TEST(EncodePlaces, ReadersFarFromEachOtherHaveCopiesOfTheirOwn) {
  for (const int between : {3, 40}) {
    Recorder r;
    const Val y = tanh(r.product(r.input("x", {kBranchRows, kBranchWide})));
    Val chain = y;
    for (int i = 0; i < between; ++i) chain = scale(chain, 1);
    const Program out = encoded(r.finish(mul(y, chain)), {.dpr = Dpr::fp16});
    int copies = 0;
    for (const Node& node : out.nodes) {
      copies += std::string(node.op->name) == "dpr_decode" &&
                out.value(out.node(out.value(node.in[0]).producer).in[0]).producer == 1;
    }
    EXPECT_EQ(copies, between < 16 ? 1 : 2) << print(out);
  }
}

// A convolution's operand is decoded for the weight's gradient before there is a gradient of the
// operand: the two would be alive together.
TEST(EncodePlaces, AConvolutionsOperandIsDecodedBeforeItsGradientIsMade) {
  Recorder r;
  Val y = r.input("x", {2, 8, 8, 16});
  for (int i = 0; i < 3; ++i) y = relu(conv2d(y, r.weight({16, 3, 3, 16}), conv2d_attrs(1, 1)));
  const Program out = encoded(r.finish(y), kRounded);
  std::vector<ValueId> passed_on;  // the dy of which dx is made
  int decoded = 0;
  for (const Node& node : out.nodes) {
    const std::string name = node.op->name;
    if (name == "conv2d_data_grad") passed_on.push_back(node.in[0]);
    if (name != "conv2d_weight_grad") continue;
    const NodeId maker = out.value(node.in[0]).producer;
    if (maker == kNone || out.node(maker).phase != Phase::decode) continue;
    EXPECT_EQ(std::count(passed_on.begin(), passed_on.end(), node.in[1]), 0) << print(out);
    ++decoded;
  }
  EXPECT_EQ(decoded, 2) << print(out);
  EXPECT_EQ(passed_on.size(), 2u);
}

// On the processor a weight's gradient reads codes as they are; all else is decoded.
TEST(EncodePlaces, KernelsThatReadCodesTakeThem) {
  Recorder r;
  Val y = r.input("x", {2, 8, 8, 16});
  for (int i = 0; i < 3; ++i) y = tanh(conv2d(y, r.weight({16, 3, 3, 16}), conv2d_attrs(1, 1)));
  const Program p = r.finish(y);
  for (const bool direct : {false, true}) {
    Encodings rounded = kRounded;
    rounded.direct = direct;
    const Program out = encode(p, choose_forms(p, rounded));
    int codes = 0;
    for (const Node& node : out.nodes) {
      if (node.op != &conv2d_weight_grad_op) continue;
      codes += dpr_format(out.value(node.in[0]).spec).has_value();
    }
    EXPECT_EQ(codes, direct ? 2 : 0) << print(out);
    EXPECT_GE(count_of(out, "dpr_decode"), 2) << "for tanh";
    verify(out);
  }
}

Encodings sparse(double density) {
  return {.ssdc = true, .ssdc_form = SsdcForm::csr, .ssdc_margin = 1, .assumed_density = density};
}
// All that may be sparse is, with room for all elements.
Forms with_room(Program p) {
  Encodings all = sparse(0.5);
  for (ValueId v : p.values.ids()) all.density[p.value(v).origin = v] = 0.5;
  Forms forms = add_sparse(p, all, Forms(p.values.size()));
  for (ValueId v : forms.ids()) {
    if (forms[v].sparse) forms[v].sparse->capacity = p.value(v).spec.numel();
  }
  return forms;
}

// A product and the gradient of relu read a value, another product its view: one encoding does for
// both, and the view is made again of the copy.
TEST(EncodeViews, AValueAndItsViewAreEncodedOnce) {
  Recorder r;
  Val y = relu(r.product(r.input("x", {kBranchRows, kBranchWide})));
  Val z = reshape(y, {kBranchRows / 2, 2 * kBranchWide});
  Val joined = add(r.product(y), reshape(matmul(z, r.weight({2 * kBranchWide, 2 * kBranchWide})),
                                         {kBranchRows, kBranchWide}));
  const Program p = r.finish(joined);
  for (const bool rounded : {false, true}) {
    const Forms forms = rounded ? choose_forms(p, kRounded) : with_room(p);
    const Program out = encode(p, forms);
    verify(out);
    const std::string name = rounded ? "dpr_" : "ssdc_";
    EXPECT_EQ(count_encoded(forms), 2u);
    EXPECT_EQ(count_of(out, name + "encode"), 1) << print(out);
    EXPECT_EQ(count_of(out, name + "decode"), 1) << print(out);
    int views = 0;
    for (const Node& node : out.nodes) {
      if (node.phase != Phase::decode || name + "decode" == node.op->name) continue;
      ++views;
      EXPECT_EQ(out.node(out.value(node.in[0]).producer).op->name, name + "decode");
    }
    EXPECT_EQ(views, 1) << print(out);
    // One weight has a gradient of the view, another of the value, both rounded alike.
    if (!rounded) {
      Bits got = bits_of(out);
      for (const auto& [output, bytes] : bits_of(p)) EXPECT_EQ(got.at(output), bytes) << output;
    }
  }
  // Room for 0.7 of both would be more than the map itself: csr takes 5 bytes an element.
  EXPECT_EQ(count_encoded(add_sparse(p, sparse(0.7), Forms(p.values.size()))), 2u);
  EXPECT_NE(describe(p, choose_forms(p, kRounded)).find("1 rounded"), std::string::npos);
}

// Products, ReLUs, views and factors in any order; the gradients are the same bits.
TEST(EncodeViewsProperty, KeepBits) {
  int views = 0, encoders = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    std::mt19937 random{uint32_t(seed)};
    Recorder r;
    std::vector<Val> made{relu(r.input("x", {kBranchRows, kBranchWide}))};
    for (int i = 0; i < 3 + int(random() % 9); ++i) {
      Val y = made[made.size() - 1 - random() % std::min<size_t>(made.size(), 2)];
      switch (random() % 5) {
        case 0: made.push_back(matmul(y, r.weight({y.shape().back(), y.shape().back()}))); break;
        case 1: made.push_back(relu(y)); break;
        case 2: made.push_back(mul(y, r.weight(y.shape()))); break;
        default: {
          const int64_t rows = kBranchRows >> (random() % 4);
          made.push_back(reshape(y, {rows, kBranchRows * kBranchWide / rows}));
        }
      }
    }
    Val sum = reshape(made.back(), {kBranchRows, kBranchWide});
    for (Val y : made) {
      if (random() % 2) y = mul(y, r.weight(y.shape()));  // whose gradient reads it
      sum = add(sum, reshape(y, {kBranchRows, kBranchWide}));
    }
    const Program p = r.finish(sum);
    const Forms forms = with_room(p);
    const Program out = encode(p, forms);
    verify(out);
    encoders += count_of(out, "ssdc_encode");
    for (const Node& node : out.nodes) {
      views += node.phase == Phase::decode && std::string(node.op->name) == "reshape";
    }
    Bits got = bits_of(out);
    for (const auto& [output, bytes] : bits_of(p)) {
      ASSERT_EQ(got.at(output), bytes) << seed << " " << output << "\n" << print(out);
    }
    const Forms few = lowered(p, forms, Forms(p.values.size()));
    verify(encode(p, few));
    EXPECT_LE(peak_bytes(encode(p, few)), peak_bytes(out)) << seed;
  }
  EXPECT_GT(views, 100);
  EXPECT_GT(encoders, 100);
}

// The last tanh is read where most is alive: its copy would lie there beside its codes.
TEST(EncodePeak, WhatWouldBeDecodedAtThePeakStaysWhole) {
  for (const int layers : {1, 3}) {
    Recorder r;
    Val y = r.weight({kBranchRows, kBranchWide});
    for (int i = 0; i < layers; ++i) {
      y = tanh(mul(y, r.input("x" + std::to_string(i), {kBranchRows, kBranchWide})));
    }
    const Program p = r.finish(y);
    const Program every = encoded(p, kRounded);
    const Program out = encode(p, lowered_forms(p, kRounded));
    verify(out);
    EXPECT_EQ(count_of(every, "dpr_encode"), layers);
    EXPECT_EQ(count_of(out, "dpr_encode"), layers - 1) << print(out);
    EXPECT_LT(peak_bytes(out), peak_bytes(every));
    if (layers == 1) {
      EXPECT_EQ(peak_bytes(out), peak_bytes(p));
    } else {
      EXPECT_LT(peak_bytes(out), peak_bytes(p));
    }
    std::string makers;
    for (const Node& node : out.nodes) {
      if (std::string(node.op->name) != "tanh_grad") continue;
      makers += out.node(out.value(node.in[1]).producer).op->name + std::string(" ");
    }
    EXPECT_EQ(makers, layers == 1 ? "tanh " : "tanh dpr_decode dpr_decode ");
  }
}

}  // namespace
}  // namespace pal::test
