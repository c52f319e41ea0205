// All programs that the updates of a run may take, and by which plan a step runs.
#include "train/loop/step_programs.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "tests/support/files.h"
#include "train/loop/initialise.h"
#include "train/loop/ranks_of_run.h"
#include "train/loop/run_options.h"
#include "train/tasks/make_task.h"

namespace pal {
namespace {

TrainArgs args_of(const std::string& more, const std::filesystem::path& folder) {
  TrainArgs args;
  args.config = with_ranks(parse_config("model: {type: resnet, family: cifar, depth: 8, width: 2}\n"
                                        "data: {synthetic: true, classes: 2, image_size: 8}\n"
                                        "device: {threads: 1}\n" +
                                            more,
                                        "test.yaml"),
                           1);
  args.out = folder;
  return args;
}

TEST(StepPrograms, AllAreThoseOfEveryMicroBatchAndEveryTwoNeighbours) {
  const TemporaryFolder folder;
  for (int64_t count = 1; count <= 5; ++count) {
    const TrainArgs args =
        args_of("train: {batch_size: 1, steps: 1, reduction: library, accumulate: " +
                    std::to_string(count) +
                    ", overlap_micro_batches: " + (count > 1 ? "true" : "false") + "}\n",
                folder.path());
    const std::unique_ptr<Task> task = make_task(args);
    ProgramSet programs({}, cpu_device(1));
    StepPrograms steps(args.config, *task, programs, "", "");
    std::multiset<std::string> told;
    steps.tell([&](const PlanRow& row) { told.insert(row.program); });
    steps.largest();  // has all of the state
    steps.add_all();
    std::set<std::string> expected;
    for (int bucket = 0; bucket < task->bucket_count(); ++bucket) {
      for (int64_t i = 0; i < count; ++i) {
        const MicroBatch kind = steps.update().kind(i);
        expected.insert(steps.name(bucket, kind));
        if (i + 1 == count) continue;
        expected.insert(pair_name(task->bucket_lengths(bucket), kind, steps.update().kind(i + 1)));
      }
    }
    EXPECT_EQ(told, std::multiset<std::string>(expected.begin(), expected.end())) << count;
  }
}

// Runs are counted where maps may be sparse, and only there.
TEST(StepPrograms, StepsRunByTheSparsePlansWhereAskedTo) {
  const TemporaryFolder folder;
  for (const bool ssdc : {false, true}) {
    const TrainArgs args =
        args_of(std::string("train: {batch_size: 1, steps: 1}\nmemory: {encode: [") +
                    (ssdc ? "ssdc" : "") + "], ssdc_observe: 1}\n",
                folder.path());
    const std::unique_ptr<Task> task = make_task(args);
    ProgramSet programs(run_options(args.config.memory), cpu_device(1));
    StepPrograms steps(args.config, *task, programs, "", "");
    steps.largest();
    initialise(programs, 1);
    for (int i = 0; i < 3; ++i) {
      const BatchInfo info = task->next(1)[0];
      const auto fill = [&](Executable& program) {
        const StepScalars scalars{.learning_rate = 0.01f, .step = i, .tokens = 1};
        std::memcpy(program.input(kScalarsInput), &scalars, sizeof scalars);
        task->fill(program, 0);
      };
      steps.run(info.bucket, MicroBatch::only, fill, [](const auto&) {});
    }
    const std::vector<std::string> said = steps.sparse().described();
    ASSERT_EQ(said.size(), size_t(ssdc));
    for (const std::string& line : said) {
      EXPECT_NE(line.find("; of 3 runs "), std::string::npos) << line;
    }
  }
}

}  // namespace
}  // namespace pal
