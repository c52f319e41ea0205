// Whole runs of the image classifier from the command line: training, exact resumption, evaluation,
// classification, damaged data, planning without data.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/files.h"

namespace {

namespace fs = std::filesystem;
const fs::path kGolden = PAL_SOURCE_DIR "/tests/data/golden";

class ImageRunTest : public testing::Test {
 protected:
  ImageRunTest()
      : dir_(fs::path(testing::TempDir()) /
             ("pal_image_run_" + std::to_string(getpid()) + "_" +
              testing::UnitTest::GetInstance()->current_test_info()->name())) {
    fs::remove_all(dir_);
    fs::create_directories(dir_);
    config("synthetic: true, classes: 4");
  }
  ~ImageRunTest() override { fs::remove_all(dir_); }

  void config(const std::string& data) const {
    std::ofstream(dir_ / "tiny.yaml")
        << "model: {type: resnet, family: cifar, depth: 8, width: 4}\n"
           "data: {" +
               data +
               ", image_size: 8, crop: random_resized, brightness: 0.2}\n"
               "train: {batch_size: 16, steps: 6, optimizer: momentum, lr: 0.05, log_every: 1,\n"
               "  valid_every: 1000}\n"
               "device: {type: cpu, threads: 1}\n";
  }
  // Two classes of three images each, and a copy to validate on.
  void folders() const {
    for (const char* part : {"train", "val"}) {
      for (const char* name : {"baseline.jpg", "colour.png", "alpha.png"})
        copy(name, part, "bright");
      for (const char* name : {"grey.jpg", "grey16.png", "palette.png"}) copy(name, part, "dull");
    }
    config("valid: [val]");
  }
  void copy(const std::string& name, const std::string& part, const std::string& label) const {
    fs::create_directories(dir_ / part / label);
    fs::copy_file(kGolden / name, dir_ / part / label / name);
  }
  // What the program prints; its messages go to said().
  std::string pal(const std::string& args, int code = 0) const {
    const std::string command =
        "cd '" + dir_.string() + "' && '" PAL_BINARY "' " + args + " > out.txt 2> err.txt";
    const int status = std::system(command.c_str());
    EXPECT_EQ(WEXITSTATUS(status), code) << args << "\n" << said();
    return pal::read_file(dir_ / "out.txt");
  }
  std::string said() const { return pal::read_file(dir_ / "err.txt"); }
  bool says(const std::string& what) const { return said().find(what) != std::string::npos; }

  const fs::path dir_;
};

TEST_F(ImageRunTest, ResumedAndUninterruptedEndAlike) {
  const std::string sets =
      " --set data.mixup=0.4 --set train.accumulate=2 --set train.ema=0.9 "
      "--set train.label_smoothing=0.1 --config tiny.yaml";
  pal("train --out whole --steps 70" + sets + " --set data.workers=1");  // over the epoch's end
  EXPECT_TRUE(says("SYNTHETIC IMAGES"));
  std::ifstream rows(dir_ / "whole/metrics.jsonl");
  for (std::string line; std::getline(rows, line);) {
    const nlohmann::json row = nlohmann::json::parse(line);
    if (row["event"] != "step") continue;
    // The shares of the two losses add up to one.
    EXPECT_NEAR(row["loss"].get<double>(), 1.39, row["step"] == 1 ? 0.6 : 10);
    EXPECT_GT(row["loss"], 0.3);
  }
  pal("train --out parts --steps 23" + sets + " --set data.workers=3");
  pal("train --out parts --steps 70 --resume" + sets + " --set data.workers=2");
  EXPECT_TRUE(pal::read_file(dir_ / "whole/last.safetensors") ==
              pal::read_file(dir_ / "parts/last.safetensors"));
  pal("train --out other --steps 70 --set train.seed=2" + sets);
  EXPECT_FALSE(pal::read_file(dir_ / "whole/last.safetensors") ==
               pal::read_file(dir_ / "other/last.safetensors"));
  // The augmentation is part of what is computed.
  pal("train --out parts --steps 80 --resume --set data.flip=false" + sets, 2);
  EXPECT_TRUE(says("data.flip"));
}

TEST_F(ImageRunTest, LearnsEvaluatesAndClassifies) {
  folders();
  pal("train --config tiny.yaml --out run --steps 30 --set train.batch_size=6 "
      "--set data.crop=center --set data.brightness=0");
  const nlohmann::json end = nlohmann::json::parse(pal("eval --model run --json"));
  EXPECT_EQ(end["images"], 6);
  EXPECT_EQ(end["top1"], 100);
  EXPECT_EQ(end["top5"], 100);
  EXPECT_LT(end["loss"], 0.3);
  // Two models are averaged; of one model twice that changes nothing.
  EXPECT_NEAR(nlohmann::json::parse(pal("eval --model run,run --json"))["loss"].get<double>(),
              end["loss"].get<double>(), 1e-6);
  const nlohmann::json rows =
      nlohmann::json::parse(pal("classify --model run --json train/bright/baseline.jpg "
                                "val/dull/grey.jpg"))["images"];
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["file"], "train/bright/baseline.jpg");
  EXPECT_EQ(rows[0]["classes"][0]["class"], "bright");
  EXPECT_EQ(rows[1]["classes"][0]["class"], "dull");
  double sum = 0;
  for (const nlohmann::json& each : rows[1]["classes"]) sum += each["probability"].get<double>();
  EXPECT_NEAR(sum, 1, 1e-6);
  EXPECT_EQ(nlohmann::json::parse(pal(
                "classify --model run --top 1 --json val/dull/grey.jpg"))["images"][0]["classes"]
                .size(),
            1u);
  // The others are classified, and the exit code says that one was not.
  std::ofstream(dir_ / "letter.jpg") << "dear reader";
  const std::string text = pal("classify --model run letter.jpg val/dull/grey.jpg none.png", 2);
  EXPECT_NE(text.find("val/dull/grey.jpg\n"), std::string::npos);
  EXPECT_EQ(text.find("letter"), std::string::npos);
  EXPECT_TRUE(says("letter.jpg: not a JPEG or PNG"));
  EXPECT_TRUE(says("none.png: cannot be opened"));
  EXPECT_TRUE(says("2 of 3 files"));
  // Their names from a pipe.
  std::ofstream(dir_ / "names") << "letter.jpg\nval/dull/grey.jpg\n\xff.jpg\nnone.png";
  EXPECT_EQ(pal("classify --model run - < names", 2), text);
  EXPECT_TRUE(says("standard input: line 3: invalid UTF-8"));
  EXPECT_TRUE(says("3 of 4 files"));
  const std::string piped = pal("classify --model run --json - < names", 2);
  EXPECT_EQ(nlohmann::json::parse(piped)["images"].size(), 3u);
  EXPECT_EQ(pal("classify --model run --strict - < names", 2), "");
  // Who reads may stop early: nothing is said of it.
  std::ofstream many(dir_ / "many");
  for (int i = 0; i < 1000; ++i) many << "val/dull/grey.jpg\n";
  many.close();
  EXPECT_EQ(pal("classify --model run - < many 2> quiet | head -1"), "val/dull/grey.jpg\n");
  const std::string quiet = pal::read_file(dir_ / "quiet");
  EXPECT_EQ(quiet.find("classifying with"), 0u) << quiet;
  EXPECT_EQ(std::count(quiet.begin(), quiet.end(), '\n'), 1) << quiet;
  // The training images may be gone.
  fs::remove_all(dir_ / "train");
  pal("classify --model run val/dull/grey.jpg");
  EXPECT_EQ(nlohmann::json::parse(pal("eval --model run --json --part valid")), end);
  pal("translate --model run --input letter.jpg", 2);
  EXPECT_TRUE(says("holds no translator"));
  pal("eval --model run --source a --reference b", 2);
}

// Two classes of films, a picture or two each; what is classified is a folder of frames.
TEST_F(ImageRunTest, LearnsFromFilms) {
  for (const char* film : {"train/bright/a", "val/bright/a", "train/bright/b", "val/bright/b"}) {
    copy("baseline.jpg", film, "");
    copy("colour.png", film, "");
  }
  for (const char* film : {"train/dull/a", "val/dull/a"}) copy("grey.jpg", film, "");
  std::ofstream(dir_ / "film.yaml")
      << "model: {type: zoo, network: resnet3d_18, width: 0.0625}\n"
         "data: {valid: [val], frames: 4, image_size: 32, crop: center, min_side: 2}\n"
         "train: {batch_size: 3, steps: 60, optimizer: momentum, lr: 0.05, log_every: 1,\n"
         "  valid_every: 1000}\n"
         "device: {type: cpu, threads: 1}\n";
  pal("train --config film.yaml --out run");
  EXPECT_TRUE(says("3 training films, 2 classes"));
  EXPECT_TRUE(says("4 frames of 32 x 32 x 3"));
  EXPECT_EQ(nlohmann::json::parse(pal("eval --model run --json"))["top1"], 100);
  const nlohmann::json rows =
      nlohmann::json::parse(pal("classify --model run --json val/dull/a"))["images"];
  EXPECT_EQ(rows[0]["classes"][0]["class"], "dull");
  pal("classify --model run val/none", 2);
  EXPECT_TRUE(says("val/none: cannot be read"));
  pal("train --config film.yaml --out other --set data.frames=null", 2);
  EXPECT_TRUE(says("data.frames: resnet3d_18 sees films; set it, as published to 16"));
  pal("train --config tiny.yaml --out other --set data.frames=4", 2);
  EXPECT_TRUE(says("data.frames: resnet sees single images; set it to null"));
  pal("train --config film.yaml --out other --set data.format=idx", 2);
  EXPECT_TRUE(says("data.frames: films are read from folders alone"));
}

TEST_F(ImageRunTest, DamagedDataIsSkippedWithAWarningOrRefused) {
  folders();
  fs::resize_file(dir_ / "train/bright/baseline.jpg", 500);
  std::ofstream(dir_ / "train/dull/letter.jpg") << "dear reader";
  copy("pixel.png", "train", "dull");
  fs::create_directories(dir_ / "train/empty");
  pal("train --config tiny.yaml --out run", 2);
  EXPECT_TRUE(says("empty: a class without images"));
  fs::remove(dir_ / "train/empty");
  pal("train --config tiny.yaml --out run", 2);
  EXPECT_TRUE(says("data.on_error: skip"));
  fs::create_directories(dir_ / "train/empty");
  pal("train --config tiny.yaml --out skipping --set data.on_error=skip");
  EXPECT_TRUE(says("empty: a class without images"));
  EXPECT_TRUE(says("cut short"));
  EXPECT_TRUE(says("letter.jpg: not a JPEG or PNG"));
  EXPECT_TRUE(says("pixel.png: 1 x 1 pixels; data.min_side is 2"));
  EXPECT_TRUE(says("image skipped (3 so far)"));
  pal("train --config tiny.yaml --out small --set data.on_error=skip --set data.min_side=22", 2);
  EXPECT_TRUE(says("none of"));
}

TEST_F(ImageRunTest, PlansWithoutDataAndSaysWhatIsMissing) {
  const nlohmann::json plan =
      nlohmann::json::parse(pal("plan --config resnet50_imagenet --json --set train.batch_size=2"));
  EXPECT_EQ(plan["bucket"], (nlohmann::json{224, 224}));
  EXPECT_GT(plan["bytes"]["total"].get<int64_t>(), 25'557'032 * 4 * 2);
  pal("train --config resnet50_imagenet --out run", 2);
  EXPECT_TRUE(says("ILSVRC2012"));
  pal("train --config resnet20_cifar10 --out run", 2);
  EXPECT_TRUE(says("cifar.html"));
  pal("train --config resnet20_cifar10 --out run --set data.mean=[0.5]", 2);
  EXPECT_TRUE(says("data.mean: has 1 numbers for 3 channels"));
  pal("train --config resnet_small --out run --set data.classes=11", 2);
  EXPECT_TRUE(says("data.classes: 11, but the training images have 10"));
}

// The images that ship: the file's own format, held-out images, a few steps in the right direction.
TEST_F(ImageRunTest, LearnsFromTheImagesThatShip) {
  pal("train --config resnet_small --out run --steps 72 --set device.threads=1 --set train.lr=0.05 "
      "--set model.depth=8 --set train.warmup_steps=5");
  EXPECT_TRUE(says("1800 training images, 10 classes, 200 held out"));
  std::ifstream rows(dir_ / "run/metrics.jsonl");
  nlohmann::json valid;
  for (std::string line; std::getline(rows, line);) {
    const nlohmann::json row = nlohmann::json::parse(line);
    if (row["event"] == "valid") valid = row;
  }
  EXPECT_GT(valid["top1"].get<double>(), 30);  // of ten classes
  EXPECT_GE(valid["top5"].get<double>(), valid["top1"].get<double>());
  EXPECT_EQ(pal::read_file(dir_ / "run/classes.txt").substr(0, 12), "T-shirt/top\n");
}

}  // namespace
