// Residual networks: parameters against the published counts, every depth and variant, the same
// bits under every memory option, running statistics, inference.
#include "models/resnet.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/error.h"
#include "core/scalars.h"
#include "memory/run/program_set.h"
#include "ops/tensors/transfers.h"
#include "tests/support/state_bytes.h"
#include "train/loop/initialise.h"
#include "train/loop/step_program.h"

namespace pal {
namespace {

namespace in = image_input;
using Options = ResNetOptions;
using Family = Options::Family;
using Shortcut = Options::Shortcut;
using Version = Options::Version;

Program recorded(const Options& o, int64_t size, bool training = true) {
  Builder b;
  Val scalars = step_scalars(b.input(kScalarsInput, scalars_spec(), Space::host));
  image_loss(b, resnet_model(o), 2, size, size, scalars, training, {});
  return b.take();
}

int64_t weights_of(const Options& o) {
  const Program p = recorded(o, o.family == Family::cifar ? 32 : 64);
  int64_t count = 0;
  for (const StateSlot& slot : p.state) {
    if (slot.role == Role::weight) count += p.value(slot.start).spec.numel();
  }
  return count;
}

// torchvision's models, to the last parameter.
TEST(ResNet, HasAsManyParametersAsTorchvision) {
  const std::pair<int64_t, int64_t> published[] = {
      {18, 11'689'512}, {34, 21'797'672}, {50, 25'557'032}, {101, 44'549'160}, {152, 60'192'808}};
  for (const auto& [depth, count] : published)
    EXPECT_EQ(weights_of({.depth = depth}), count) << depth;
}

// He et al. 2016, table 6, in millions; the shortcuts are free of parameters there.
TEST(ResNet, HasAsManyParametersAsPublishedForCifar) {
  const std::pair<int64_t, double> published[] = {{20, 0.27}, {32, 0.46}, {44, 0.66},
                                                  {56, 0.85}, {110, 1.7}, {1202, 19.4}};
  for (const auto& [depth, millions] : published) {
    const Options o{
        .family = Family::cifar, .shortcut = Shortcut::identity, .depth = depth, .classes = 10};
    const double unit = depth < 110 ? 100 : 10;
    EXPECT_EQ(std::round(double(weights_of(o)) / 1e6 * unit) / unit, millions) << depth;
  }
  // The usual re-implementations count this many.
  EXPECT_EQ(
      weights_of(
          {.family = Family::cifar, .shortcut = Shortcut::identity, .depth = 20, .classes = 10}),
      269'722);
}

int64_t count(const Program& p, const char* op) {
  return std::count_if(p.nodes.begin(), p.nodes.end(),
                       [&](const Node& n) { return std::string(n.op->name) == op; });
}

// A depth is the number of convolutions and of the output layer; projections are not counted, but
// for those of 6n + 5.
TEST(ResNet, IsAsDeepAsItSays) {
  for (const Version version : {Version::v1_5, Version::v2}) {
    for (int64_t depth : {18, 34, 50, 101, 152, 200, 269}) {
      const Options o{.version = version, .depth = depth};
      const int64_t projections = depth < 50 ? 3 : 4;
      EXPECT_EQ(count(recorded(o, 64), "conv2d") + 1 - projections, depth);
    }
    for (int64_t depth : {8, 20, 110, 509, 851, 1202}) {
      const Options o{.version = version, .family = Family::cifar, .depth = depth, .classes = 10};
      const bool all = (depth - 2) % 6 == 3;
      EXPECT_EQ(count(recorded(o, 32), "conv2d") + 1 - (all ? 0 : 2), depth);
    }
  }
  const Options free{.family = Family::cifar, .shortcut = Shortcut::identity, .depth = 20};
  EXPECT_EQ(count(recorded(free, 32), "conv2d") + 1, 20);
  EXPECT_EQ(count(recorded(free, 32), "subsample"), 2);
}

TEST(ResNet, RefusesOtherDepths) {
  auto fault = [](const Options& o) {
    try {
      resnet_model(o);
    } catch (const UsageError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_NE(fault({.depth = 51}).find("model.depth: 51 is none of 18"), std::string::npos);
  EXPECT_NE(fault({.family = Family::cifar, .depth = 21}).find("6n + 2"), std::string::npos);
  EXPECT_NE(
      fault({.family = Family::cifar, .shortcut = Shortcut::identity, .depth = 509}).find("6n + 5"),
      std::string::npos);
}

struct Setting {
  Options model;
  ImageLossOptions loss = {};
  int64_t batch = 6, size = 12;
  int threads = 1;
  int shift = 0;  // of the labels
};

Setting small(Version version) {
  return {{.version = version,
           .family = Family::cifar,
           .depth = 14,
           .channels = 2,
           .classes = 5,
           .width = 8}};
}
Setting bottlenecks(Version version) {
  return {.model = {.version = version, .depth = 50, .channels = 2, .classes = 5, .width = 4},
          .batch = 3,
          .size = 32};
}

// Images of a class have its channel brighter on one side, so that there is something to learn.
void put_images(Executable& program, const Setting& s) {
  auto* x = reinterpret_cast<float*>(program.input(in::kImages));
  auto* labels = reinterpret_cast<int32_t*>(program.input(in::kLabels));
  for (int64_t i = 0; i < s.batch; ++i) {
    const int32_t label = int32_t(i % s.model.classes);
    labels[i] = int32_t((label + s.shift) % s.model.classes);
    for (int64_t p = 0; p < s.size * s.size * s.model.channels; ++p) {
      const bool bright = (p / s.model.channels % s.size) * s.model.classes / s.size == label;
      *x++ = std::sin(float(p * 7 + i * 13)) + (bright ? 1.5f : 0);
    }
  }
  if (!s.loss.mixup) return;
  auto* others = reinterpret_cast<int32_t*>(program.input(in::kOther));
  for (int64_t i = 0; i < s.batch; ++i) others[i] = int32_t((i + 1) % s.model.classes);
  *reinterpret_cast<float*>(program.input(in::kMix)) = 0.7f;
  *reinterpret_cast<float*>(program.input(in::kOtherMix)) = 0.3f;
}

struct Trained {
  std::string bytes;  // the losses, then all of the state
  std::vector<float> losses;
  int64_t recomputed = 0;
};

Trained train(const Setting& s, const CompileOptions& options, int steps) {
  const ImageModel model = resnet_model(s.model);
  TrainConfig config;
  config.optimizer = OptimizerSpec::Kind::momentum;
  config.weight_decay = 1e-3;
  config.decay_vectors = false;
  ProgramSet programs(options, cpu_device(s.threads));
  auto forward = [&](Builder& b, Val scalars) {
    ImageLoss loss = image_loss(b, model, s.batch, s.size, s.size, scalars, true, s.loss);
    return Recorded{loss.loss, {{"nll", loss.nll}}, loss.moved};
  };
  Executable& step = programs.add("step", record_step(forward, config, MicroBatch::only));
  initialise(programs, 5);
  Trained out;
  for (const Node& node : step.program().nodes) out.recomputed += node.phase == Phase::recompute;
  for (int i = 0; i < steps; ++i) {
    put_images(step, s);
    const StepScalars scalars{.learning_rate = 0.02f, .step = i, .tokens = float(s.batch)};
    std::memcpy(step.input(kScalarsInput), &scalars, sizeof scalars);
    step.run();
    out.losses.push_back(*step.output("loss"));
    out.bytes.append(reinterpret_cast<const char*>(&out.losses.back()), sizeof(float));
  }
  out.bytes += test::state_bytes(programs);
  return out;
}

class ResNetBits : public testing::TestWithParam<std::tuple<bool, bool>> {};

TEST_P(ResNetBits, TwentyStepsAreTheSameUnderEveryMemoryOption) {
  const auto [bottleneck, v2] = GetParam();
  const Version version = v2 ? Version::v2 : Version::v1_5;
  Setting s = bottleneck ? bottlenecks(version) : small(version);
  const Trained plain = train(s,
                              {.inplace = false,
                               .windows = false,
                               .fuse_epilogues = false,
                               .schedule = Schedule::program,
                               .fuse_updates = false},
                              20);
  EXPECT_LT(plain.losses.back(), plain.losses.front() - 0.5f);  // it learns
  EXPECT_EQ(plain.recomputed, 0);
  for (const Recompute method :
       {Recompute::none, Recompute::mirror, Recompute::sqrt, Recompute::echo}) {
    for (const bool inplace : {true, false}) {
      CompileOptions options{.inplace = inplace,
                             .recompute = method,
                             .schedule = inplace ? Schedule::lifetime : Schedule::program};
      options.recompute_options.overhead = 1;  // echo: as much as lowers the footprint
      options.recompute_options.heavy = 6;     // convolutions of so few channels
      const Trained other = train(s, options, 20);
      EXPECT_TRUE(other.bytes == plain.bytes) << to_string(method) << " inplace " << inplace;
      EXPECT_EQ(other.recomputed > 0, method != Recompute::none) << to_string(method);
    }
  }
  s.threads = 2;
  EXPECT_TRUE(train(s, {}, 20).bytes == plain.bytes) << "two threads";
  s.model.zero_init = true;
  EXPECT_FALSE(train(s, {}, 20).bytes == plain.bytes);
}

INSTANTIATE_TEST_SUITE_P(All, ResNetBits, testing::Combine(testing::Bool(), testing::Bool()),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param) ? "Bottleneck" : "Basic") +
                                  (std::get<1>(test.param) ? "V2" : "V15");
                         });

// ResNet-50 as it is trained, 32 images of 224 x 224: what echo leaves of it for more and more
// time.
TEST(ResNet, MoreTimeForEchoNeverCostsBytesAndABudgetThatCanBeMetIsMet) {
  const ImageModel model = resnet_model({.depth = 50, .classes = 1000});
  TrainConfig config;
  config.optimizer = OptimizerSpec::Kind::momentum;
  const Program step = record_step(
      [&](Builder& b, Val scalars) {
        ImageLoss loss = image_loss(b, model, 32, 224, 224, scalars, true, {});
        return Recorded{loss.loss, {{"nll", loss.nll}}, loss.moved};
      },
      config, MicroBatch::only);
  KernelCache cache(cpu_device(1));
  const StateLayout layout(step);
  for (const bool fused : {false, true}) {
    CompileOptions options{.fuse_epilogues = fused};
    const int64_t none = least_bytes(step, cache, layout, options);
    options.recompute = Recompute::echo;
    std::vector<int64_t> bytes;
    for (const double overhead : {0.0, 0.01, 0.03, 0.05, 0.09, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0}) {
      options.recompute_options.overhead = overhead;
      bytes.push_back(least_bytes(step, cache, layout, options));
      EXPECT_LE(bytes.back(), bytes[bytes.size() < 2 ? 0 : bytes.size() - 2]) << overhead;
    }
    // With norms and relus in one node heavy nodes are run again for fewer bytes than they are
    // worth (RecomputeOptions::heavier) a little earlier.
    EXPECT_LT(bytes.back(), (fused ? none : bytes.front()) / 2);
    options.recompute_options.overhead = 0.02;
    for (const int64_t budget : {bytes.back(), bytes.back() + bytes.back() / 8, bytes[4]}) {
      options.budget = budget;
      EXPECT_LE(least_bytes(step, cache, layout, options), budget);
    }
  }
}

// With zero_init every block begins as its shortcut, and learns all the same.
TEST(ResNet, ZeroInitLetsEveryWeightLearn) {
  for (const Version version : {Version::v1_5, Version::v2}) {
    Setting s = small(version);
    s.model.zero_init = true;
    EXPECT_LT(train(s, {}, 30).losses.back(), train(s, {}, 1).losses[0] - 0.5f);
  }
}

// 0.7 of the loss with the own labels, 0.3 of that with the others.
TEST(ResNet, MixupWeighsTwoLosses) {
  Setting s = small(Version::v1_5);
  for (const float smoothing : {0.0f, 0.1f}) {
    auto loss = [&](bool mixup, int shift) {
      s.loss = {smoothing, mixup};
      s.shift = shift;
      return train(s, {}, 1).losses[0];
    };
    const float own = loss(false, 0), other = loss(false, 1);
    EXPECT_NE(own, other);
    EXPECT_NEAR(loss(true, 0), 0.7f * own + 0.3f * other, 1e-5);
  }
}

// Running statistics after one step: PyTorch's momentum of 0.1, towards the unbiased variance; and
// inference reads them: with a momentum's share of one, it gives what training gave.
TEST(ResNet, InferenceReadsTheRunningStatistics) {
  const Setting s = small(Version::v1_5);
  const ImageModel model = resnet_model(s.model);
  ProgramSet programs({}, cpu_device(1));
  auto forward = [&](Builder& b, Val scalars) {
    ImageLoss loss = image_loss(b, model, s.batch, s.size, s.size, scalars, true, {});
    for (MovedStatistic& each : loss.moved) each.momentum = 1;
    return Recorded{loss.loss, {{"logits", loss.logits}}, loss.moved};
  };
  TrainConfig config;
  config.optimizer = OptimizerSpec::Kind::sgd;
  Executable& step = programs.add("step", record_step(forward, config, MicroBatch::only));
  Builder b;
  std::vector<MovedStatistic> none;
  b.output("logits",
           model.logits(b, b.input(in::kImages, {{s.batch, s.size, s.size, 2}}), {}, false, none));
  EXPECT_TRUE(none.empty());
  Executable& inference = programs.add("inference", b.take());
  initialise(programs, 3);
  put_images(step, s);
  const StepScalars scalars{.learning_rate = 0, .tokens = float(s.batch)};
  std::memcpy(step.input(kScalarsInput), &scalars, sizeof scalars);
  step.run();
  const float* logits = step.output("logits");
  const std::vector<float> trained(logits, logits + s.batch * s.model.classes);
  for (const StateTensor& slot : programs.state()) {
    if (slot.name != "bn1/running_mean") continue;
    EXPECT_EQ(slot.role, Role::statistic);
    EXPECT_NE(*reinterpret_cast<const float*>(slot.data), 0);
  }
  std::memcpy(inference.input(in::kImages), step.input(in::kImages),
              size_t(s.batch * s.size * s.size * 2) * sizeof(float));
  inference.run();
  // The variance is unbiased here and biased there: at least 6 * 9 values each.
  for (size_t i = 0; i < trained.size(); ++i) {
    EXPECT_NEAR(inference.output("logits")[i], trained[i], 0.03 * (1 + std::abs(trained[i])));
  }
}

// A step whose loss is not finite leaves the running statistics as they were, too.
TEST(ResNet, ADiscardedStepMovesNoStatistic) {
  const Setting s = small(Version::v1_5);
  const ImageModel model = resnet_model(s.model);
  for (const MicroBatch kind : {MicroBatch::only, MicroBatch::first, MicroBatch::last}) {
    ProgramSet programs({}, cpu_device(1));
    auto forward = [&](Builder& b, Val scalars) {
      ImageLoss loss = image_loss(b, model, s.batch, s.size, s.size, scalars, true, {});
      return Recorded{loss.loss, {}, loss.moved};
    };
    TrainConfig config;
    if (kind != MicroBatch::only) config.accumulate = 2;
    Executable& step = programs.add("step", record_step(forward, config, kind));
    initialise(programs, 3);
    auto statistics = [&] {
      std::string bytes;
      for (const StateTensor& slot : programs.state()) {
        if (slot.role != Role::statistic) continue;
        bytes.append(reinterpret_cast<const char*>(slot.data), size_t(slot.spec.bytes()));
      }
      return bytes;
    };
    const std::string before = statistics();
    put_images(step, s);
    const StepScalars scalars{.learning_rate = 0.1f, .tokens = float(s.batch)};
    std::memcpy(step.input(kScalarsInput), &scalars, sizeof scalars);
    auto* x = reinterpret_cast<float*>(step.input(in::kImages));
    const float good = x[0];
    x[0] = std::numeric_limits<float>::quiet_NaN();
    step.run();
    EXPECT_TRUE(statistics() == before) << to_string(kind);
    x[0] = good;
    step.run();
    EXPECT_FALSE(statistics() == before) << to_string(kind);
  }
}

}  // namespace
}  // namespace pal
