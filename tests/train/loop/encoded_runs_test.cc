// Whole runs of the program with encodings: resumed, planned again, and probed.
#include "tests/train/loop/whole_runs.h"
#include "train/run_files/safetensors.h"

namespace pal {
namespace {

class EncodedRun : public RunTest {};

// Small images of clothes.
const char* const kImages =
    "model: {type: resnet, family: cifar, depth: 8, version: v1.5}\n"
    "data: {root: " PAL_SOURCE_DIR
    "/data/samples/fashion_mnist_small, format: idx,\n"
    "  train: [train-images-idx3-ubyte.gz], valid_count: 200, channels: 1, image_size: 28,\n"
    "  test: [t10k-images-idx3-ubyte.gz], crop: pad, crop_pad: 2, flip: true,\n"
    "  mean: [0.286], std: [0.353]}\n"
    "train: {batch_size: 8, lr: 0.05, seed: 1, valid_every: 1000}\n"
    "device: {threads: 1}\n";

TEST_F(EncodedRun, SparseMapsLeaveTheSameBits) {
  std::ofstream(dir_ / "images.yaml") << kImages;
  auto train = [&](const std::string& out, const std::string& to, std::vector<std::string> more) {
    std::vector<std::string> args{"train", "--config", "images.yaml",       "--out", out, "--steps",
                                  to,      "--set",    "train.accumulate=2"};
    args.insert(args.end(), more.begin(), more.end());
    const RunResult r = pal(args);
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

  const RunResult planned =
      pal({"plan", "--config", "sparse/config.yaml", "--density", "sparse", "--json"});
  ASSERT_EQ(planned.status, 0) << planned.err;
  const auto encodings = nlohmann::json::parse(planned.out)["encodings"];
  EXPECT_GT(encodings["densities"]["maps"], 3) << encodings;
  EXPECT_GT(encodings["by_form"].size(), 1u) << encodings;

  const RunResult r = pal({"train", "--config", "images.yaml", "--out", "small", "--steps", "3",
                           "--set", "memory.encode=[ssdc]", "--set", "memory.budget=1MB"});
  EXPECT_EQ(r.status, 3);
  EXPECT_NE(r.err.find("falls back on"), std::string::npos) << r.err;
  EXPECT_FALSE(fs::exists(dir_ / "small"));
}

TEST_F(EncodedRun, FormatsAreProbedForATrainedModel) {
  std::ofstream(dir_ / "images.yaml") << kImages;
  ASSERT_EQ(pal({"train", "--config", "images.yaml", "--out", "run", "--steps", "6"}).status, 0);
  const std::string weights = read_file(dir_ / "run/last.safetensors");
  auto probe = [&](std::vector<std::string> more) {
    std::vector<std::string> args{"plan", "--probe-precision", "run"};
    args.insert(args.end(), more.begin(), more.end());
    return pal(args);
  };
  RunResult r = probe({"--json", "--probe-error", "0.03"});
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
TEST_F(EncodedRun, RoundedValuesStayTheSameWhenARunIsResumed) {
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
  RunResult r = train("parts", "8");
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_TRUE(read_file(dir_ / "whole/last.safetensors") == read_file(checkpoint));

  // As if it had begun on a machine whose plan rounds other values.
  {
    const auto file = SafetensorsFile::open(checkpoint.string());
    auto metadata = file.metadata();
    std::string& state = metadata.at("trainer");
    const size_t at = state.find("rounded");
    ASSERT_NE(at, std::string::npos);
    const size_t digits =
        state.find_first_of("0123456789abcdef", state.find(':', state.find(':', at) + 1));
    state[digits] = state[digits] == '0' ? '1' : '0';
    save_safetensors(checkpoint.string(), file.tensors(), metadata);
    held = read_file(checkpoint);
  }
  r = train("parts", "12");
  EXPECT_EQ(r.status, 2);
  EXPECT_NE(r.err.find("last.safetensors"), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("rounded"), std::string::npos) << r.err;
  EXPECT_TRUE(read_file(checkpoint) == held);
}

}  // namespace
}  // namespace pal
