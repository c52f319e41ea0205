// train.batch_norm: sync. Steps of ranks, each with its part of a batch, beside one rank's step of
// the whole batch: as near as the whole batch in another order is to itself. On every rank the same
// bits, and with every option that leaves results alone.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>

#include "core/philox.h"
#include "core/scalars.h"
#include "models/deepspeech2.h"
#include "tests/train/loop/rank_runs.h"
#include "train/images/image_models.h"
#include "train/loop/initialise.h"
#include "train/loop/run_options.h"
#include "train/loop/step_program.h"

namespace pal::test {
namespace {

// A model, and the examples of its steps by their numbers.
struct SyncedModel {
  std::string config;
  int64_t examples;
  int steps;
  std::function<Recorded(const Config&, Builder&, Val scalars, int64_t batch)> record;
  std::function<void(Executable&, int step, int64_t place, int64_t number)> fill;
};

float noise(int step, int64_t number, int64_t i) {
  return 2 * uniform01(draw({uint64_t(step), uint32_t(number), 0, 0}, uint64_t(i)).x[0]) - 1;
}

// resnet_small, whole.
SyncedModel small_resnet() {
  constexpr int64_t kSize = 28;
  return {"resnet_small", 16, 3,
          [](const Config& config, Builder& b, Val scalars, int64_t batch) {
            ImageLoss loss = image_loss(b, image_model(config, 10), batch, kSize, kSize, scalars,
                                        true, {.label_smoothing = 0.1f});
            return Recorded{loss.loss, {}, loss.moved};
          },
          [](Executable& program, int step, int64_t place, int64_t number) {
            constexpr int64_t kPixels = kSize * kSize;
            auto* x = reinterpret_cast<float*>(program.input(image_input::kImages));
            for (int64_t i = 0; i < kPixels; ++i) {
              x[place * kPixels + i] = noise(step, number, i) + 0.1f * float(number);
            }
            reinterpret_cast<int32_t*>(program.input(image_input::kLabels))[place] =
                int32_t(number % 10);
          }};
}

// deepspeech2_small's network on short sequences of many lengths, so that ranks have other numbers
// of frames.
SyncedModel small_speech() {
  constexpr int64_t kFrames = 40, kLabels = 4, kBins = 41;
  const auto options = [](const Config& config) {
    DeepSpeech2Options o = *config.options<DeepSpeech2Options>();
    o.bins = kBins, o.labels = 11, o.dropout = 0;
    return o;
  };
  return {"deepspeech2_small", 8, 3,
          [options](const Config& config, Builder& b, Val scalars, int64_t batch) {
            SpeechLoss loss =
                deepspeech2_loss(b, options(config), {kFrames, kLabels, batch}, scalars, true);
            return Recorded{loss.loss, {}, loss.moved};
          },
          [](Executable& program, int step, int64_t place, int64_t number) {
            auto* x = reinterpret_cast<float*>(program.input(speech_input::kFeatures));
            for (int64_t i = 0; i < kFrames * kBins; ++i) {
              x[place * kFrames * kBins + i] = noise(step, number, i) + 0.1f * float(number);
            }
            const auto put = [&](const char* name, int64_t at, int64_t value) {
              reinterpret_cast<int32_t*>(program.input(name))[at] = int32_t(value);
            };
            put(speech_input::kSteps, place, 12 + number);
            put(speech_input::kLabelLengths, place, 1 + number % kLabels);
            const int64_t batch = program.input_spec(speech_input::kSteps).numel();
            for (int64_t l = 0; l < kLabels; ++l) {
              put(speech_input::kLabels, l * batch + place, 1 + (number + l) % 10);
            }
          }};
}

using State = std::map<std::string, std::vector<float>>;
struct SyncedSteps {
  State before, after;  // weights and running statistics
  std::vector<float> losses;
};

// Steps of so many ranks, rank by rank; rank q has the q-th part of the examples, which begin with
// number `turned`.
std::vector<SyncedSteps> steps_of(const SyncedModel& model, int ranks, const Sets& sets,
                                  int64_t turned = 0) {
  std::vector<SyncedSteps> out(static_cast<size_t>(ranks));
  as_ranks(ranks, [&](std::shared_ptr<Group> group) {
    const int64_t rank = group ? group->rank() : 0, batch = model.examples / ranks;
    std::vector<Override> overrides{parse_set("device.threads=1")};
    for (const std::string& set : sets) overrides.push_back(parse_set(set));
    const Config config = with_ranks(load_config(find_config(model.config), overrides), ranks);
    Device device = choose_device(config.device);
    device.group = group;
    ProgramSet programs(compile_options(config.memory), device);
    const auto forward = [&](Builder& b, Val scalars) {
      return model.record(config, b, scalars, batch);
    };
    const MicroBatch kind = Update(config.train, ranks).last();
    Executable& program = programs.add("step", record_step(forward, config.train, kind, ranks));
    initialise(programs, 1);
    SyncedSteps& own = out[size_t(rank)];
    const auto keep = [&](State& to) {
      for (const StateTensor& slot : programs.state()) {
        if (slot.role != Role::weight && slot.role != Role::statistic) continue;
        const auto* data = reinterpret_cast<const float*>(slot.data);
        to[slot.name].assign(data, data + slot.spec.numel());
      }
    };
    keep(own.before);
    for (int step = 0; step < model.steps; ++step) {
      for (int64_t i = 0; i < batch; ++i) {
        model.fill(program, step, i, (rank * batch + i + turned) % model.examples);
      }
      const StepScalars scalars{
          .learning_rate = 0.02f, .step = step, .tokens = float(model.examples)};
      std::memcpy(program.input(kScalarsInput), &scalars, sizeof scalars);
      program.run();
      own.losses.push_back(*program.output("loss"));
    }
    keep(own.after);
  });
  return out;
}

// How far two runs' weights (running statistics) are from each other, by how far they have gone.
double distance(const SyncedSteps& a, const SyncedSteps& b, bool statistics) {
  double off = 0, way = 0;
  for (const auto& [name, values] : a.after) {
    if ((name.find("running_") != std::string::npos) != statistics) continue;
    for (size_t i = 0; i < values.size(); ++i) {
      off += std::pow(double(values[i]) - double(b.after.at(name)[i]), 2);
      way += std::pow(double(values[i]) - double(a.before.at(name)[i]), 2);
    }
  }
  EXPECT_GT(way, 0);
  return std::sqrt(off / way);
}

// `rounding`: the farthest that the whole batch in another order is from itself. Ranks add in
// another order too, and round what travels.
void expect_of_one_batch(const SyncedModel& model, const Sets& sets) {
  constexpr double kRoundings = 3;
  const SyncedSteps whole = steps_of(model, 1, sets)[0];
  double rounding[2] = {0, 0};
  for (const int64_t turned : {1, 2, 3, 5}) {
    const SyncedSteps other = steps_of(model, 1, sets, turned)[0];
    for (const bool statistics : {false, true}) {
      rounding[statistics] = std::max(rounding[statistics], distance(whole, other, statistics));
    }
  }
  Sets synced = sets;
  synced.emplace_back("train.batch_norm=sync");
  for (const int ranks : {2, 4}) {
    const std::vector<SyncedSteps> got = steps_of(model, ranks, synced);
    const std::vector<SyncedSteps> local = steps_of(model, ranks, sets);
    for (const SyncedSteps& rank : got) {
      EXPECT_TRUE(rank.after == got[0].after);
      EXPECT_EQ(rank.losses, got[0].losses);
    }
    for (const bool statistics : {false, true}) {
      const double off = distance(whole, got[0], statistics);
      std::printf(
          "%s, %d ranks, %s: %.2g of the way off; the whole batch in other orders %.2g, "
          "local %.2g\n",
          model.config.c_str(), ranks, statistics ? "statistics" : "weights", off,
          rounding[statistics], distance(whole, local[0], statistics));
      EXPECT_LE(off, kRoundings * rounding[statistics]);
      EXPECT_GT(distance(whole, local[0], statistics), kRoundings * rounding[statistics]);
    }
  }
}

TEST(SyncedNorms, OfImagesAreThoseOfOneBatch) { expect_of_one_batch(small_resnet(), {}); }
TEST(SyncedNorms, OfSpeechAreThoseOfOneBatch) { expect_of_one_batch(small_speech(), {}); }
// After one step: what 16 bits round away grows fast.
void expect_in_bf16(SyncedModel model) {
  model.steps = 1;
  expect_of_one_batch(model, {"train.precision=bf16"});
}
TEST(SyncedNorms, OfImagesAreThoseOfOneBatchInBf16) { expect_in_bf16(small_resnet()); }
TEST(SyncedNorms, OfSpeechAreThoseOfOneBatchInBf16) { expect_in_bf16(small_speech()); }

// One rank has nobody to ask.
TEST(SyncedNorms, OfOneRankAreItsOwn) {
  const auto local = steps_of(small_resnet(), 1, {});
  const auto synced = steps_of(small_resnet(), 1, {"train.batch_norm=sync"});
  EXPECT_TRUE(local[0].after == synced[0].after);
}

class SyncedRuns : public Ranks {
 protected:
  SyncedRuns() { config_ = kImages; }
  Sets with(Sets more) const {
    more.emplace_back("train.batch_norm=sync");
    return more;
  }
};

// Whatever they divide, keep, run again or send elsewhere.
TEST_F(SyncedRuns, HaveOneResultUnderAllOptions) {
  for (const int ranks : {2, 4}) {
    const std::string plain = "plain" + std::to_string(ranks);
    run(plain, ranks, with({}));
    int number = 0;
    for (const Sets& sets :
         std::vector<Sets>{{},  // once more
                           {"train.shard=optimizer"},
                           {"train.shard=gradients"},
                           {"train.shard=weights"},
                           {"train.bucket=1KiB"},
                           {"memory.recompute=echo"},
                           {"memory.recompute=sqrt", "train.shard=weights"},
                           {"memory.recompute=echo", "train.shard=weights", "train.bucket=1KiB"},
                           {"memory.recompute=mirror"},
                           {"memory.swap=planned"},
                           {"memory.swap=naive", "memory.recompute=echo"},
                           {"memory.schedule=program"},
                           {"memory.encode=[binarize]"}}) {
      const std::string out = plain + "-" + std::to_string(number++);
      run(out, ranks, with(sets));
      const std::string words = out + (sets.empty() ? "" : " " + sets[0]);
      EXPECT_TRUE(state(plain) == state(out)) << words;
      EXPECT_EQ(steps(plain), steps(out)) << words;
    }
    run(plain + "-local", ranks);
    EXPECT_FALSE(state(plain) == state(plain + "-local"));
  }
}

// A library's sums of gradients leave the statistics as they are: only the last bits differ.
TEST_F(SyncedRuns, LibrarySumsAreNear) {
  run("tree", 2, with({}));
  for (const char* shard : {"none", "gradients"}) {
    const std::string out = std::string("library-") + shard;
    run(out, 2, with({"train.reduction=library", std::string("train.shard=") + shard}));
    const auto loss_of = [](const std::string& row) {
      return std::stod(row.substr(row.find("loss=") + 5));
    };
    const auto one = steps("tree"), other = steps(out);
    ASSERT_EQ(one.size(), other.size());
    for (size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(loss_of(one[i]), loss_of(other[i]), 1e-5);
  }
}

// Of a step that is chosen to keep to a budget.
TEST_F(SyncedRuns, HaveOneResultWithinABudget) {
  const Sets sets{"train.batch_size=32", "train.steps=2"};
  run("plain", 2, with(sets));
  const int64_t most = planned("plain");
  ASSERT_GT(most, 0);
  for (const char* shard : {"none", "weights"}) {
    Sets within = sets;
    within.push_back("memory.budget=" + std::to_string(most / 4 * 3));
    within.push_back(std::string("train.shard=") + shard);
    run(std::string("within") + shard, 2, with(within));
    EXPECT_TRUE(state("plain") == state(std::string("within") + shard)) << shard;
  }
}

// Layers with a norm for every channel's own convolution.
TEST_F(SyncedRuns, OfTheZooHaveOneResultUnderAllOptions) {
  config_ =
      "model: {type: zoo, network: mobilenet_v2, width: 0.25}\n"
      "data: {synthetic: true, classes: 4, image_size: 32}\n"
      "train: {batch_size: 4, steps: 2, lr: 0.02, log_every: 1, accumulate: 2,\n"
      "  reduction: ordered, precision: bf16}\n"
      "device: {threads: 1}\n";
  run("plain", 2, with({}));
  for (const char* set : {"train.shard=weights", "memory.recompute=echo"}) {
    run(set, 2, with({set}));
    EXPECT_TRUE(state("plain") == state(set)) << set;
  }
}

TEST_F(SyncedRuns, WithoutNormsAreAsTheyWere) {
  config_ = kTranslator;
  run("local", 2);
  run("synced", 2, with({}));
  EXPECT_TRUE(state("local") == state("synced"));
}

TEST_F(SyncedRuns, GoOn) {
  run("whole", 2, with({}));
  run("parts", 2, with({"train.steps=2"}));
  run("parts", 2, with({"train.shard=weights"}));
  EXPECT_TRUE(state("whole") == state("parts"));
}

// Ranks whose utterances are of other buckets exchange the same.
TEST_F(SyncedRuns, OfSpeechHaveOneResultUnderAllOptions) {
  config_ =
      "model: {type: deepspeech2, conv_kernels: [5x9, 3x5], conv_channels: 4, layers: 2,\n"
      "  hidden: 12, dropout: 0.1}\n"
      "data: {root: " PAL_SOURCE_DIR
      "/data/samples/spoken_digits, train: manifest.csv,\n"
      "  valid: manifest.csv, test: manifest.csv, sample_rate: 8000, join_most: 2,\n"
      "  join_train: 40, join_eval: 12, buckets: 2}\n"
      "train: {batch_size: 4, steps: 4, lr: 0.005, clip_norm: 5, log_every: 1, accumulate: 4,\n"
      "  reduction: ordered}\n"
      "device: {threads: 1}\n";
  run("plain", 2, with({}));
  for (const char* set : {"train.shard=weights", "memory.recompute=echo", "memory.swap=planned"}) {
    run(set, 2, with({set}));
    EXPECT_TRUE(state("plain") == state(set)) << set;
  }
}

}  // namespace
}  // namespace pal::test
