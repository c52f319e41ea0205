// The zoo of image networks: their weights against the published counts, the sizes of their logits,
// that they learn, and the same bits under every memory option.
#include "models/zoo.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <ostream>

#include "core/error.h"
#include "core/scalars.h"
#include "memory/run/program_set.h"
#include "ops/losses/cross_entropy.h"
#include "ops/tensors/transfers.h"
#include "tests/support/state_bytes.h"
#include "train/loop/initialise.h"
#include "train/loop/step_program.h"

namespace pal {
// In the names of tests, in place of its bytes.
void PrintTo(const ImageNetwork& network, std::ostream* out) { *out << network.name; }

namespace {

int64_t weights_in(const Program& program) {
  int64_t count = 0;
  for (const StateSlot& slot : program.state) {
    if (slot.role == Role::weight) count += program.value(slot.start).spec.numel();
  }
  return count;
}

// The network by itself, for one image.
Val record(Builder& b, const ImageNetwork& network, const ZooOptions& options, int64_t edge,
           std::vector<MovedStatistic>& moved) {
  Val scalars = step_scalars(b.input(kScalarsInput, scalars_spec(), Space::host));
  Val x = b.input("images", {network.input(1, edge)});
  return zoo_model(network, options).logits(b, x, scalars, true, moved);
}

class Zoo : public testing::TestWithParam<ImageNetwork> {
 protected:
  const ImageNetwork& network() const { return image_network(GetParam().name); }
};

TEST_P(Zoo, HasAsManyWeightsAsPublished) {
  Builder b;
  std::vector<MovedStatistic> moved;
  Val logits = record(b, network(), {.classes = network().classes}, network().edge, moved);
  EXPECT_EQ(logits.shape(), (Shape{1, network().classes}));
  EXPECT_EQ(weights_in(b.program()), network().weights);
}

// The smallest images that are left with a pixel at the end.
int64_t small_edge(const std::string& name) {
  if (name == "inception_v3") return 75;
  if (name == "overfeat") return 95;
  if (name.starts_with("alexnet") || name == "nin") return 64;
  return name == "resnet3d_18" ? 16 : 32;
}

constexpr int64_t kBatch = 4, kClasses = 5;

// `steps` updates: the losses, then all state, as one string of bytes.
std::string train(const ImageNetwork& network, const CompileOptions& options, int steps,
                  std::vector<float>* losses = nullptr, int threads = 1, bool norm = true) {
  const ImageModel model = zoo_model(network, {.classes = kClasses, .width = 0.125, .norm = norm});
  const Shape shape = network.input(kBatch, small_edge(network.name));
  TrainConfig config;
  config.optimizer = OptimizerSpec::Kind::momentum;
  ProgramSet programs(options, cpu_device(threads));
  auto forward = [&](Builder& b, Val scalars) {
    Recorded out;
    Val x = b.input("images", {shape}), labels = b.input("labels", {{kBatch}, DType::i32});
    Val logits = model.logits(b, x, scalars, true, out.moved);
    out.loss = cross_entropy(logits, labels, scalars, {.ignore = -1}).loss;
    return out;
  };
  Executable& step = programs.add("step", record_step(forward, config, MicroBatch::only));
  initialise(programs, 5);
  std::string out;
  for (int i = 0; i < steps; ++i) {
    float* pixels = reinterpret_cast<float*>(step.input("images"));
    for (int64_t p = 0; p < shape.numel(); ++p) {
      pixels[p] = float((p * 7919 + p / 97 * 104729) % 2003 - 1001) / 700;
    }
    const int32_t labels[kBatch] = {0, 3, 1, 4};
    std::memcpy(step.input("labels"), labels, sizeof labels);
    const StepScalars scalars{.learning_rate = 0.002f, .step = i, .seed_low = 9, .tokens = kBatch};
    std::memcpy(step.input(kScalarsInput), &scalars, sizeof scalars);
    step.run();
    const float loss = *step.output("loss");
    if (losses) losses->push_back(loss);
    out.append(reinterpret_cast<const char*>(&loss), sizeof loss);
  }
  out += test::state_bytes(programs);
  return out;
}

TEST_P(Zoo, BitsAreTheSameUnderEveryMemoryOption) {
  const int steps = 2;
  const std::string plain = train(network(),
                                  {.inplace = false,
                                   .windows = false,
                                   .fuse_epilogues = false,
                                   .schedule = Schedule::program,
                                   .fuse_updates = false},
                                  steps);
  for (const Recompute method :
       {Recompute::none, Recompute::mirror, Recompute::sqrt, Recompute::echo}) {
    EXPECT_TRUE(train(network(), {.recompute = method, .schedule = Schedule::lifetime}, steps) ==
                plain)
        << to_string(method);
  }
  EXPECT_TRUE(train(network(),
                    {.inplace = false, .recompute = Recompute::echo, .schedule = Schedule::program},
                    steps) == plain)
      << "echo, not in place";
  EXPECT_TRUE(train(network(), {}, steps, nullptr, 2) == plain) << "two threads";
}

TEST_P(Zoo, Learns) {
  std::vector<float> losses;
  train(network(), {}, 20, &losses);
  EXPECT_LT(losses.back(), losses.front() - 0.05f);
  for (const float loss : losses) EXPECT_TRUE(std::isfinite(loss));
}

INSTANTIATE_TEST_SUITE_P(All, Zoo,
                         testing::ValuesIn(image_networks().begin(), image_networks().end()),
                         [](const auto& test) { return std::string(test.param.name); });

// As published: 6,998,552 weights (Caffe's bvlc_googlenet without its heads) with 5x5 kernels where
// ours, like torchvision's, are 3x3: 16 pixels less for every pair of their channels.
TEST(GoogLeNetWithoutNorm, HasBiasesInPlaceOfBatchNorm) {
  Builder b;
  std::vector<MovedStatistic> moved;
  record(b, image_network("googlenet"), {.classes = 1000, .norm = false}, 224, moved);
  const int64_t pairs =
      16 * 32 + 32 * 96 + 16 * 48 + 2 * 24 * 64 + 32 * 64 + 2 * 32 * 128 + 48 * 128;
  EXPECT_EQ(weights_in(b.program()), 6'998'552 - 16 * pairs);
  EXPECT_TRUE(moved.empty());
  for (const StateSlot& slot : b.program().state) {
    EXPECT_EQ(slot.name.find("norm"), std::string::npos) << slot.name;
  }
}

TEST(GoogLeNetWithoutNorm, LearnsTheSameBitsUnderEveryMemoryOption) {
  const ImageNetwork& network = image_network("googlenet");
  std::vector<float> losses;
  const std::string plain = train(network,
                                  {.inplace = false,
                                   .windows = false,
                                   .fuse_epilogues = false,
                                   .schedule = Schedule::program,
                                   .fuse_updates = false},
                                  12, &losses, 1, false);
  EXPECT_LT(losses.back(), losses.front() - 0.05f);
  for (const float loss : losses) EXPECT_TRUE(std::isfinite(loss));
  for (const Recompute method :
       {Recompute::none, Recompute::mirror, Recompute::sqrt, Recompute::echo}) {
    EXPECT_TRUE(train(network, {.recompute = method}, 12, nullptr, 1, false) == plain)
        << to_string(method);
  }
  EXPECT_TRUE(train(network, {}, 12, nullptr, 2, false) == plain) << "two threads";
}

TEST(GoogLeNetWithoutNorm, IsAChoiceOfGoogLeNetAlone) {
  const auto fault = ZooOptions::rules().at(0).fault;
  EXPECT_EQ(fault({.network = "googlenet", .norm = false}), "");
  EXPECT_EQ(fault({.network = "vgg16"}), "");
  EXPECT_EQ(fault({.network = "inception_v3", .norm = false}),
            "model.norm: false is for googlenet, which was published without batch norm, not for "
            "inception_v3; leave it out");
}

TEST(ZooList, IsSortedAndKnowsItsNames) {
  std::string before;
  for (const ImageNetwork& n : image_networks()) {
    EXPECT_LT(before, n.name);
    before = n.name;
    EXPECT_EQ(&image_network(n.name), &n);
  }
  try {
    image_network("alexnett");
    FAIL();
  } catch (const UsageError& e) {
    EXPECT_NE(std::string(e.what()).find("model.network: there is no 'alexnett'"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace pal
