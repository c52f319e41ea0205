// Options that do not combine, or that a kind of model or data has not.
#include <gtest/gtest.h>

#include "tests/train/config/good_config.h"
#include "train/config/config.h"
#include "train/config/yaml.h"

namespace pal {
namespace {

TEST(ConfigRules, formats_of_encoded_maps) {
  EXPECT_EQ(error_of(kGood, {parse_set("memory.encode=[dpr_fp8, dpr_fp16]")}),
            "--set: memory.encode: has several dpr_ formats; keep one, or say in "
            "memory.dpr_layers which scopes get which");
  EXPECT_EQ(error_of(kGood, {parse_set("memory.encode=[dpr_fp8, dpr_fp16]"),
                             parse_set("memory.dpr_layers={rnn: fp10}")}),
            "--set: memory.encode: has several dpr_ formats, of which memory.dpr_layers gives "
            "dpr_fp16 to no scope; leave it out, or keep it alone for all scopes that dpr_layers "
            "does not name");
  EXPECT_EQ(error_of(kGood, {parse_set("memory.dpr_layers={rnn: fp9}")}).substr(0, 66),
            "--set: memory.dpr_layers.rnn: fp9 is not one of fp16, fp10, fp8; d");
  EXPECT_EQ(error_of(kGood, {parse_set("memory.dpr_layers={rnn: dpr_fp8}")}),
            "--set: memory.dpr_layers.rnn: dpr_fp8 is not one of fp16, fp10, fp8; did you mean "
            "fp8?");
  EXPECT_EQ(error_of(kGood, {parse_set("memory.encode=[dpr_fp8, dpr_fp16]"),
                             parse_set("memory.dpr_layers={rnn: fp8}")})
                .find("--set: memory.encode: has several"),
            0u);
  EXPECT_EQ(error_of(kGood, {parse_set("memory.encode=[dpr_fp8, dpr_fp16]"),
                             parse_set("memory.dpr_layers={rnn: fp8, out: fp16}")}),
            "");
}

TEST(ConfigRules, a_plan_is_chosen_from_a_budget) {
  EXPECT_EQ(
      error_of(kGood, {parse_set("memory.budget=null"), parse_set("memory.auto=true")}),
      "--set: memory.auto: there is no budget to choose by; set memory.budget (11GiB), or leave "
      "it out");
  for (const char* technique : {"recompute=sqrt", "encode=[binarize]", "dpr_layers={rnn: fp8}",
                                "swap=naive", "manager=dtr"}) {
    const auto sets = [&](const char* automatic) {
      return std::vector<Override>{parse_set("memory.budget=1GB"),
                                   parse_set(std::string("memory.") + technique),
                                   parse_set(std::string("memory.auto=") + automatic)};
    };
    EXPECT_NE(error_of(kGood, sets("true")).find("memory.auto: true does not combine with memory."),
              std::string::npos)
        << technique;
    EXPECT_EQ(error_of(kGood, sets("null")), "") << technique;
    EXPECT_FALSE(chooses_plan(parse_config(kGood, "c.yaml", sets("null")).memory)) << technique;
  }
  const Override budget = parse_set("memory.budget=1GB");
  EXPECT_TRUE(chooses_plan(parse_config(kGood, "c.yaml", {budget}).memory));
  EXPECT_FALSE(
      chooses_plan(parse_config(kGood, "c.yaml", {parse_set("memory.budget=null")}).memory));
  EXPECT_FALSE(
      chooses_plan(parse_config(kGood, "c.yaml", {budget, parse_set("memory.auto=false")}).memory));
}

TEST(ConfigRules, options_of_images) {
  const std::string text = "model: {type: resnet}\ntrain: {max_epochs: 1}\ndata: ";
  const Config c = parse_config(text + "{channels: 1, mean: [1], std: [0.5]}\n", "c.yaml");
  EXPECT_EQ(*c.images().mean, std::vector<double>{1});
  EXPECT_EQ(yaml_text(*c.images().std), "[0.5]");
  auto fault = [&](const std::string& data, const std::string& train = "") {
    return error_of(text + data + "\n" + train, {});
  };
  EXPECT_EQ(fault("{mean: 3}"), "c.yaml:3: data.mean: expected list of numbers, got the integer 3");
  EXPECT_EQ(fault("{mean: [0, x, 0]}"),
            "c.yaml:3: data.mean: expected list of numbers, got the string \"x\"");
  EXPECT_EQ(fault("{std: [1, 0, 1]}"), "c.yaml:3: data.std: 0 is out of range; it must be above 0");
  EXPECT_EQ(fault("{mean: [0, 0]}"),
            "c.yaml:3: data.mean: has 2 numbers for 3 channels; give one for each");
  EXPECT_EQ(fault("{channels: 2}"),
            "c.yaml:3: data.channels: 2 is neither grey (1) nor colour (3)");
  EXPECT_EQ(fault("{image_size: 64, resize: 32}"),
            "c.yaml:3: data.resize: 32 is less than data.image_size 64; raise it");
  EXPECT_NE(fault("{synthetic: true}").find("data.classes: data.synthetic needs it"),
            std::string::npos);
  EXPECT_EQ(error_of(text + "{}\n", {parse_set("train.batch_words=100")}),
            "--set: train.batch_words: only pairs of sentences are gathered by words; use "
            "train.batch_size");
}

// What a model's loss or batches do not have is refused, and not passed over.
TEST(ConfigRules, options_of_other_models) {
  const auto fault = [](const char* name, const char* set) {
    return usage_error_of([&] {
      load_config(find_config(name), {parse_set("train.batch_size=128"), parse_set(set)});
    });
  };
  for (const char* name : {"bert_small", "deepspeech2_small"}) {
    EXPECT_NE(fault(name, "train.label_smoothing=0.3").find("train.label_smoothing: only"),
              std::string::npos);
    EXPECT_NE(fault(name, "train.batch_words=640").find("train.batch_words: only pairs"),
              std::string::npos);
  }
  EXPECT_EQ(fault("resnet_small", "train.label_smoothing=0.1"), "");
  EXPECT_EQ(fault("transformer_small", "train.label_smoothing=0.1"), "");
}

}  // namespace
}  // namespace pal
