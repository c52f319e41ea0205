// The command line: what each command reads, its name, and every refusal in one line.
#include "train/commands/cli.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "core/accelerator.h"
#include "core/error.h"
#include "core/version.h"
#include "tests/support/files.h"
#include "train/commands/commands.h"
#include "train/commands/stop_signal.h"

namespace pal {
namespace {

const std::string kConfig = std::string(PAL_SOURCE_DIR) + "/configs/nmt_small.yaml";

template <class Args>
Args parse(const std::vector<std::string>& args, const std::string& program = "pal") {
  return std::any_cast<Args>(parse_command_line(program, args).args);
}

std::string refusal_of(const std::vector<std::string>& args) {
  return usage_error_of([&] { parse_command_line("pal", args); });
}

TEST(Cli, a_path_that_cannot_be_read_is_named) {
  const auto failure = [](std::errc why) {
    try {
      throw std::filesystem::filesystem_error("status", "/a/b", std::make_error_code(why));
    } catch (...) {
      return failure_at_hand();
    }
  };
  EXPECT_EQ(failure(std::errc::permission_denied).exit_code, kExitUsage);
  EXPECT_EQ(failure(std::errc::permission_denied).what, "/a/b: Permission denied");
  EXPECT_EQ(failure(std::errc::no_space_on_device).exit_code, kExitFailed);
}

// Signals are caught before a rank has loaded its data, and again when its run begins.
TEST(Cli, a_signal_before_the_run_counts) {
  const auto caught = [] {
    catch_stop_signals();
    std::raise(SIGTERM);
    std::exit(catch_stop_signals() ? 7 : 0);
  };
  EXPECT_EXIT(caught(), testing::ExitedWithCode(7), "");
}

TEST(Cli, train_reads_every_flag) {
  auto a = parse<TrainArgs>({"train", "--config", kConfig, "--set", "train.lr=0.5", "--set",
                             "memory.encode=[]", "--steps", "20", "--out", "here", "--resume",
                             "--device", "cpu", "--dry-run", "--json"});
  EXPECT_EQ(*a.config.train.lr, 0.5);
  EXPECT_EQ(*a.config.train.steps, 20);
  EXPECT_EQ(*a.config.train.max_epochs, std::nullopt);  // --steps decides alone
  EXPECT_EQ(*a.config.device.type, "cpu");
  EXPECT_EQ(a.out, "here");
  EXPECT_EQ(a.name, "nmt_small");
  EXPECT_TRUE(a.resume && a.dry_run && a.json);
}

TEST(Cli, train_has_plain_defaults) {
  auto a = parse<TrainArgs>({"train", "--config", "nmt_small"});
  EXPECT_EQ(a.out, std::filesystem::path("runs/nmt_small"));
  EXPECT_FALSE(a.resume || a.dry_run || a.json);
  EXPECT_EQ(*a.config.train.steps, std::nullopt);
}

TEST(Cli, the_program_named_train_is_the_command) {
  EXPECT_EQ(parse<TrainArgs>({"--config", kConfig, "--out", "x"}, "/usr/bin/train").out, "x");
  EXPECT_NE(parse<PrintText>({"--help"}, "train").text.find("--resume"), std::string::npos);
}

TEST(Cli, a_run_resumes_from_its_own_configuration) {
  const TemporaryFolder folder;
  const std::filesystem::path run = folder.path() / "run";
  std::filesystem::create_directories(run);
  std::ofstream(run / "config.yaml") << "model: {type: nmt}\ntrain: {max_epochs: 3}\n";
  auto a = parse<TrainArgs>({"train", "--resume", "--out", run.string()});
  EXPECT_EQ(*a.config.train.max_epochs, 3);
  std::filesystem::remove_all(run);
  EXPECT_THROW(parse_command_line("pal", {"train", "--resume", "--out", run.string()}), UsageError);
}

TEST(Cli, plan_translate_and_eval) {
  auto plan = parse<PlanArgs>({"plan", "--config", kConfig, "--bucket", "20,30", "--budget", "2GiB",
                               "--set", "memory.inplace=false", "--json"});
  EXPECT_EQ(plan.bucket, std::make_pair(int64_t{20}, int64_t{30}));
  EXPECT_EQ(plan.config.memory.budget.get()->bytes, 2ll << 30);
  EXPECT_FALSE(*plan.config.memory.inplace);
  EXPECT_TRUE(plan.json);
  EXPECT_EQ(parse<PlanArgs>({"plan", "--config", kConfig}).bucket, std::nullopt);

  auto translate = parse<TranslateArgs>({"translate", "--model", "m", "--input", "f"});
  EXPECT_EQ(translate.model, "m");
  EXPECT_EQ(translate.input, "f");
  EXPECT_EQ(parse<TranslateArgs>({"translate", "--model=m"}).input, std::nullopt);
  EXPECT_EQ(translate.beam.beam, 5);
  EXPECT_EQ(translate.beam.length_penalty, 1);
  EXPECT_FALSE(translate.list || translate.beam.allow_unknown);
  translate = parse<TranslateArgs>({"translate", "--model", "m,n", "--beam", "7", "--n-best", "1",
                                    "--length-penalty", "0.5", "--allow-unknown"});
  EXPECT_EQ(translate.model, "m,n");
  EXPECT_EQ(translate.beam.beam, 7);
  EXPECT_EQ(translate.beam.length_penalty, 0.5);
  EXPECT_TRUE(translate.list && translate.beam.allow_unknown);

  auto eval = parse<EvalArgs>({"eval", "--model", "m", "--part", "valid", "--json"});
  EXPECT_EQ(eval.part, "valid");
  auto files = parse<EvalArgs>({"eval", "--model", "m", "--source", "s", "--reference", "r"});
  EXPECT_EQ(files.source, "s");
  EXPECT_EQ(files.reference, "r");
  EXPECT_EQ(parse<EvalArgs>({"eval", "--model=m", "--beam=1"}).beam.beam, 1);

  auto classify = parse<ClassifyArgs>({"classify", "--model", "m", "a.jpg", "b.png", "--top", "3"});
  EXPECT_EQ(classify.files, (std::vector<std::filesystem::path>{"a.jpg", "b.png"}));
  EXPECT_EQ(classify.top, 3);
  EXPECT_FALSE(classify.json);

  auto average = parse<AverageArgs>({"average", "runs/a", "--last", "7"});
  EXPECT_EQ(average.folder, "runs/a");
  EXPECT_EQ(average.last, 7);
  EXPECT_EQ(average.out, "runs/a/average.safetensors");
  EXPECT_EQ(parse<AverageArgs>({"average", "a", "--out", "b.safetensors"}).out, "b.safetensors");
  auto score = parse<ScoreArgs>({"score", "--model", "m", "--source", "s", "--target", "t"});
  EXPECT_EQ(score.source, "s");
  EXPECT_EQ(score.target, "t");
}

TEST(Cli, corun_reads_its_jobs) {
  auto a = parse<CorunArgs>(
      {"corun",     kConfig,          "resnet_small", "nmt_small", "--budget",
       "2GiB",      "--set",          "train.lr=0.5", "--set",     "2:train.lr=0.25",
       "--set",     "3:train.seed=7", "--steps",      "20",        "--device",
       "cpu",       "--mode",         "unshared",     "--out",     "here",
       "--dry-run", "--json"});
  ASSERT_EQ(a.jobs.size(), 3u);
  EXPECT_EQ(a.budget, 2ll << 30);
  EXPECT_TRUE(a.dry_run && a.json && a.jobs[1].dry_run);
  EXPECT_FALSE(a.resume);
  EXPECT_EQ(a.mode, CorunMode::unshared);
  const double rates[] = {0.5, 0.25, 0.5};
  for (size_t i = 0; i < 3; ++i) {
    const TrainArgs& job = a.jobs[i];
    EXPECT_EQ(job.name, i == 1 ? "resnet_small" : "nmt_small");
    EXPECT_EQ(job.out, std::filesystem::path("here") / std::to_string(i + 1));
    EXPECT_EQ(*job.config.train.lr, rates[i]);
    EXPECT_EQ(*job.config.train.seed, i == 2 ? 7 : 1);
    EXPECT_EQ(*job.config.train.steps, 20);
    EXPECT_EQ(*job.config.train.max_epochs, std::nullopt);
    EXPECT_EQ(*job.config.device.type, "cpu");
  }
  a = parse<CorunArgs>({"corun", "nmt_small", "resnet_small", "--budget", "1GB"});
  EXPECT_EQ(a.jobs[1].out, std::filesystem::path("runs/corun_nmt_small_resnet_small/2"));
  EXPECT_FALSE(a.dry_run || a.json);
}

TEST(Cli, corun_takes_the_folder_of_a_run) {
  const TemporaryFolder folder;
  const std::filesystem::path run = folder.path() / "run";
  std::filesystem::create_directories(run);
  std::ofstream(run / "config.yaml") << "model: {type: nmt}\ntrain: {max_epochs: 3}\n";
  const std::vector<std::string> args{"corun", run.string(), "nmt_small", "--budget", "1GB"};
  auto a = parse<CorunArgs>(args);
  EXPECT_EQ(a.jobs[0].name, "run");
  EXPECT_EQ(*a.jobs[0].config.train.max_epochs, 3);
  EXPECT_EQ(a.jobs[0].out, std::filesystem::path("runs/corun_run_nmt_small/1"));
  std::vector<std::string> resumed = args;
  resumed.push_back("--resume");
  a = parse<CorunArgs>(resumed);
  EXPECT_TRUE(a.resume);
  EXPECT_EQ(a.jobs[0].out, run);
  EXPECT_EQ(a.jobs[1].out, std::filesystem::path("runs/corun_run_nmt_small/2"));
  EXPECT_NE(
      refusal_of({"corun", run.string(), run.string(), "--budget", "1GB", "--resume", "--out", "x"})
          .find("--out: with --resume"),
      std::string::npos);
}

TEST(Cli, a_failure_of_the_device_is_told_from_others) {
  const auto failure_of = [](auto throws) {
    try {
      throws();
    } catch (...) {
      return failure_at_hand();
    }
    return Failure{};
  };
  const Failure device = failure_of([] { throw DeviceError("gone"); });
  EXPECT_TRUE(device.of_device);
  EXPECT_EQ(device.exit_code, kExitFailed);
  EXPECT_EQ(device.what, "gone");
  EXPECT_FALSE(failure_of([] { throw ProgramError("wrong"); }).of_device);
}

TEST(Cli, text_commands) {
  for (auto args : std::vector<std::vector<std::string>>{{}, {"help"}, {"--help"}, {"-h"}})
    EXPECT_NE(parse<PrintText>(args).text.find("translate"), std::string::npos);
  EXPECT_EQ(parse<PrintText>({"--version"}).text, std::string("pal ") + kVersion + "\n");
  EXPECT_NE(parse<PrintText>({"plan", "--help"}).text.find("--bucket"), std::string::npos);
  EXPECT_EQ(parse<PrintText>({"config-reference"}).text, config_reference());
  auto dump =
      parse<PrintText>({"train", "--config", kConfig, "--set", "train.lr=0.125", "--dump-config"});
  EXPECT_EQ(*parse_config(dump.text, "dump").train.lr, 0.125);
}

TEST(Cli, every_refusal_is_one_clear_line) {
  struct Case {
    std::vector<std::string> args;
    std::string part;  // of the message
  };
  const Case cases[] = {
      {{"trian"}, "'trian' is not a command of this version; did you mean train? (there are: "},
      {{"average"}, "average: DIR is required"},
      {{"average", "a", "--last", "0"}, "--last: 0 is out of range; give 1 or more"},
      {{"scroe"}, "did you mean score?"},
      {{"score", "--model", "m", "--source", "s"}, "score: --target is required"},
      {{"classify", "--model", "m", "a.jpg", "--top", "0"},
       "--top: 0 is out of range; give 1 or more"},
      {{"translate", "--model", "m", "--beam", "0"}, "--beam: 0 is out of range; give 1 to 1000"},
      {{"translate", "--model", "m", "--beam", "x"}, "translate: "},
      {{"transcribe", "--model", "m", "a.wav", "--beam", "0"},
       "--beam: 0 is out of range; give 1 to 10000"},
      {{"translate", "--model", "m", "--beam", "3", "--n-best", "4"},
       "--n-best: 4 is out of range; give 1 to 3, the --beam"},
      {{"eval", "--model", "m", "--length-penalty", "-1"}, "--length-penalty: -1"},
      {{"eval", "--model", "m", "--length-penalty", "nan"}, "--length-penalty: nan"},
      {{"eval", "--model", "m", "--n-best", "2"}, "eval: there is no --n-best"},
      {{"--bogus"}, "--bogus"},
      {{"train"}, "train: --config is missing; give a path, or a name in configs/"},
      {{"train", "--config"}, "train: --config: 1 required C missing (see pal train --help)"},
      {{"train", "--config", "nmt_smal"}, "did you mean nmt_small?"},
      {{"train", "--config", kConfig, "--stepz", "1"},
       "there is no --stepz; did you mean --steps?"},
      {{"train", "--config", kConfig, "--profile=x"}, "there is no --profile"},
      {{"train", "--config", kConfig, "extra"}, "extra"},
      {{"train", "--config", kConfig, "--json", "--dump-config"}, "--dump-config excludes --json"},
      {{"train", "--config", kConfig, "--steps", "0"}, "--steps: train.steps: 0 is out of range"},
      {{"train", "--config", kConfig, "--steps", "x"}, "--steps: train.steps: expected integer"},
      {{"train", "--config", kConfig, "--device", "gpu"},
       "--device: device.type: gpu is not one of cpu, cuda, auto"},
      {{"train", "--config", kConfig, "--set", "lr"}, "--set: lr is not an assignment"},
      {{"train", "--config", kConfig, "--set", "train.lrr=1"}, "--set: train.lrr: unknown key"},
      {{"train", "--config", kConfig, "--config", kConfig}, "--config"},
      {{"corun", "--budget", "1GB"}, "corun: JOB is required"},
      {{"corun", kConfig, "--budget", "1GB"}, "corun: one job is not enough; give two or more"},
      {{"corun", kConfig, kConfig}, "corun: --budget is required"},
      {{"corun", kConfig, kConfig, "--budget", "much"}, "--budget: much is not a size"},
      {{"corun", kConfig, "nmt_smal", "--budget", "1GB"},
       "corun: job 2: there is no file 'nmt_smal' and no configuration of that name; did you mean"},
      {{"corun", kConfig, kConfig, "--budget", "1GB", "--mode", "shar"},
       "--mode: 'shar' is not one of "},
      {{"corun", kConfig, kConfig, "--budget", "1GB", "--set", "3:train.lr=1"},
       "--set: 3:train.lr=1: there is no job 3; the jobs are 1 to 2"},
      {{"corun", kConfig, kConfig, "--budget", "1GB", "--set", "0:train.lr=1"},
       "there is no job 0"},
      {{"corun", kConfig, kConfig, "--budget", "1GB", "--set", "2:train.lrr=1"},
       "--set: train.lrr: unknown key"},
      {{"corun", kConfig, kConfig, "--budget", "1GB", "--set", "2:lr"}, "lr is not an assignment"},
      {{"plan", "--config", kConfig, "--bucket", "20"}, "--bucket: '20' is not two lengths"},
      {{"plan", "--config", kConfig, "--bucket", "20,x"}, "--bucket: '20,x' is not two lengths"},
      {{"plan", "--config", kConfig, "--bucket", "0,3"}, "--bucket: '0,3' is not two lengths"},
      {{"plan", "--config", kConfig, "--budget", "much"}, "--budget: memory.budget: much is not"},
      {{"translate"}, "translate: --model is required"},
      {{"eval", "--model", "m", "--part", "train"}, "--part: 'train' is not one of valid, test"},
      {{"eval", "--model", "m", "--source", "s"}, "--source requires --reference"},
      {{"eval", "--model", "m", "--reference", "s"}, "--reference requires --source"},
      {{"train", "plan"}, "plan"},
  };
  for (const Case& c : cases) {
    std::string error = refusal_of(c.args);
    EXPECT_NE(error.find(c.part), std::string::npos)
        << "expected: " << c.part << "\n     got: " << error;
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  }
}

}  // namespace
}  // namespace pal
