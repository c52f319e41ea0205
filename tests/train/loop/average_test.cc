// Means of checkpoints: of the right files, of weights alone, exact; and what is refused. What a
// run does with them is seen on the program itself.
#include "train/loop/average.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/error.h"
#include "tests/support/files.h"
#include "train/run_files/safetensors.h"

namespace pal {
namespace {

namespace fs = std::filesystem;

class Average : public testing::Test {
 protected:
  // A checkpoint of two weights and an optimizer's state.
  fs::path checkpoint(const std::string& name, std::vector<float> w, float b, int64_t shape = 2) {
    const std::vector<float> moment(3, 9);
    const std::vector<TensorView> tensors = {
        {"encoder/w", "F32", {shape, int64_t(w.size()) / shape}, w.data(), w.size() * 4},
        {"b", "F32", {1}, &b, 4},
        {"optimizer/m", "F32", {3}, moment.data(), 12}};
    save_safetensors((dir_ / name).string(), tensors, {{"trainer", "{}"}});
    return dir_ / name;
  }
  // Standard output of a command, which must end with `code`; in dir_.
  std::string pal(const std::string& args, int code = 0) {
    const std::string command =
        "cd '" + dir_.string() + "' && '" PAL_BINARY "' " + args + " > out.txt 2> err.txt";
    const int status = std::system(command.c_str());
    EXPECT_EQ(WEXITSTATUS(status), code) << args << "\n" << read_file(dir_ / "err.txt");
    return read_file(dir_ / "out.txt");
  }
  const TemporaryFolder folder_;
  const fs::path dir_ = folder_.path();
};

TEST_F(Average, TakesTheNewestAndMeansTheirWeights) {
  checkpoint("step-9.safetensors", {100, 100, 100, 100}, 100);
  checkpoint("step-10.safetensors", {1, 2, 3, 4}, -1);
  checkpoint("step-100.safetensors", {2, 4, 6, 1e8f}, 0);
  checkpoint("step-20.safetensors", {3, 0, 0, 1}, 4);
  checkpoint("last.safetensors", {7, 7, 7, 7}, 7);
  const auto files = last_checkpoints(dir_, 3);
  ASSERT_EQ(files.size(), 3u);
  EXPECT_EQ(files[0].filename(), "step-10.safetensors");
  EXPECT_EQ(files[2].filename(), "step-100.safetensors");
  EXPECT_EQ(last_checkpoints(dir_, 10).size(), 4u);
  average_checkpoints(files, dir_ / "mean.safetensors");
  const SafetensorsFile mean = SafetensorsFile::open((dir_ / "mean.safetensors").string());
  ASSERT_EQ(mean.tensors().size(), 2u);  // weights alone
  const auto* w = static_cast<const float*>(mean.find("encoder/w")->data);
  EXPECT_EQ(mean.find("encoder/w")->shape, (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(w[0], 2.0f);
  EXPECT_EQ(w[1], 2.0f);
  EXPECT_EQ(w[2], 3.0f);
  EXPECT_EQ(w[3], float((4.0 + 1e8 + 1.0) / 3));  // in f32 the small ones would be lost
  EXPECT_EQ(*static_cast<const float*>(mean.find("b")->data), 1.0f);
}

TEST_F(Average, RefusesWhatIsNotOfOneModel) {
  const fs::path a = checkpoint("a.safetensors", {1, 2, 3, 4}, 1);
  const fs::path b = checkpoint("b.safetensors", {1, 2, 3, 4}, 1, 1);
  const std::vector<fs::path> both = {a, b};
  EXPECT_NE(usage_error_of([&] { average_checkpoints(both, dir_ / "x"); }).find("another model"),
            std::string::npos);
  EXPECT_NE(usage_error_of([&] { average_checkpoints({}, dir_ / "x"); }), "");
  EXPECT_FALSE(fs::exists(dir_ / "x"));
}

// A Transformer learns, tries its last checkpoints' mean at the end, and translates with any file.
TEST_F(Average, ARunTriesTheMeanOfItsLastCheckpoints) {
  std::ofstream(dir_ / "tiny.yaml")
      << "model: {type: transformer, hidden: 16, ffn: 24, heads: 2, encoder_layers: 1,\n"
         "  decoder_layers: 1}\n"
         "data: {synthetic: true, source_vocab_size: 30, target_vocab_size: 30, max_length: 8}\n"
         "train: {batch_size: 16, steps: 30, lr: 0.01, valid_every: 10, average_last: 2}\n"
         "device: {threads: 1}\n";
  pal("train --config tiny.yaml --out run");
  EXPECT_NE(read_file(dir_ / "err.txt").find("mean of the last 2 checkpoints"), std::string::npos);
  EXPECT_TRUE(fs::exists(dir_ / "run/step-30.safetensors"));
  EXPECT_TRUE(fs::exists(dir_ / "run/step-20.safetensors"));
  EXPECT_FALSE(fs::exists(dir_ / "run/step-10.safetensors"));  // two are kept
  pal("average run --last 2 --out mean.safetensors");
  EXPECT_EQ(read_file(dir_ / "mean.safetensors"), read_file(dir_ / "run/average.safetensors"));
  EXPECT_NE(pal("average run --last 2 --json").find("step-20"), std::string::npos);
  pal("average run --last 3", 2);
  EXPECT_NE(read_file(dir_ / "err.txt").find("train.keep_last"), std::string::npos);
  const std::string best = pal("eval --model run --beam 2"),
                    mean = pal("eval --model run/average.safetensors --beam 2"),
                    last = pal("eval --model run/last.safetensors --beam 2");
  EXPECT_NE(mean, last);
  EXPECT_NE(best, "");
  pal("eval --model run/none.safetensors", 2);
}

}  // namespace
}  // namespace pal
