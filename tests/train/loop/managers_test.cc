// Five steps of every small model with its maps swapped, or under a dynamic manager: the losses and
// weights of the plan that keeps everything where it is, bit for bit. A few combinations of
// options, by chance; PAL_TEST_MANAGED=N: N of them for each model, of 460 in all.
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>
#include <regex>
#include <sstream>

#include "tests/train/loop/whole_runs.h"

namespace pal {
namespace {

// Ways to keep less on the device. Budgets are parts of what lies between the least that a manager
// accepts and what the plan takes without.
std::vector<std::string> managed_ways() {
  std::vector<std::string> all;
  for (const char* swap : {"naive", "vdnn", "vdnn --set memory.vdnn=all"}) {
    all.push_back(std::string(" --set memory.swap=") + swap);
  }
  for (int percent = 90; percent >= 30; percent -= 10) {
    const std::string at = " --budget " + std::to_string(percent) + "%";
    all.push_back(at + " --set memory.swap=planned");
    for (const char* filter : {"base", "lru", "greedy"}) {
      all.push_back(at + " --set memory.manager=delta --set memory.filter=" + filter);
    }
    for (const char* heuristic : {"full", "eq", "local", "lru", "size", "msps"}) {
      for (const char* dealloc : {"eager", "banish"}) {
        all.push_back(at + " --set memory.manager=dtr --set memory.dtr=" + heuristic +
                      " --set memory.dealloc=" + dealloc);
      }
    }
  }
  std::vector<std::string> out;
  for (const std::string& way : all) {
    for (const char* inplace : {"true", "false"}) {
      for (const char* method : {"none", "echo"}) {
        out.push_back(way + " --set memory.inplace=" + inplace +
                      " --set memory.recompute=" + method);
      }
    }
  }
  return out;
}

struct Model {
  const char *name, *sets;
};
const Model kModels[] = {
    {"nmt_small", " --set train.batch_size=8 --set model.dropout=0.2"},
    {"transformer_small", " --set train.batch_size=8 --set model.dropout=0.1"},
    {"deepspeech2_small", " --set train.batch_size=2"},
    {"resnet_small", " --set train.batch_size=16"},
    {"zoo_small", " --set train.batch_size=8"},
    {"bert_small", " --set train.batch_size=4"},
};

class ManagedRuns : public RunTest, public testing::WithParamInterface<Model> {
 protected:
  RunResult last_;

  // Words that are parted by spaces.
  std::string run(const std::string& words) {
    std::istringstream all(words + " --config " + GetParam().name + GetParam().sets +
                           " --set device.threads=1");
    last_ = pal({std::istream_iterator<std::string>(all), {}});
    return last_.out;
  }
  // The bytes that a manager cannot do without, rounded up: a refusal names them.
  int64_t least() {
    run("train --out run --set memory.manager=delta --set memory.budget=1");
    EXPECT_EQ(last_.status, 3);
    std::smatch found;
    EXPECT_TRUE(std::regex_search(last_.err, found, std::regex(R"(need \(([0-9.]+) MB\))")))
        << last_.err;
    return found.empty() ? 0 : int64_t((std::stod(found[1]) + 0.06) * 1e6);
  }
  // The losses of the five steps, and the state at the end; "" where the run was refused.
  std::string train(const std::string& sets) {
    fs::remove_all(dir_ / "run");
    run("train --steps 5 --out run --set train.log_every=1" + sets);
    if (last_.status != 0) return "";
    std::string result;
    int steps = 0;
    std::ifstream in(dir_ / "run" / "metrics.jsonl");
    for (std::string line; std::getline(in, line);) {
      const nlohmann::json row = nlohmann::json::parse(line);
      if (row["event"] == "step") result += row["loss"].dump() + "\n", ++steps;
    }
    EXPECT_EQ(steps, 5);
    return result + read_file(dir_ / "run" / "last.safetensors");
  }
};

TEST_P(ManagedRuns, LeaveTheSameBits) {
  const int64_t most = nlohmann::json::parse(run("plan --json"))["bytes"]["total"];
  const int64_t least = this->least();
  ASSERT_LT(least, most);
  const std::string expected = train("");
  ASSERT_EQ(last_.status, 0) << last_.err;
  const char* asked = std::getenv("PAL_TEST_MANAGED");
  std::vector<std::string> some = managed_ways();
  std::shuffle(some.begin(), some.end(),
               std::mt19937(uint32_t(std::hash<std::string>()(GetParam().name))));
  some.resize(std::min<size_t>(some.size(), asked ? size_t(std::atoi(asked)) : 4));
  int refused = 0;
  for (std::string way : some) {
    const size_t at = way.find(" --budget ");
    if (at != std::string::npos) {
      const size_t end = way.find('%');
      const int64_t percent = std::atoi(way.c_str() + at + 10);
      way = " --set memory.budget=" + std::to_string(least + (most - least) * percent / 100) +
            way.substr(end + 1);
    }
    const std::string bits = train(way);
    if (last_.status == 0) {
      EXPECT_TRUE(bits == expected) << way;
      continue;
    }
    ++refused;
    EXPECT_EQ(last_.status, 3) << way << "\n" << last_.err;
    // delta refuses what no order of releases could do, and nothing else.
    const auto asks = [&](const char* what) { return way.find(what) != std::string::npos; };
    const auto says = [&](const char* what) { return last_.err.find(what) != std::string::npos; };
    EXPECT_TRUE(asks("=planned")
                    ? says("over the budget")
                    : says("short of what state") || (asks("=dtr") && says("memory.manager: dtr")))
        << way << "\n"
        << last_.err;
  }
  EXPECT_LT(refused, int(some.size())) << "none of the ways was run";
}

INSTANTIATE_TEST_SUITE_P(All, ManagedRuns, testing::ValuesIn(kModels),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace pal
