// What a run says, line by line: tests/train/golden/logs has it without numbers, which depend on
// the clock and on the processor.
#include <regex>

#include "tests/support/golden_text.h"
#include "tests/train/commands/corun_runs.h"

namespace pal {
namespace {

class RunLog : public Corun {
 protected:
  // Without the device, what passes made of the plan, and what a model says: "of # bytes".
  std::string masked(const std::string& text) const {
    std::string out;
    for (std::string line : lines_of(text)) {
      if (line.starts_with("device ") || line.find(" to plan") != std::string::npos) continue;
      if (const size_t says = line.find("    -> "); says != std::string::npos) {
        line.resize(says + 7);
      }
      for (size_t at; (at = line.find(dir_.string())) != std::string::npos;) {
        line.replace(at, dir_.string().size(), "FOLDER");
      }
      line = std::regex_replace(line, std::regex("-?[0-9][0-9.,:e+-]*"), "#");
      line = std::regex_replace(line, std::regex("# [kMG]?B\\b"), "# bytes");
      line = std::regex_replace(line, std::regex("at the peak: .*"), "at the peak: ...");
      out += line + "\n";
    }
    return out;
  }
  void says(const std::string& name, std::vector<std::string> args) {
    const RunResult r = pal(std::move(args));
    EXPECT_EQ(r.status, 0) << r.err;
    expect_golden("train/golden/logs/" + name + ".txt", masked(r.err) + "\nout:\n" + masked(r.out));
  }
};

TEST_F(RunLog, OfATranslatorThatIsTrainedResumedAndTried) {
  says("train_text", {"train", "--config", "text.yaml", "--out", "run", "--set", "train.ema=0.9"});
  says("resume_text", {"train", "--config", "text.yaml", "--out", "run", "--resume", "--steps", "8",
                       "--set", "train.ema=0.9"});
  says("eval_text", {"eval", "--model", "run"});
  says("plan_text", {"plan", "--config", "text.yaml", "--set", "memory.schedule=program", "--set",
                     "memory.inplace=false"});
}

TEST_F(RunLog, OfAClassifierThatIsTrainedAndTried) {
  says("train_image", {"train", "--config", "image.yaml", "--out", "run", "--set",
                       "data.brightness=0.1", "--set", "memory.encode=[binarize]"});
  says("eval_image", {"eval", "--model", "run"});
}

// The jobs' lines come in any order.
TEST_F(RunLog, OfJobsTogether) {
  const RunResult r =
      corun({"text.yaml", "image.yaml", "--out", "run", "--set", "1:train.log_every=3"});
  ASSERT_EQ(r.status, 0) << r.err;
  Words lines = lines_of(masked(r.err));
  std::sort(lines.begin(), lines.end());
  std::string sorted;
  for (const std::string& line : lines) sorted += line + "\n";
  expect_golden("train/golden/logs/corun.txt", sorted);
}

}  // namespace
}  // namespace pal
