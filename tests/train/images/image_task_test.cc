// The programs of an image model beside its training step.
#include "train/images/image_task.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "memory/run/program_set.h"
#include "train/loop/run_options.h"

namespace pal {
namespace {

Config network(int64_t parts) {
  return parse_config(
      "model: {type: zoo, network: nin, width: 0.125}\n"
      "data: {synthetic: true, classes: 4, image_size: 64}\n"
      "train: {batch_size: 4, steps: 2, batch_parts: " +
          std::to_string(parts) + "}\ndevice: {threads: 1}\n",
      "test.yaml", {});
}

// What validates or classifies is split as the step is, and needs no more memory than as a whole.
TEST(ImageTaskTest, ValidationRunsInPartsOfTheBatch) {
  int64_t bytes[2], convolutions[2];
  for (const int64_t parts : {1, 4}) {
    const Config config = network(parts);
    const ImageTask task(config);
    ProgramSet programs(compile_options(config.memory), Device{});
    const Compiled& compiled = task.inference(programs, 4).compiled();
    const size_t i = parts == 1 ? 0 : 1;
    bytes[i] = compiled.plan.device().lower_bound;
    convolutions[i] = std::count_if(
        compiled.program.nodes.begin(), compiled.program.nodes.end(),
        [](const Node& node) { return std::string(node.op->name).starts_with("conv2d"); });
  }
  EXPECT_LE(bytes[1], bytes[0]);
  EXPECT_GT(convolutions[1], convolutions[0]);
}

}  // namespace
}  // namespace pal
