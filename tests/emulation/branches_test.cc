// Branches of a step on two streams of a GPU, emulated or (tests/gpu) real: the bits of one queue
// in every order of the streams, queued, recorded and replayed, and a wait that is dropped shows.
#include <gtest/gtest.h>

#include <cstring>

#include "core/order.h"
#include "core/scalars.h"
#include "memory/run/program_set.h"
#include "tests/emulation/fixture.h"
#include "tests/support/micro_batches.h"
#include "tests/support/state_bytes.h"
#include "tests/support/two_directions.h"
#include "train/config/profile.h"
#include "train/config/published_sizes.h"
#include "train/config/wording.h"
#include "train/loop/initialise.h"
#include "train/loop/run_options.h"
#include "train/loop/step_program.h"
#include "train/tasks/make_task.h"

namespace pal::test {
namespace {

using emulation::Order;
constexpr Order kOrders[] = {Order::forward, Order::backward, Order::shuffled};

class OnTwoQueues : public OnGpu {
 protected:
  void prepare() override {
    device_ = cuda_device();
    one_.profile = two_.profile = launching_card();
    two_.branch_device = launching_card();
    two_.queue_budget = 1 << 20;
  }
  Compiled made(const Program& p, const CompileOptions& options) {
    KernelCache cache(device_);
    return compile(p, cache, StateLayout(p), options);
  }
  Bytes after_steps(const Compiled& c, int steps = 2) {
    ToyRun run(device_);
    for (int step = 0; step < steps; ++step) run.run(c, step, 0);
    return run.bytes();
  }

  Device device_;
  CompileOptions one_, two_;
};

TEST_F(OnTwoQueues, BitsInEveryOrderOfTheStreams) {
  for (const bool inplace : {true, false}) {
    one_.inplace = two_.inplace = inplace;
    const Program p = two_directions();
    const Bytes expected = after_steps(made(p, one_));
    const Compiled c = made(p, two_);
    ASSERT_EQ(queue_count(c.program), 2);
    for (const Order order : kOrders) {
      emulation::settings().order = order;
      EXPECT_EQ(first_other(expected, after_steps(c)), "") << int(order);
    }
  }
}

TEST_F(OnTwoQueues, DroppedWaitsShow) {
  if (emulation::real()) GTEST_SKIP() << "a real device may be in time by luck";
  // A wait for scratch memory alone shows nothing here: the emulated library reads none of its own.
  emulation::settings().blas_workspace = 0;
  const Program p = two_directions(4, 2, 8);
  const Bytes expected = after_steps(made(p, one_));
  const Compiled c = made(p, two_);
  int dropped = 0, shown = 0;
  for (NodeId n : c.program.nodes.ids()) {
    if (c.program.node(n).waits.empty()) continue;
    Compiled lost = c;
    lost.program.node(n).waits.clear();
    bool shows = false;
    for (int round = 0; round < 40 && !shows; ++round) {
      emulation::settings().order = round == 0   ? Order::forward
                                    : round == 1 ? Order::backward
                                                 : Order::shuffled;
      shows = first_other(expected, after_steps(lost)) != "";
    }
    ++dropped, shown += shows;
  }
  // All but one before a stack, which lies in place and launches nothing, and one of which a later
  // wait is in time. That each is needed is what Branches. holds plans against.
  EXPECT_GT(dropped, 10);
  EXPECT_GE(shown, dropped - 2) << "of " << dropped;
  Compiled lost = c;
  for (Node& node : lost.program.nodes) node.waits.clear();
  emulation::settings().order = Order::backward;
  EXPECT_NE(first_other(expected, after_steps(lost)), "");
}

struct Trained {
  std::vector<float> losses;
  std::string weights;
  int queues = 0;
};

struct SmallStep {
  const char* config;
  std::pair<int64_t, int64_t> bucket;
  std::vector<std::string> sets;
};
const SmallStep kSmallSteps[] = {
    {"deepspeech2_small",
     {20, 3},
     {"train.batch_size=2", "model.hidden=8", "model.conv_channels=2"}},
    {"gnmt_wmt",
     {5, 5},
     {"train.batch_size=2", "model.hidden=16", "model.encoder_layers=3", "model.decoder_layers=2",
      "model.loss_chunks=1", "data.sentencepiece_size=30"}},
    {"nmt_small",
     {6, 5},
     {"train.batch_size=2", "model.hidden=16", "model.embedding=16", "model.attention_size=16",
      "data.source_vocab_size=30", "data.target_vocab_size=30"}},
};

class SmallSteps : public OnGpu, public testing::WithParamInterface<size_t> {
 protected:
  static Trained train(const SmallStep& small, bool branches) {
    std::vector<Override> overrides;
    for (const std::string& set : small.sets) overrides.push_back(parse_set(set));
    if (!branches) overrides.push_back(parse_set("device.branches=false"));
    Config config = load_config(find_config(small.config), overrides);
    use_published_sizes(config);
    const Device device = training_device(config);
    CompileOptions options = compile_options(config.memory);
    options.branch_device = branch_device(config.device, device);
    options.queue_budget = 1 << 30;  // small maps: what two directions have at once is more of it
    const auto task = make_task(config);
    ProgramSet programs(options, device);
    Executable& step = programs.add("step", record_plan_step(*task, config, small.bucket));
    initialise(programs, 5);
    Trained out{.queues = queue_count(step.program())};
    for (int i = 0; i < 10; ++i) {
      emulation::settings().order = kOrders[i % 3];
      const BatchInfo batch = task->fill_full(step, small.bucket);
      const StepScalars scalars{
          .learning_rate = 0.01f, .step = i, .seed_low = 9, .tokens = float(batch.normalizer)};
      std::memcpy(step.input(kScalarsInput), &scalars, sizeof scalars);
      step.run();
      out.losses.push_back(*step.output("loss"));
    }
    out.weights += state_bytes(programs);
    return out;
  }
};

TEST_P(SmallSteps, HaveTheBitsOfOneQueue) {
  const SmallStep& small = kSmallSteps[GetParam()];
  const Trained one = train(small, false), two = train(small, true);
  EXPECT_EQ(one.queues, 1);
  EXPECT_EQ(two.queues, 2);
  EXPECT_EQ(one.losses, two.losses);
  EXPECT_TRUE(one.weights == two.weights);
  EXPECT_NE(two.losses.front(), two.losses.back());
}

INSTANTIATE_TEST_SUITE_P(Branches, SmallSteps, testing::Range(size_t(0), std::size(kSmallSteps)),
                         [](const auto& param) {
                           return std::string(kSmallSteps[param.param].config);
                         });

}  // namespace
}  // namespace pal::test
