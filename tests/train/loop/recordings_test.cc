// Recordings of a model: which there are, what they are called, and that those which are the same
// step count once.
#include "train/loop/recordings.h"

#include <gtest/gtest.h>

#include <set>

#include "core/error.h"
#include "train/config/profile.h"
#include "train/loop/run_options.h"

namespace pal {
namespace {

Config configured(const std::string& model, const std::string& data, const std::string& train) {
  return parse_config("model: {" + model + "}\ndata: {synthetic: true, " + data + "}\ntrain: {" +
                          train + "}\nmemory: {allow: [reordered]}\ndevice: {threads: 1}\n",
                      "test.yaml", {});
}
Config translator() {
  return configured(
      "type: nmt, hidden: 16, embedding: 12, attention_size: 8, encoder_layers: 1, "
      "decoder_layers: 1",
      "source_vocab_size: 60, target_vocab_size: 400, max_length: 20", "batch_size: 16, steps: 40");
}
Config network(const std::string& name) {
  return configured("type: zoo, width: 0.125, network: " + name, "classes: 4, image_size: 64",
                    "batch_size: 4, steps: 2");
}
std::vector<std::string> names_of(const FrontOfAll& front) {
  std::vector<std::string> out;
  for (const auto& each : front.programs) out.push_back(each.first.name);
  return out;
}
FrontOfAll front_of(const Config& config, std::pair<int64_t, int64_t> bucket) {
  KernelCache kernels{Device{}};
  CompileOptions options = compile_options(config.memory);
  options.profile = load_profile("v100_16");
  const AutoPlanner planner(options, {}, FrontCache(""));
  return front_of_all(*make_task(config), config, bucket, planner, kernels);
}

TEST(Recordings, ANameSaysAllThatItsRecordingHas) {
  const Config config = translator();
  const std::vector<Recording> all = recordings_of(config);
  ASSERT_GT(all.size(), 6u);
  std::set<std::string> names;
  for (const Recording& each : all) {
    names.insert(each.name);
    const Config named = with_named(config, each.name);
    for (const char* key : {"model.fused", "model.loss_chunks", "train.batch_parts"}) {
      Config wanted = each.config, found = named;
      EXPECT_EQ(yaml_text(found.find(key)->value()), yaml_text(wanted.find(key)->value()))
          << key << " of " << each.name;
    }
  }
  EXPECT_EQ(names.size(), all.size());
  Config own = with_named(config, all[0].name);
  EXPECT_EQ(own.train.batch_parts, config.train.batch_parts) << "the first is as configured";
}

TEST(Recordings, ANumberIsNotTakenForTheBeginningOfAnother) {
  const Config config = network("nin");
  EXPECT_EQ(*with_named(config, "train.batch_parts: 16").train.batch_parts, 16);
  EXPECT_EQ(*with_named(config, "train.batch_parts: 4").train.batch_parts, 4);
  EXPECT_EQ(*with_named(config, "").train.batch_parts, 1);
  Config parts = config;
  parts.train.batch_parts = int64_t(16);
  EXPECT_EQ(*with_named(parts, "train.batch_parts: 16").train.batch_parts, 16);
}

TEST(Recordings, WhatIsTheSameStepCountsOnce) {
  // A network of batch norms stays whole whatever is asked for: nothing to choose, nothing to name.
  EXPECT_EQ(names_of(front_of(network("resnext50"), {64, 64})), std::vector<std::string>{""});
  // Four images make four parts, and no sixteen.
  EXPECT_EQ(names_of(front_of(network("nin"), {64, 64})),
            (std::vector<std::string>{"train.batch_parts: 1", "train.batch_parts: 4"}));
}

}  // namespace
}  // namespace pal
