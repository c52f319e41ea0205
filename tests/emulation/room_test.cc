// What a plan may need of a card, and what such a card's arena takes.
#include <gtest/gtest.h>

#include "core/accelerator.h"
#include "core/error.h"
#include "core/outside_plans.h"
#include "memory/run/program_set.h"
#include "tests/emulation/emulation.h"
#include "train/loop/max_fit.h"
#include "train/loop/run_options.h"
#include "train/loop/step_program.h"
#include "train/tasks/make_task.h"

namespace pal::test {
namespace {

constexpr int64_t kCard = int64_t(48) << 20;
constexpr std::pair<int64_t, int64_t> kBucket{12, 12};

class Room : public testing::Test {
 protected:
  // A card of its size, whose context is there already.
  void SetUp() override {
    emulation::settings() = {.memory = kCard, .context = context_bytes(kCard)};
  }
  void TearDown() override { emulation::settings() = {}; }

  static Config config(int64_t batch) {
    std::vector<Override> sets;
    for (const char* set : {"device.type=cuda", "data.synthetic=true", "data.source_vocab_size=80",
                            "data.target_vocab_size=80", "model.hidden=32", "model.embedding=32",
                            "memory.auto=false"}) {
      sets.push_back(parse_set(set));
    }
    sets.push_back(parse_set("train.batch_size=" + std::to_string(batch)));
    return load_config(PAL_SOURCE_DIR "/configs/nmt_small.yaml", sets);
  }
  // The largest batch whose step needs so many bytes, as --max-batch finds it.
  static int64_t proposed(int64_t bytes) {
    const Config c = config(16);
    return largest_fitting(*make_task(c), c, kBucket, kBatchKey, bytes).found.value;
  }
  // The bytes of the arena that the card gave.
  static int64_t accepted(int64_t batch) {
    const Config c = config(batch);
    ProgramSet set(compile_options(c.memory), cuda_device());
    Executable& step = set.add("step", record_plan_step(*make_task(c), c, kBucket));
    return step.compiled().plan.device().bytes;
  }
};

TEST_F(Room, WhatIsProposedForACardIsAccepted) {
  const DeviceProfile card{.link = 1, .capacity = kCard};
  const int64_t batch = proposed(card.room());
  ASSERT_GT(batch, 16);
  const int64_t bytes = accepted(batch);
  EXPECT_LE(bytes, cuda_device().accelerator->room());
  EXPECT_GT(bytes, card.room() / 100 * 95) << "and most of it is used";
}

TEST_F(Room, WhatFitsTheWholeCardIsNot) {
  const int64_t batch = proposed(kCard);
  try {
    accepted(batch);
    ADD_FAILURE() << "accepted";
  } catch (const BudgetError& error) {
    EXPECT_NE(std::string(error.what()).find("for kernels, libraries and recorded steps"),
              std::string::npos)
        << error.what();
  }
}

TEST_F(Room, IsOfCardsAlone) {
  const int64_t gib = int64_t(1) << 30;
  EXPECT_EQ((DeviceProfile{.link = 1, .capacity = 11 * gib}).room(), 10 * gib);
  EXPECT_EQ((DeviceProfile{.link = 1, .capacity = 64 << 20}).room(), 56 << 20);
  EXPECT_EQ((DeviceProfile{.capacity = 11 * gib}).room(), 11 * gib) << "the processor's own memory";
}

}  // namespace
}  // namespace pal::test
