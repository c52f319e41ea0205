// Which update nodes the optimizers record: their operands, attributes, slots and scopes, read off
// printed programs; and what is refused.
#include "autograd/optimizer.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/print.h"
#include "core/scalars.h"
#include "core/verify.h"
#include "ops/kernels/gate.h"

namespace pal {
namespace {

using Kind = OptimizerSpec::Kind;

// A matrix and a bias of one layer, and an unreached weight between them.
struct Recorded {
  Builder builder;
  std::vector<Val> weights, gradients;
  Val scalars, gate;

  Recorded() {
    scalars = builder.input("scalars", scalars_spec());
    gate = builder.input("gate", gate_spec());
    Builder::Within scope(builder, "layer");
    weights = {builder.weight("w", {{2, 3}}, {}), builder.weight("unreached", {{2}}, {}),
               builder.weight("b", {{3}}, {})};
    gradients = {builder.input("dw", {{2, 3}}), {}, builder.input("db", {{3}})};
  }

  // The lines of the nodes, and those of the slots that the optimizer made.
  std::string nodes(OptimizerSpec spec, std::span<const Val> wholes = {}) {
    apply_optimizer(builder, spec, weights, gradients, scalars, gate, wholes);
    Program p = builder.take();
    verify(p);
    std::string out;
    for (const StateSlot& slot : p.state) {
      if (slot.role != Role::optimizer_state) continue;
      out += slot.name + " " + to_string(p.value(slot.start).spec) +
             (slot.end != slot.start ? " is written\n" : " is read\n");
    }
    for (NodeId n : p.nodes.ids()) out += print_node(p, n) + "\n";
    return out;
  }
};

constexpr OptimizerSpec kSpec{.lr = 0.5f,
                              .momentum = 0.25f,
                              .beta1 = 0.75,
                              .beta2 = 0.875,
                              .eps = 0.125f,
                              .weight_decay = 2,
                              .decay_vectors = true,
                              .clip_value = 3};

OptimizerSpec of_kind(Kind kind, bool decay_vectors = true) {
  OptimizerSpec spec = kSpec;
  spec.kind = kind;
  spec.decay_vectors = decay_vectors;
  return spec;
}

TEST(Optimizer, SgdHasNoSlots) {
  Recorded r;
  EXPECT_EQ(r.nodes(of_kind(Kind::sgd)),
            "update %7 = sgd(%2, %5, %0, %1) lr=0.5 weight_decay=2 clip_value=3 ranks=1 : "
            "f32[2,3]  # layer\n"
            "update %8 = sgd(%4, %6, %0, %1) lr=0.5 weight_decay=2 clip_value=3 ranks=1 : "
            "f32[3]  # layer\n");
}

TEST(Optimizer, VectorsAreDecayedOnlyWhereTheyAreToBe) {
  Recorded r;
  const std::string said = r.nodes(of_kind(Kind::sgd, false));
  EXPECT_NE(said.find("sgd(%2, %5, %0, %1) lr=0.5 weight_decay=2 "), std::string::npos) << said;
  EXPECT_NE(said.find("sgd(%4, %6, %0, %1) lr=0.5 weight_decay=0 "), std::string::npos) << said;
}

// Pieces are vectors, whatever the whole is.
TEST(Optimizer, APieceIsDecayedAsItsWholeIs) {
  Recorded r;
  const std::vector<Val> wholes = {r.weights[2], r.weights[1], r.weights[0]};
  const std::string said = r.nodes(of_kind(Kind::sgd, false), wholes);
  EXPECT_NE(said.find("sgd(%2, %5, %0, %1) lr=0.5 weight_decay=0 "), std::string::npos) << said;
  EXPECT_NE(said.find("sgd(%4, %6, %0, %1) lr=0.5 weight_decay=2 "), std::string::npos) << said;
}

TEST(Optimizer, MomentumHasOneSlotAWeight) {
  for (const Kind kind : {Kind::momentum, Kind::nesterov}) {
    Recorded r;
    const std::string said = r.nodes(of_kind(kind));
    EXPECT_EQ(said.find("optimizer/m/layer/w f32[2,3] is written\n"
                        "optimizer/m/layer/b f32[3] is written\n"
                        "update "),
              0u)
        << said;
    EXPECT_NE(said.find("= momentum(%2, %5, %7, %0, %1) lr=0.5 weight_decay=2 clip_value=3 "
                        "momentum=0.25 nesterov=" +
                        std::string(kind == Kind::nesterov ? "true" : "false") + " ranks=1"),
              std::string::npos)
        << said;
  }
}

TEST(Optimizer, AdamHasTwoSlotsAWeight) {
  for (const Kind kind : {Kind::adam, Kind::adamw}) {
    Recorded r;
    const std::string said = r.nodes(of_kind(kind));
    EXPECT_EQ(said.find("optimizer/m/layer/w f32[2,3] is written\n"
                        "optimizer/v/layer/w f32[2,3] is written\n"
                        "optimizer/m/layer/b f32[3] is written\n"
                        "optimizer/v/layer/b f32[3] is written\n"
                        "update "),
              0u)
        << said;
    EXPECT_NE(
        said.find("= adam(%2, %5, %7, %8, %0, %1) lr=0.5 beta1=0.75 beta2=0.875 eps=0.125 "
                  "weight_decay=2 decoupled=" +
                  std::string(kind == Kind::adamw ? "true" : "false") + " clip_value=3 ranks=1"),
        std::string::npos)
        << said;
  }
}

TEST(Optimizer, RefusesWhatItCannotUpdate) {
  const auto message_of = [](auto&& f) -> std::string {
    try {
      f();
    } catch (const ProgramError& error) {
      return error.what();
    }
    return "";
  };
  Recorded r;
  r.gradients.pop_back();
  EXPECT_EQ(message_of([&] { r.nodes(kSpec); }), "optimizer: 3 weights, but 2 gradients");
  Recorded old;
  old.weights[0] = old.gradients[0];
  EXPECT_EQ(message_of([&] { old.nodes(kSpec); }),
            "optimizer: value 5, f32[2,3], is not the newest value of a state slot");
}

}  // namespace
}  // namespace pal
