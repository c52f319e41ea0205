// Twenty steps of the translator under every way to recompute: the same losses and weights, bit for
// bit, from whole runs of the program.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <tuple>

#include "tests/support/files.h"

namespace pal {
namespace {

namespace fs = std::filesystem;

class RecomputeRunTest : public testing::Test {
 protected:
  // A model of this width; matrix products are compute-heavy from about 96 on.
  void config(int width, int batch) {
    const std::string w = std::to_string(width);
    std::ofstream(dir_ / "tiny.yaml")
        << "model: {type: nmt, hidden: " << w << ", embedding: " << w << ", attention_size: " << w
        << ", encoder_layers: 2,\n  decoder_layers: 2, dropout: 0.2}\n"
           "data: {synthetic: true, source_vocab_size: 60, target_vocab_size: 50, max_length: 10}\n"
           "train: {batch_size: "
        << batch
        << ", steps: 20, lr: 0.01, clip_value: 1.0,\n"
           "  save_every: 1000, valid_every: 1000, log_every: 1}\n"
           "device: {threads: 1}\n";
  }

  std::string pal(const std::string& args) {
    const std::string command =
        "cd '" + dir_.string() + "' && '" PAL_BINARY "' " + args + " > out.txt 2> err.txt";
    const int status = std::system(command.c_str());
    EXPECT_EQ(WEXITSTATUS(status), 0) << args << "\n" << read_file(dir_ / "err.txt");
    return read_file(dir_ / "out.txt");
  }

  // The losses of every step, and the state at the end.
  std::string train(const std::string& sets) {
    const fs::path run = dir_ / "run";
    fs::remove_all(run);
    pal("train --config tiny.yaml --out run" + sets);
    std::string result;
    std::ifstream in(run / "metrics.jsonl");
    for (std::string line; std::getline(in, line);) {
      const auto row = nlohmann::json::parse(line);
      if (row["event"] != "step") continue;
      result += row["loss"].dump() + " " + row["grad_norm"].dump() + "\n";
    }
    return result + read_file(run / "last.safetensors");
  }

  int64_t bytes(const std::string& sets) {
    return nlohmann::json::parse(pal("plan --config tiny.yaml --json" + sets))["bytes"]["total"];
  }

  const TemporaryFolder folder_;
  const fs::path dir_ = folder_.path();
};

const char* const kMethods[] = {"mirror", "sqrt", "echo"};

class RecomputeBitsTest : public RecomputeRunTest,
                          public testing::WithParamInterface<std::tuple<const char*, const char*>> {
};

TEST_P(RecomputeBitsTest, AreTheSame) {
  config(16, 16);
  const auto [method, fused] = GetParam();
  const std::string model = std::string(" --set model.fused=") + fused;
  const std::string plain = train(model);
  EXPECT_GE(std::count(plain.begin(), plain.end(), '\n'), 20);
  for (const char* inplace : {"true", "false"}) {
    for (const char* schedule : {"lifetime", "program"}) {
      const std::string sets =
          std::string(" --set memory.recompute=") + method + " --set memory.inplace=" + inplace +
          " --set memory.schedule=" + schedule +
          // Both ways of each, in half of the runs.
          " --set memory.fuse_recompute=" +
          (std::string(inplace) == "true" ? schedule[0] == 'l' ? "true" : "false"
           : schedule[0] == 'l'           ? "false"
                                          : "true");
      EXPECT_TRUE(train(model + sets) == plain) << model << sets;
    }
  }
  EXPECT_FALSE(train(model + " --set train.seed=2") == plain);
}

INSTANTIATE_TEST_SUITE_P(Methods, RecomputeBitsTest,
                         testing::Combine(testing::ValuesIn(kMethods),
                                          testing::Values("true", "false")),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param)) +
                                  (std::get<1>(test.param)[0] == 't' ? "_fused" : "_unfused");
                         });

TEST_F(RecomputeRunTest, EchoSavesWhereProductsAreHeavy) {
  config(128, 64);
  for (const char* fused : {"true", "false"}) {
    const std::string model = std::string(" --set model.fused=") + fused;
    const int64_t without = bytes(model);
    EXPECT_LT(bytes(model + " --set memory.recompute=echo"), without) << fused;
    for (const char* method : kMethods) {
      EXPECT_LE(bytes(model + " --set memory.recompute=" + method), without) << method;
    }
    const std::string plain = train(model + " --steps 6");
    EXPECT_TRUE(train(model + " --steps 6 --set memory.recompute=echo") == plain) << fused;
  }
}

}  // namespace
}  // namespace pal
