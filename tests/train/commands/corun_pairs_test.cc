// Pairs of small models in one memory: every mode, budgets from what turns need to what both need
// side by side, ended and begun again after a kill at any moment: losses, weights and optimizer
// state are those of each alone, bit for bit. A few combinations by chance;
// PAL_TEST_CORUN=N: N of them for each pair, of 44 in all.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "tests/train/loop/whole_runs.h"

namespace pal {
namespace {

struct Pair {
  const char *name, *first, *second, *sets;
};
const Pair kPairs[] = {
    {"resnet_zoo", "resnet_small", "zoo_small",
     "--set 1:train.batch_size=16 --set 2:train.batch_size=8"},
    {"bert_resnet", "bert_small", "resnet_small",
     "--set 1:train.batch_size=4 --set 2:train.batch_size=16"},
    {"bert_bert", "bert_small", "bert_small",
     "--set 1:train.batch_size=4 --set 2:train.batch_size=8 --set 2:train.seed=3"},
    {"nmt_zoo", "nmt_small", "zoo_small", "--set train.batch_size=8 --set 1:data.max_length=12"},
    {"transformer_deepspeech2", "transformer_small", "deepspeech2_small",
     "--set 1:train.batch_size=8 --set 1:data.max_length=12 --set 2:train.batch_size=2"},
};
constexpr int kPlainPairs = 3;  // of which the plain run tries some

struct Way {
  std::string mode;
  int quarter = 0;  // of what lies between the least and the most
  bool killed = false;
};

std::vector<Way> ways() {
  std::vector<Way> all;
  for (const bool killed : {false, true}) {
    for (const char* mode : {"auto", "shared", "turns", "minutes", "zico"}) {
      for (int quarter = 0; quarter <= 4; ++quarter) {
        if (std::string(mode) == "minutes" && quarter % 4 != 0) continue;
        all.push_back({mode, quarter, killed});
      }
    }
  }
  return all;
}

class CorunPairs : public RunTest, public testing::WithParamInterface<Pair> {
 protected:
  RunResult run(const std::string& words, int after_ms = -1) {
    std::istringstream all(words);
    return pal({std::istream_iterator<std::string>(all), {}}, SIGKILL, after_ms);
  }
  std::string corun(const Way& way, int64_t budget) const {
    return std::string("corun ") + GetParam().first + " " + GetParam().second + " " +
           GetParam().sets + " --set device.threads=1 --set train.log_every=1" +
           " --set train.save_every=2 --steps 6 --mode " +
           (way.mode == "zico" ? "shared --scheduler zico" : way.mode) +
           (way.mode == std::string("minutes") ? " --minutes 0.005" : "") + " --budget " +
           std::to_string(budget);
  }
  int64_t bytes(const std::string& mode) {
    const RunResult r = run(corun({mode}, int64_t(1) << 40) + " --dry-run --json --out dry");
    EXPECT_EQ(r.status, 0) << r.err;
    return nlohmann::json::parse(r.out)["memory"]["bytes"];
  }
  // The losses of the steps, and all the state at the end.
  std::string bits(const fs::path& folder) {
    std::string all;
    for (const std::string& row : steps(folder)) {
      const nlohmann::json step = nlohmann::json::parse(row);
      all += step["step"].dump() + " " + step["loss"].dump() + "\n";
    }
    EXPECT_EQ(std::count(all.begin(), all.end(), '\n'), 6) << folder;
    return all + read_file(folder / "last.safetensors");
  }
  // What a job has alone: one job's part of an unshared run would not show what both do to it.
  std::string alone(int job) {
    const std::string number = std::to_string(job), name = "alone" + number;
    std::string sets, word;
    std::istringstream all(GetParam().sets);
    while (all >> word) {
      if (word == "--set") continue;
      if (word[1] != ':') sets += " --set " + word;
      if (word.starts_with(number + ":")) sets += " --set " + word.substr(2);
    }
    const RunResult r =
        run(std::string("train --config ") + (job == 1 ? GetParam().first : GetParam().second) +
            sets + " --set device.threads=1 --set train.log_every=1 --steps 6 --out " + name);
    EXPECT_EQ(r.status, 0) << r.err;
    return bits(dir_ / name);
  }
};

TEST_P(CorunPairs, HaveTheBitsOfEachAlone) {
  const char* asked = std::getenv("PAL_TEST_CORUN");
  const bool in_plain_run = std::any_of(kPairs, kPairs + kPlainPairs, [](const Pair& pair) {
    return pair.name == std::string(GetParam().name);
  });
  if (!asked && !in_plain_run) GTEST_SKIP() << "PAL_TEST_CORUN=N tries this pair too";
  const std::string expected[] = {alone(1), alone(2)};
  const int64_t least = bytes("turns"), most = bytes("unshared");
  ASSERT_LT(least, most);
  std::vector<Way> some = ways();
  std::mt19937 random(uint32_t(std::hash<std::string>()(GetParam().name)));
  std::shuffle(some.begin(), some.end(), random);
  some.resize(std::min<size_t>(some.size(), asked ? size_t(std::atoi(asked)) : 2));
  int refused = 0, kills = 0;
  for (const Way& way : some) {
    const std::string said =
        way.mode + " at " + std::to_string(way.quarter) + "/4" + (way.killed ? ", killed" : "");
    const std::string words =
        corun(way, least + (most - least) * way.quarter / 4) + " --out run --json";
    fs::remove_all(dir_ / "run");
    const auto begin = std::chrono::steady_clock::now();
    RunResult r = run(words);
    const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::steady_clock::now() - begin);
    if (r.status == 3 && (way.mode == "shared" || way.mode == "zico")) {
      ++refused;
      EXPECT_FALSE(fs::exists(dir_ / "run"));
      continue;
    }
    for (int kill = 0; way.killed && kill < 3; ++kill) {
      if (kill == 0) fs::remove_all(dir_ / "run");
      const bool begun = fs::exists(dir_ / "run/1/config.yaml");
      const int at = std::uniform_int_distribution<int>(10, int(took.count()))(random);
      r = run(words + (begun ? " --resume" : ""), at);
      if (r.status == -SIGKILL) ++kills;
    }
    if (way.killed) {
      const bool begun = fs::exists(dir_ / "run/1/config.yaml");
      if (!begun) fs::remove_all(dir_ / "run");
      r = run(words + (begun ? " --resume" : ""));
    }
    ASSERT_EQ(r.status, 0) << said << "\n" << r.err;
    for (int job = 1; job <= 2; ++job) {
      EXPECT_TRUE(bits(dir_ / "run" / std::to_string(job)) == expected[job - 1])
          << said << ", job " << job;
    }
  }
  EXPECT_LT(refused, int(some.size())) << "none of the ways was run";
  std::cerr << GetParam().name << ": " << some.size() << " ways, " << refused << " refused, "
            << kills << " kills\n";
}

INSTANTIATE_TEST_SUITE_P(All, CorunPairs, testing::ValuesIn(kPairs),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace pal
