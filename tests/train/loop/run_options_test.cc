// Each memory key reaches the options of compile(), alone.
#include "train/loop/run_options.h"

#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace pal {
namespace {

MemoryConfig memory_of(const std::string& keys) {
  return parse_config("model: {type: nmt}\ndata: {synthetic: true}\ntrain: {steps: 1}\nmemory: {" +
                          keys + "}\n",
                      "test.yaml")
      .memory;
}

// What Linux says that the host has free, of which others take some and give some back.
double free_bytes() {
  std::ifstream info("/proc/meminfo");
  for (std::string word; info >> word;) {
    if (word != "MemAvailable:") continue;
    double kib = 0;
    info >> kib;
    return kib * 1024;
  }
  return 0;
}

TEST(RunOptions, EveryMemoryKeyReachesThePlan) {
  struct Case {
    std::string keys;
    std::function<bool(const CompileOptions&)> has;
  };
  const std::vector<Case> cases{
      {"inplace: false", [](const auto& o) { return !o.inplace; }},
      {"schedule: exact", [](const auto& o) { return o.schedule == Schedule::exact; }},
      {"recompute: mirror", [](const auto& o) { return o.recompute == Recompute::mirror; }},
      {"recompute_overhead: 0.5",
       [](const auto& o) { return o.recompute_options.overhead == 0.5; }},
      {"fuse_recompute: false", [](const auto& o) { return !o.fuse_recompute; }},
      {"fuse_epilogues: false", [](const auto& o) { return !o.fuse_epilogues; }},
      {"encode: [binarize]", [](const auto& o) { return o.encode.binarize; }},
      {"encode: [dropout_bits]", [](const auto& o) { return o.encode.dropout_bits; }},
      {"encode: [ssdc]", [](const auto& o) { return o.encode.ssdc; }},
      {"encode: [dpr_fp10]", [](const auto& o) { return o.encode.dpr == Dpr::fp10; }},
      {"dpr_layers: {decoder: fp8}",
       [](const auto& o) {
         return o.encode.dpr_layers.size() == 1 && o.encode.dpr_layers.at("decoder") == Dpr::fp8;
       }},
      {"ssdc_margin: 2", [](const auto& o) { return o.encode.ssdc_margin == 2; }},
      {"swap: vdnn", [](const auto& o) { return o.swap.method == Swap::vdnn; }},
      {"swap: vdnn, vdnn: all", [](const auto& o) { return o.swap.vdnn == VdnnInputs::all; }},
      {"host_budget: 3MB", [](const auto& o) { return o.host_budget == 3'000'000; }},
      {"budget: 5MB", [](const auto& o) { return o.budget == 5'000'000; }},
      {"manager: dtr, budget: 5MB",
       [](const auto& o) { return o.dynamic.manager == Manager::dtr; }},
      {"filter: lru", [](const auto& o) { return o.dynamic.filter == Filter::lru; }},
      {"start: 0.5", [](const auto& o) { return o.dynamic.start == 0.5; }},
      {"prefetch: 9", [](const auto& o) { return o.dynamic.prefetch == 9; }},
      {"release_in_backward: false", [](const auto& o) { return !o.dynamic.release_in_backward; }},
      {"dtr: msps", [](const auto& o) { return o.dynamic.dtr == DtrHeuristic::msps; }},
      {"dealloc: banish", [](const auto& o) { return o.dynamic.dealloc == Dealloc::banish; }},
  };
  const CompileOptions plain = compile_options(memory_of(""));
  EXPECT_TRUE(plain.inplace && plain.fuse_recompute && plain.fuse_epilogues);
  for (const Case& c : cases) {
    EXPECT_FALSE(c.has(plain)) << c.keys;
    EXPECT_TRUE(c.has(compile_options(memory_of(c.keys)))) << c.keys;
  }
}

// What a run copies stays within what the host has free; a plan for another machine does not.
TEST(RunOptions, ARunThatCopiesHasALimitOfTheHosts) {
  for (const char* keys : {"swap: naive", "manager: delta, budget: 5MB"}) {
    EXPECT_FALSE(compile_options(memory_of(keys)).host_budget) << keys;
    const std::optional<int64_t> limit = run_options(memory_of(keys)).host_budget;
    EXPECT_NEAR(double(limit.value_or(0)) / free_bytes(), 0.8, 0.08) << keys;
  }
  EXPECT_NEAR(double(host_limit(memory_of(""))) / free_bytes(), 0.8, 0.08);
  EXPECT_FALSE(run_options(memory_of("")).host_budget);
  EXPECT_FALSE(run_options(memory_of("manager: dtr, budget: 5MB")).host_budget);
  EXPECT_EQ(run_options(memory_of("swap: naive, host_budget: 3MB")).host_budget, 3'000'000);
  EXPECT_EQ(host_limit(memory_of("host_budget: 3MB")), 3'000'000);
}

}  // namespace
}  // namespace pal
