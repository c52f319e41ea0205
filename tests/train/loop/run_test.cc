// Whole runs of the program itself: started, killed, resumed, interrupted, and refused.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <thread>

#include "tests/support/files.h"
#include "train/config/config.h"

namespace pal {
namespace {

namespace fs = std::filesystem;

struct Result {
  int status = 0;  // exit code, or -signal
  std::string out, err;
};

class RunTest : public testing::Test {
 protected:
  RunTest() {
    std::ofstream(dir_ / "tiny.yaml")
        << "model: {type: nmt, hidden: 16, embedding: 12, attention_size: 8, encoder_layers: 1,\n"
           "  decoder_layers: 1, dropout: 0.2}\n"
           "data: {synthetic: true, source_vocab_size: 60, target_vocab_size: 50, max_length: 20}\n"
           "train: {batch_size: 16, steps: 40, lr: 0.01, clip_value: 1.0, save_every: 1,\n"
           "  valid_every: 1000, log_every: 1}\n"
           "device: {threads: 1}\n";
  }

  // Starts the program; `after`, when not negative, kills it so many milliseconds later.
  Result pal(std::vector<std::string> args, int signal = 0, int after_ms = -1) {
    args.insert(args.begin(), PAL_BINARY);
    std::vector<char*> argv;
    for (auto& a : args) argv.push_back(a.data());
    argv.push_back(nullptr);
    const fs::path out = dir_ / "stdout.txt", err = dir_ / "stderr.txt";
    const pid_t child = fork();
    if (child == 0) {
      dup2(open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 1);
      dup2(open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 2);
      if (chdir(dir_.c_str()) != 0) _exit(99);
      // Threads that wait by spinning are most of such a small training, beside another program.
      setenv("OMP_WAIT_POLICY", "passive", 0);
      if (file_limit_ > 0) {
        const rlimit limit{rlim_t(file_limit_), rlim_t(file_limit_)};
        ::signal(SIGXFSZ, SIG_IGN);  // so that a write beyond it fails, as on a full disk
        if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(99);
      }
      execv(PAL_BINARY, argv.data());
      _exit(99);
    }
    if (after_ms >= 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(after_ms));
      kill(child, signal);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), read_file(out),
            read_file(err)};
  }

  // The step rows, without what depends on the clock.
  std::vector<std::string> steps(const fs::path& run) {
    std::vector<std::string> rows;
    std::ifstream in(run / "metrics.jsonl");
    for (std::string line; std::getline(in, line);) {
      auto row = nlohmann::json::parse(line);
      if (row["event"] != "step") continue;
      for (const char* timed : {"samples_per_s", "tokens_per_s", "step_ms"}) row.erase(timed);
      row.erase("process_peak_bytes");  // depends on the machine
      row.erase("arena_bytes");         // grows when a bucket is first met, in whichever session
      rows.push_back(row.dump());
    }
    return rows;
  }

  const TemporaryFolder folder_;
  const fs::path dir_ = folder_.path();
  int64_t file_limit_ = 0;  // bytes that any file of the next program may have; 0: no limit
};

TEST_F(RunTest, KilledAtAnyMomentItResumesToTheSameBits) {
  const char* asked = std::getenv("PAL_TEST_KILLS");
  const int kills = asked ? std::max(1, std::atoi(asked)) : 25;
  // Many more than the kills let it take: the machine may be faster then than when it was timed.
  const int many = 15 * kills;
  const std::string steps_in_all = std::to_string(many);
  auto timed = [&](const std::string& name, const std::string& steps) {
    const auto begin = std::chrono::steady_clock::now();
    const Result r = pal({"train", "--config", "tiny.yaml", "--out", name, "--steps", steps});
    EXPECT_EQ(r.status, 0) << r.err;
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
        .count();
  };
  const double start_ms = timed("short", "1");
  const double whole_ms = timed("whole", steps_in_all);
  const double step_ms = std::max(1.0, (whole_ms - start_ms) / many);
  // At random moments from the program's start to a few steps after it is up.
  std::mt19937 random(7);
  std::uniform_real_distribution<double> moment(0.02 * start_ms, start_ms + 6 * step_ms);
  int killed = 0;
  Result last{.status = -SIGKILL, .out = "", .err = ""};
  while (last.status == -SIGKILL) {
    std::vector<std::string> args{"train",  "--config", "tiny.yaml", "--out",
                                  "killed", "--steps",  steps_in_all};
    if (fs::exists(dir_ / "killed/config.yaml")) args.push_back("--resume");
    last = pal(args, SIGKILL, killed < kills ? int(moment(random)) : -1);
    killed += last.status == -SIGKILL;
  }
  ASSERT_EQ(last.status, 0) << last.err;
  EXPECT_GT(killed, kills / 2);
  std::printf("killed %d times\n", killed);
  EXPECT_TRUE(read_file(dir_ / "whole/last.safetensors") ==
              read_file(dir_ / "killed/last.safetensors"));
  EXPECT_EQ(steps(dir_ / "whole"), steps(dir_ / "killed"));
}

TEST_F(RunTest, AFullDiskLeavesThePreviousCheckpointWhole) {
  ASSERT_EQ(pal({"train", "--config", "tiny.yaml", "--out", "whole", "--steps", "12"}).status, 0);
  ASSERT_EQ(pal({"train", "--config", "tiny.yaml", "--out", "full", "--steps", "7"}).status, 0);
  const fs::path checkpoint = dir_ / "full/last.safetensors";
  const std::string before = read_file(checkpoint);
  // No file may grow beyond half a checkpoint: rows can still be written, weights cannot.
  file_limit_ = int64_t(before.size() / 2);
  const Result full = pal({"train", "--resume", "--out", "full", "--steps", "12"});
  file_limit_ = 0;
  EXPECT_EQ(full.status, 1) << full.err;
  EXPECT_NE(full.err.find("the previous file, if any, is untouched"), std::string::npos)
      << full.err;
  EXPECT_TRUE(read_file(checkpoint) == before);
  EXPECT_FALSE(fs::exists(checkpoint.string() + ".tmp"));
  const Result after = pal({"train", "--resume", "--out", "full", "--steps", "12"});
  ASSERT_EQ(after.status, 0) << after.err;
  EXPECT_TRUE(read_file(dir_ / "whole/last.safetensors") == read_file(checkpoint));
  EXPECT_EQ(steps(dir_ / "whole"), steps(dir_ / "full"));
}

TEST_F(RunTest, SigtermSavesAndExits130) {
  Result r;
  for (int wait = 300; wait < 20000; wait *= 2) {  // long enough to have begun
    fs::remove_all(dir_ / "run");
    r = pal({"train", "--config", "tiny.yaml", "--out", "run", "--steps", "100000", "--set",
             "train.save_every=1000000"},
            SIGTERM, wait);
    if (r.status == 130) break;
  }
  ASSERT_EQ(r.status, 130) << r.err;
  EXPECT_NE(r.err.find("--resume"), std::string::npos) << r.err;
  const int64_t step = nlohmann::json::parse(steps(dir_ / "run").back())["step"];
  const std::string to = std::to_string(step + 3);
  r = pal({"train", "--resume", "--out", "run", "--steps", to});
  ASSERT_EQ(r.status, 0) << r.err;
  ASSERT_EQ(pal({"train", "--config", "tiny.yaml", "--out", "whole", "--steps", to, "--set",
                 "train.save_every=1000000"})
                .status,
            0);
  EXPECT_TRUE(read_file(dir_ / "whole/last.safetensors") ==
              read_file(dir_ / "run/last.safetensors"));
}

// Every other value of the section memory's switches and choices that this version has and that is
// declared to leave results as they are, as --set takes it.
std::vector<std::string> lossless_memory_options() {
  std::vector<std::string> sets;
  const MemoryConfig memory;
  for (const AnyOption* option : memory.options()) {
    const std::string key = "memory." + option->name, now = yaml_text(option->value());
    std::vector<std::string> values = option->rules.choices;
    if (std::holds_alternative<bool>(option->value())) values = {"true", "false"};
    for (const Available& there_is : available_values()) {
      if (there_is.key == key) values = there_is.values;
    }
    const auto& lossy = option->rules.lossy;
    if (lossy == option->rules.choices && !lossy.empty()) continue;  // all of its values round
    EXPECT_NE(option->rules.effect, Effect::results) << key;
    const bool list = std::holds_alternative<std::vector<std::string>>(option->value());
    for (const std::string& value : values) {
      if (value == now || std::find(lossy.begin(), lossy.end(), value) != lossy.end()) continue;
      sets.push_back(key + "=" + (list ? "[" + value + "]" : value));
    }
  }
  return sets;
}

TEST_F(RunTest, LosslessMemoryOptionsAndThreadsLeaveTheSameBits) {
  auto weights = [&](const std::string& name, std::vector<std::string> sets) {
    std::vector<std::string> args{"train", "--config", "tiny.yaml", "--steps", "12", "--out", name};
    for (auto& s : sets) args.insert(args.end(), {"--set", s});
    const Result r = pal(args);
    EXPECT_EQ(r.status, 0) << r.err;
    return read_file(dir_ / name / "last.safetensors");
  };
  const std::string plain = weights("a", {});
  EXPECT_GT(plain.size(), 1000u);
  EXPECT_TRUE(plain == weights("b", {"device.threads=2"}));
  EXPECT_FALSE(plain == weights("c", {"train.seed=2"}));
  int tried = 0;
  for (const std::string& set : lossless_memory_options()) {
    std::vector<std::string> sets{set};
    if (set.starts_with("memory.manager=")) sets.push_back("memory.budget=1GB");
    EXPECT_TRUE(plain == weights("d" + std::to_string(tried++), sets)) << set;
  }
  EXPECT_GE(tried, 9);
  EXPECT_FALSE(plain == weights("e", {"memory.encode=[dpr_fp8]"}));
}

TEST_F(RunTest, AccumulationLearnsAndResumes) {
  auto run = [&](std::vector<std::string> more) {
    std::vector<std::string> args{"train",
                                  "--config",
                                  "tiny.yaml",
                                  "--set",
                                  "train.accumulate=3",
                                  "--set",
                                  "train.clip_value=null",
                                  "--set",
                                  "train.clip_norm=1.0"};
    args.insert(args.end(), more.begin(), more.end());
    const Result r = pal(args);
    EXPECT_EQ(r.status, 0) << r.err;
  };
  run({"--out", "whole", "--steps", "8"});
  run({"--out", "parts", "--steps", "5"});
  run({"--out", "parts", "--steps", "8", "--resume"});
  EXPECT_TRUE(read_file(dir_ / "whole/last.safetensors") ==
              read_file(dir_ / "parts/last.safetensors"));
  auto rows = steps(dir_ / "whole");
  EXPECT_LT(nlohmann::json::parse(rows.back())["loss"], nlohmann::json::parse(rows[0])["loss"]);
}

TEST_F(RunTest, SparseMapsLeaveTheSameBits) {
  std::ofstream(dir_ / "images.yaml")
      << "model: {type: resnet, family: cifar, depth: 8, version: v1.5}\n"
         "data: {root: " PAL_SOURCE_DIR
         "/data/samples/fashion_mnist_small, format: idx,\n"
         "  train: [train-images-idx3-ubyte.gz], valid_count: 200, channels: 1, image_size: 28,\n"
         "  test: [t10k-images-idx3-ubyte.gz], crop: pad, crop_pad: 2, flip: true,\n"
         "  mean: [0.286], std: [0.353]}\n"
         "train: {batch_size: 8, accumulate: 2, lr: 0.05, seed: 1, valid_every: 1000}\n"
         "device: {threads: 1}\n";
  auto train = [&](const std::string& out, const std::string& to, std::vector<std::string> more) {
    std::vector<std::string> args{"train", "--config", "images.yaml", "--out", out, "--steps", to};
    args.insert(args.end(), more.begin(), more.end());
    const Result r = pal(args);
    EXPECT_EQ(r.status, 0) << r.err;
    return r;
  };
  const std::vector<std::string> sparse{"--set", "memory.encode=[ssdc]",
                                        "--set", "memory.ssdc_observe=2",
                                        "--set", "memory.ssdc_margin=1"};
  train("dense", "24", {});
  train("sparse", "24", sparse);
  train("parts", "9", sparse);
  train("parts", "24", {"--resume"});
  const std::string weights = read_file(dir_ / "dense/last.safetensors");
  EXPECT_TRUE(weights == read_file(dir_ / "sparse/last.safetensors"));
  EXPECT_TRUE(weights == read_file(dir_ / "parts/last.safetensors"));
  int counted = 0, sparse_maps = 0, overflows = 0;
  std::ifstream in(dir_ / "sparse/metrics.jsonl");
  for (std::string line; std::getline(in, line);) {
    const auto row = nlohmann::json::parse(line);
    overflows += row["event"] == "overflow";
    if (row["event"] != "density") continue;
    for (const auto& map : row["maps"]) ++counted, sparse_maps += map.contains("capacity");
  }
  EXPECT_GT(counted, 0);
  EXPECT_GT(sparse_maps, 0);
  EXPECT_GT(overflows, 0) << "with no margin, some step has more nonzeros than those before";
  const std::string page = read_file(dir_ / "sparse/report.html");
  EXPECT_NE(page.find("Sparse maps, train/28x28/last: "), std::string::npos);
  EXPECT_NE(page.find(" maps are kept sparse since run "), std::string::npos);

  const Result planned =
      pal({"plan", "--config", "sparse/config.yaml", "--density", "sparse", "--json"});
  ASSERT_EQ(planned.status, 0) << planned.err;
  const auto encodings = nlohmann::json::parse(planned.out)["encodings"];
  EXPECT_GT(encodings["densities"]["maps"], 3) << encodings;
  EXPECT_GT(encodings["by_form"].size(), 1u) << encodings;

  const Result r = pal({"train", "--config", "images.yaml", "--out", "small", "--steps", "3",
                        "--set", "memory.encode=[ssdc]", "--set", "memory.budget=1MB"});
  EXPECT_EQ(r.status, 3);
  EXPECT_NE(r.err.find("falls back on"), std::string::npos) << r.err;
  EXPECT_FALSE(fs::exists(dir_ / "small"));
}

TEST_F(RunTest, FormatsAreProbedForATrainedModel) {
  std::ofstream(dir_ / "images.yaml")
      << "model: {type: resnet, family: cifar, depth: 8, version: v1.5}\n"
         "data: {root: " PAL_SOURCE_DIR
         "/data/samples/fashion_mnist_small, format: idx,\n"
         "  train: [train-images-idx3-ubyte.gz], valid_count: 200, channels: 1, image_size: 28,\n"
         "  test: [t10k-images-idx3-ubyte.gz], crop: pad, crop_pad: 2, flip: true,\n"
         "  mean: [0.286], std: [0.353]}\n"
         "train: {batch_size: 8, lr: 0.05, seed: 1, valid_every: 1000}\n"
         "device: {threads: 1}\n";
  ASSERT_EQ(pal({"train", "--config", "images.yaml", "--out", "run", "--steps", "6"}).status, 0);
  const std::string weights = read_file(dir_ / "run/last.safetensors");
  auto probe = [&](std::vector<std::string> more) {
    std::vector<std::string> args{"plan", "--probe-precision", "run"};
    args.insert(args.end(), more.begin(), more.end());
    return pal(args);
  };
  Result r = probe({"--json", "--probe-error", "0.03"});
  ASSERT_EQ(r.status, 0) << r.err;
  const auto json = nlohmann::ordered_json::parse(r.out);
  EXPECT_EQ(json["batches"], 3);
  ASSERT_GT(json["maps"].size(), 5u);
  for (const auto& map : json["maps"]) {
    const auto& error = map["error"];
    EXPECT_GT(error["fp16"], 0) << map;
    EXPECT_LT(error["fp16"], error["fp10"]) << map;
    EXPECT_LT(error["fp10"], 1) << map;
    EXPECT_LT(error["fp16"], 0.01) << map << ": eleven bits";
  }
  // Each format is the smallest that does, by the errors that were printed.
  ASSERT_GT(json["dpr_layers"].size(), 2u);
  std::string line;
  for (const auto& [scope, format] : json["dpr_layers"].items()) {
    line += (line.empty() ? "" : ", ") + scope + ": " + format.get<std::string>();
    for (const auto& map : json["maps"]) {
      if (map["scope"] != scope) continue;
      EXPECT_LE(map["error"][format.get<std::string>()], 0.03) << map;
    }
  }
  r = pal({"plan", "--config", "run/config.yaml", "--set", "memory.dpr_layers={" + line + "}",
           "--json"});
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_GT(nlohmann::json::parse(r.out)["encodings"]["by_form"].size(), 1u);

  r = probe({"--probe-error", "0.03"});
  EXPECT_NE(r.out.find("memory.dpr_layers: {" + line + "}"), std::string::npos) << r.out << line;
  EXPECT_NE(r.err.find("probing "), std::string::npos) << r.err;
  EXPECT_EQ(read_file(dir_ / "run/last.safetensors"), weights);

  r = probe({"--probe-error", "0"});
  EXPECT_EQ(r.status, 2);
  EXPECT_NE(r.err.find("--probe-error: 0 is not a positive number"), std::string::npos) << r.err;
  r = pal({"plan", "--probe-precision", "nowhere"});
  EXPECT_EQ(r.status, 2);
  EXPECT_NE(r.err.find("nowhere"), std::string::npos) << r.err;
}

// A run with rounded values goes on only where the plan rounds the same ones.
TEST_F(RunTest, RoundedValuesStayTheSameWhenARunIsResumed) {
  auto train = [&](const std::string& out, const std::string& to) {
    return pal({"train", "--config", "tiny.yaml", "--out", out, "--steps", to, "--resume", "--set",
                "memory.encode=[dpr_fp8]"});
  };
  ASSERT_EQ(pal({"train", "--config", "tiny.yaml", "--out", "whole", "--steps", "8", "--set",
                 "memory.encode=[dpr_fp8]"})
                .status,
            0);
  ASSERT_EQ(pal({"train", "--config", "tiny.yaml", "--out", "parts", "--steps", "5", "--set",
                 "memory.encode=[dpr_fp8]"})
                .status,
            0);
  const fs::path checkpoint = dir_ / "parts/last.safetensors";
  std::string held = read_file(checkpoint);
  Result r = train("parts", "8");
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_TRUE(read_file(dir_ / "whole/last.safetensors") == read_file(checkpoint));

  // As if it had begun on a machine whose plan rounds other values.
  const size_t at = held.find("rounded");
  ASSERT_NE(at, std::string::npos);
  const size_t digits =
      held.find_first_of("0123456789abcdef", held.find(':', held.find(':', at) + 1));
  held[digits] = held[digits] == '0' ? '1' : '0';
  std::ofstream(checkpoint, std::ios::binary) << held;
  r = train("parts", "12");
  EXPECT_EQ(r.status, 2);
  EXPECT_NE(r.err.find("last.safetensors"), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("rounded"), std::string::npos) << r.err;
  EXPECT_TRUE(read_file(checkpoint) == held);
}

TEST_F(RunTest, BadInputIsOneClearLineAndExit2) {
  std::ofstream(dir_ / "a.en") << "one\ntwo\n";
  std::ofstream(dir_ / "b.vi") << "eins\n";
  std::ofstream(dir_ / "bad.vi") << "eins\nzw\xff"
                                    "ei\n";
  const std::string files = "data.synthetic=false";
  struct Case {
    std::vector<std::string> sets;
    std::string says;
  };
  const std::vector<Case> cases{
      {{"train.batchsize=3"}, "did you mean train.batch_size"},
      {{"train.batch_size=many"}, "train.batch_size"},
      {{files, "data.root=nowhere"}, "nowhere"},
      {{files, "data.train_source=a.en", "data.train_target=b.vi"}, "b.vi"},
      {{files, "data.train_source=a.en", "data.train_target=bad.vi"},
       "bad.vi (data.train_target): line 2"},
      {{"memory.manager=delta"}, "memory.manager"},
      {{"device.type=cuda"}, "device"},
  };
  for (const Case& c : cases) {
    std::vector<std::string> args{"train", "--config", "tiny.yaml", "--out", "bad"};
    for (auto& s : c.sets) args.insert(args.end(), {"--set", s});
    const Result r = pal(args);
    EXPECT_EQ(r.status, 2) << c.says;
    EXPECT_NE(r.err.find(c.says), std::string::npos) << r.err;
    EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
    EXPECT_EQ(r.out, "");
    EXPECT_FALSE(fs::exists(dir_ / "bad"));
  }
}

TEST_F(RunTest, ARunIsNotOverwrittenAndOnlyResumedAsItWas) {
  ASSERT_EQ(pal({"train", "--config", "tiny.yaml", "--steps", "2", "--out", "run"}).status, 0);
  const std::string before = read_file(dir_ / "run/last.safetensors");
  Result r = pal({"train", "--config", "tiny.yaml", "--steps", "3", "--out", "run"});
  EXPECT_EQ(r.status, 2);
  EXPECT_NE(r.err.find("--resume"), std::string::npos) << r.err;
  r = pal({"train", "--config", "tiny.yaml", "--steps", "3", "--out", "run", "--resume", "--set",
           "train.lr=0.5"});
  EXPECT_EQ(r.status, 2);
  EXPECT_NE(r.err.find("train.lr"), std::string::npos) << r.err;
  EXPECT_TRUE(before == read_file(dir_ / "run/last.safetensors"));

  // Where validations steer the learning rate, how often they come alters results too.
  ASSERT_EQ(pal({"train", "--config", "tiny.yaml", "--steps", "2", "--out", "steered", "--set",
                 "train.schedule=plateau"})
                .status,
            0);
  r = pal(
      {"train", "--steps", "3", "--out", "steered", "--resume", "--set", "train.valid_every=1"});
  EXPECT_EQ(r.status, 2);
  EXPECT_NE(r.err.find("train.valid_every"), std::string::npos) << r.err;
  EXPECT_EQ(
      pal({"train", "--steps", "3", "--out", "run", "--resume", "--set", "train.valid_every=1"})
          .status,
      0);

  std::ofstream(dir_ / "run/last.safetensors", std::ios::binary) << before.substr(0, 500);
  r = pal({"train", "--steps", "3", "--out", "run", "--resume"});
  EXPECT_EQ(r.status, 2);
  EXPECT_NE(r.err.find("last.safetensors"), std::string::npos) << r.err;
}

TEST_F(RunTest, ARunStoppedBeforeItsFirstCheckpointStartsAgain) {
  Result r = pal({"train", "--config", "tiny.yaml", "--steps", "2", "--out", "run", "--resume"});
  EXPECT_EQ(r.status, 2);
  EXPECT_NE(r.err.find("holds no run"), std::string::npos) << r.err;
  ASSERT_EQ(pal({"train", "--config", "tiny.yaml", "--steps", "2", "--out", "run"}).status, 0);
  const std::string whole = read_file(dir_ / "run/last.safetensors");
  fs::remove(dir_ / "run/last.safetensors");
  r = pal({"train", "--config", "tiny.yaml", "--steps", "2", "--out", "run", "--resume"});
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_TRUE(whole == read_file(dir_ / "run/last.safetensors"));
}

TEST_F(RunTest, ATooSmallBudgetExits3AndSaysByHowMuch) {
  const Result r = pal({"plan", "--config", "tiny.yaml", "--budget", "10KiB"});
  EXPECT_EQ(r.status, 3);
  EXPECT_NE(r.err.find("over the budget"), std::string::npos) << r.err;
}

TEST_F(RunTest, PlanPrintsOneObject) {
  const Result r = pal({"plan", "--config", "tiny.yaml", "--json"});
  ASSERT_EQ(r.status, 0) << r.err;
  const auto plan = nlohmann::json::parse(r.out);
  EXPECT_GE(plan["bytes"]["arena"], plan["bytes"]["lower_bound"]);
  EXPECT_GT(plan["baselines"]["framework"], plan["baselines"]["ours"]);
  EXPECT_GT(plan["program"]["nodes"], 100);
}

TEST_F(RunTest, ANaNStopsTheRunAndNamesTheNode) {
  const Result r =
      pal({"train", "--config", "tiny.yaml", "--out", "run", "--set", "train.lr=1000", "--set",
           "train.optimizer=sgd", "--set", "train.weight_decay=1000", "--steps", "400"});
  EXPECT_EQ(r.status, 1);
  EXPECT_NE(r.err.find("at node"), std::string::npos) << r.err;
}

}  // namespace
}  // namespace pal
