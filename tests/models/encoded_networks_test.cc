// Exact encodings over whole networks: the losses and all state after some steps are the same bits
// as without, whatever else the plan does. PAL_TEST_ENCODED_STEPS=N: N steps under every
// combination of options, in place of three under a few.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <numeric>
#include <random>

#include "models/resnet.h"
#include "models/zoo.h"
#include "ops/losses/cross_entropy.h"
#include "tests/train/loop/sparse_training.h"

namespace pal::test {
namespace {

constexpr int64_t kImages = 4, kClasses = 5;

struct Network {
  std::string name;
  ImageModel model;
  Shape input;
};

// The smallest images that are left with a pixel at the end.
int64_t smallest_edge(const std::string& name) {
  if (name == "inception_v3") return 75;
  if (name == "overfeat") return 95;
  if (name.starts_with("alexnet") || name == "nin") return 64;
  return name == "resnet3d_18" ? 16 : 32;
}

std::vector<Network> networks() {
  std::vector<Network> all;
  for (const ImageNetwork& network : image_networks()) {
    all.push_back({network.name, zoo_model(network, {.classes = kClasses, .width = 0.125}),
                   network.input(kImages, smallest_edge(network.name))});
  }
  for (const auto version : {ResNetOptions::Version::v1_5, ResNetOptions::Version::v2}) {
    const std::string v = version == ResNetOptions::Version::v2 ? "_v2" : "";
    all.push_back({"resnet14" + v,
                   resnet_model({.version = version,
                                 .family = ResNetOptions::Family::cifar,
                                 .depth = 14,
                                 .channels = 3,
                                 .classes = kClasses,
                                 .width = 8}),
                   Shape{kImages, 16, 16, 3}});
    all.push_back(
        {"resnet50" + v,
         resnet_model(
             {.version = version, .depth = 50, .channels = 3, .classes = kClasses, .width = 4}),
         Shape{kImages, 32, 32, 3}});
  }
  return all;
}

TrainingSetup setup_of(const Network& network, bool bf16, int threads) {
  TrainingSetup setup;
  setup.forward = [network](Builder& b, Val scalars) {
    Recorded out;
    Val x = b.input("images", {network.input}), labels = b.input("labels", {{kImages}, DType::i32});
    Val logits = network.model.logits(b, x, scalars, true, out.moved);
    out.loss = cross_entropy(logits, labels, scalars, {.ignore = -1}).loss;
    return out;
  };
  setup.put = [network](Executable& program, int64_t step, int micro_batch) {
    const auto x = made_up(std::to_string(step), {network.input});
    std::memcpy(program.input("images"), x.data(), x.size() * sizeof(float));
    const int32_t labels[kImages] = {0, 3, 1, 4};
    std::memcpy(program.input("labels"), labels, sizeof labels);
    StepScalars scalars{
        .learning_rate = 0.005f, .step = int32_t(step), .seed_low = 9, .tokens = kImages};
    scalars.micro_batch = micro_batch;
    std::memcpy(program.input(kScalarsInput), &scalars, sizeof scalars);
  };
  setup.config.optimizer = OptimizerSpec::Kind::momentum;
  if (bf16) setup.config.precision = "bf16";
  setup.memory.ssdc_observe = 1;
  setup.device = cpu_device(threads);
  return setup;
}

std::string bits_of(TrainingSetup setup, int64_t steps, int64_t* sparse_runs = nullptr) {
  Training training(std::move(setup));
  std::string bits;
  for (int64_t step = 0; step < steps; ++step) {
    for (const float loss : training.step(step)) {
      bits.append(reinterpret_cast<const char*>(&loss), sizeof loss);
    }
  }
  if (sparse_runs) *sparse_runs += training.sparse_runs;
  return bits + training.state();
}

int64_t asked(const char* variable, int64_t otherwise) {
  const char* text = std::getenv(variable);
  return text ? std::max<int64_t>(1, std::atoll(text)) : otherwise;
}

class EncodedNetworks : public testing::TestWithParam<Network> {};

TEST_P(EncodedNetworks, LeaveTheSameBits) {
  const int64_t steps = asked("PAL_TEST_ENCODED_STEPS", 3);
  const int64_t wanted = asked("PAL_TEST_ENCODED_COMBINATIONS", 2);
  std::mt19937 random(uint32_t(std::hash<std::string>()(GetParam().name)));
  std::vector<int> combinations(4 * 2 * 2 * 2 * 2 * 2 * 3);
  std::iota(combinations.begin(), combinations.end(), 0);
  std::shuffle(combinations.begin(), combinations.end(), random);
  combinations.resize(std::min(combinations.size(), size_t(wanted)));
  int64_t sparse_runs = 0;
  std::map<bool, std::string> plain;
  for (const int i : combinations) {
    const Recompute method = Recompute(i % 4);
    const bool inplace = i / 4 % 2, program_order = i / 8 % 2, bf16 = i / 16 % 2;
    const bool binarize = i / 32 % 2, csr = i / 64 % 2;
    const int threads = 1 + i / 128 % 3;
    std::string& expected = plain[bf16];
    if (expected.empty()) {
      TrainingSetup setup = setup_of(GetParam(), bf16, 1);
      setup.options.inplace = setup.options.windows = setup.options.fuse_epilogues = false;
      setup.options.schedule = Schedule::program;
      expected = bits_of(std::move(setup), steps);
    }
    TrainingSetup setup = setup_of(GetParam(), bf16, threads);
    setup.options.recompute = method, setup.options.inplace = inplace;
    if (program_order) setup.options.schedule = Schedule::program;
    setup.options.encode = {.binarize = binarize,
                            .dropout_bits = binarize,
                            .ssdc = true,
                            .ssdc_form = csr ? SsdcForm::csr : SsdcForm::mask};
    ASSERT_TRUE(bits_of(std::move(setup), steps, &sparse_runs) == expected)
        << to_string(method) << (inplace ? " in place" : "")
        << (program_order ? " program order" : "") << (bf16 ? " bf16" : "")
        << (binarize ? " bits" : "") << (csr ? " csr " : " mask ") << threads << " threads";
  }
  RecordProperty("sparse_runs", std::to_string(sparse_runs));
}

INSTANTIATE_TEST_SUITE_P(All, EncodedNetworks, testing::ValuesIn(networks()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace pal::test
