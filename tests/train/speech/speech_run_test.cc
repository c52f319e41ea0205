// Whole runs of the speech recogniser by its commands: training, resuming, evaluating,
// transcribing; bad recordings; every memory method; the large recipes at a small size.
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

const std::string kDigits = PAL_SOURCE_DIR "/data/samples/spoken_digits";

class SpeechRun : public testing::Test {
 protected:
  SpeechRun() {
    std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
    std::replace(name.begin(), name.end(), '/', '_');
    dir_ = fs::path(testing::TempDir()) / ("pal_speech_" + std::to_string(getpid()) + "_" + name);
    fs::remove_all(dir_);
    fs::create_directories(dir_);
  }
  ~SpeechRun() override { fs::remove_all(dir_); }

  // Tiny, on the digits that ship: single recordings and pairs of them.
  void digits_config(const std::string& data = "") {
    std::ofstream(dir_ / "tiny.yaml")
        << "model: {type: deepspeech2, conv_kernels: [5x9, 3x5], conv_channels: 4, layers: 2,\n"
           "  hidden: 12, dropout: 0.1}\n"
           "data: {root: "
        << kDigits
        << ", train: manifest.csv, valid: manifest.csv,\n"
           "  test: manifest.csv, sample_rate: 8000, join_most: 2, join_train: 40, join_eval: 12,\n"
           "  tempo: true, time_masks: 1, time_mask_frames: 10, buckets: 2"
        << data
        << "}\n"
           "train: {batch_size: 8, steps: 8, lr: 0.005, clip_norm: 5, log_every: 1,\n"
           "  valid_every: 4}\n"
           "device: {threads: 1}\n";
  }

  int pal(const std::string& args) {
    const std::string command =
        "cd '" + dir_.string() + "' && '" PAL_BINARY "' " + args + " > out.txt 2> err.txt";
    const int status = std::system(command.c_str());
    EXPECT_TRUE(WIFEXITED(status)) << args << ": died of a signal";
    out_ = pal::read_file(dir_ / "out.txt"), err_ = pal::read_file(dir_ / "err.txt");
    return WEXITSTATUS(status);
  }
  void done(const std::string& args) { ASSERT_EQ(pal(args), 0) << args << "\n" << err_; }
  // Refused in one line that says `what`.
  void refused(const std::string& args, const std::string& what) {
    EXPECT_EQ(pal(args), 2) << args << "\n" << err_;
    EXPECT_NE(err_.find(what), std::string::npos) << err_;
  }
  std::vector<nlohmann::json> rows(const std::string& run, const std::string& event) const {
    std::vector<nlohmann::json> out;
    std::ifstream in(dir_ / run / "metrics.jsonl");
    for (std::string line; std::getline(in, line);) {
      auto row = nlohmann::json::parse(line);
      if (row["event"] == event) out.push_back(std::move(row));
    }
    return out;
  }
  // The losses of every step, and the state at the end.
  std::string outcome(const std::string& run) const {
    std::string result;
    for (const auto& row : rows(run, "step")) {
      result += row["loss"].dump() + " " + row["grad_norm"].dump() + "\n";
    }
    return result + pal::read_file(dir_ / run / "last.safetensors");
  }

  fs::path dir_;
  std::string out_, err_;
};

TEST_F(SpeechRun, TrainsResumesEvaluatesAndTranscribes) {
  digits_config();
  done("train --config tiny.yaml --out whole");
  const auto valid = rows("whole", "valid");
  ASSERT_EQ(valid.size(), 2u);
  for (const auto& row : valid) {
    EXPECT_TRUE(row.contains("wer") && row.contains("cer")) << row;
    EXPECT_GT(row["loss"], 0);
  }
  EXPECT_EQ(rows("whole", "step").size(), 8u);

  done("train --config tiny.yaml --out parts --steps 3");
  done("train --config tiny.yaml --out parts --resume");
  EXPECT_EQ(pal::read_file(dir_ / "parts/last.safetensors"),
            pal::read_file(dir_ / "whole/last.safetensors"));

  // The best weights hold the running statistics too.
  done("eval --model whole --part valid --beam 1 --json");
  const auto eval = nlohmann::json::parse(out_);
  double best = 1e9;
  for (const auto& row : valid) best = std::min(best, row["wer"].get<double>());
  EXPECT_NEAR(eval["wer"], best, 1e-9);
  EXPECT_EQ(eval["utterances"], 12);
  done("eval --model whole --beam 4");
  EXPECT_NE(out_.find("WER = "), std::string::npos);

  const std::string a = kDigits + "/7_theo_0.flac", b = kDigits + "/1_lucas_0.flac";
  done("transcribe --model whole --json " + a + " " + b);
  const auto transcripts = nlohmann::json::parse(out_)["transcripts"];
  ASSERT_EQ(transcripts.size(), 2u);
  EXPECT_EQ(transcripts[0]["file"], a);
  EXPECT_LT(transcripts[1]["log_prob"], 0);
  done("transcribe --model whole/last.safetensors --beam 8 " + b);
  done("transcribe --model whole " + a + " " + b);
  EXPECT_EQ(std::count(out_.begin(), out_.end(), '\n'), 2);

  const std::string both = out_;

  std::ofstream(dir_ / "text.wav") << "nothing to hear";
  refused("transcribe --model whole text.wav", "text.wav: cannot be read as sound");
  // Names from a pipe: the others are transcribed.
  std::ofstream(dir_ / "names") << a << "\ntext.wav\n" << b << "\n";
  refused("transcribe --model whole - < names", "1 of 3 files could not be transcribed");
  EXPECT_EQ(out_, both);
  refused("transcribe --model whole --json - < names", "text.wav: cannot be read as sound");
  EXPECT_EQ(nlohmann::json::parse(out_)["transcripts"][2]["text"], transcripts[1]["text"]);
  refused("transcribe --model whole --strict - < names", "pal: text.wav: cannot be read as sound");
  // Who reads may stop early: nothing is said of it.
  std::ofstream many(dir_ / "many");
  for (int i = 0; i < 1000; ++i) many << a << "\n";
  many.close();
  done("transcribe --model whole - < many 2> quiet | head -1");
  EXPECT_EQ(out_.find(a + "\t"), 0u) << out_;
  const std::string quiet = pal::read_file(dir_ / "quiet");
  EXPECT_EQ(quiet.find("transcribing with"), 0u) << quiet;
  EXPECT_EQ(std::count(quiet.begin(), quiet.end(), '\n'), 1) << quiet;
  refused("transcribe --model whole none.wav", "none.wav: no such file");
  refused("transcribe --model nowhere " + a, "no such folder");
  refused("translate --model whole", "holds no translator");
  refused("eval --model whole --source text.wav --reference text.wav", "pal transcribe");
}

TEST_F(SpeechRun, LeavesOutWhatIsBrokenOrRefusesIt) {
  fs::create_directories(dir_ / "corpus");
  std::ofstream list(dir_ / "corpus/train.csv");
  list << "path,transcript\n";
  for (int digit = 0; digit < 10; ++digit) {
    const std::string name = std::to_string(digit) + "_theo_6.flac";
    fs::copy_file(kDigits + "/" + name, dir_ / "corpus" / name);
    list << name << ",a\n";
  }
  list << "missing.flac,b\n1_theo_6.flac,b2\n";
  list.close();
  const std::string set =
      " --set data.root=corpus --set data.train=train.csv --set data.valid=null "
      "--set data.test=null --set data.join_most=1 --set data.valid_share=0.2 "
      "--steps 4";
  digits_config();
  done("train --config tiny.yaml --out good" + set);
  EXPECT_NE(err_.find("2 recordings of the train list are left out"), std::string::npos) << err_;
  refused("train --config tiny.yaml --out bad --set data.on_error=fail" + set, "missing.flac");

  // A header that promises what the file does not hold shows only when it is read, on the way.
  fs::resize_file(dir_ / "corpus/4_theo_6.flac", 1500);
  done("train --config tiny.yaml --out cut" + set);
  EXPECT_NE(err_.find("4_theo_6.flac: is cut short"), std::string::npos) << err_;
  std::ofstream(dir_ / "corpus/train.csv") << "path,transcript\n0_theo_6.flac,a\n4_theo_6.flac,b\n";
  refused("train --config tiny.yaml --out fail --set data.on_error=fail" + set,
          "4_theo_6.flac: is cut short");
  refused("train --config tiny.yaml --out x --set data.root=nowhere", "manifest.csv");
}

class SpeechMemory : public SpeechRun,
                     public testing::WithParamInterface<std::tuple<const char*, const char*>> {};

TEST_P(SpeechMemory, MethodsLeaveTheBitsAlone) {
  const auto [cell, fused] = GetParam();
  std::ofstream(dir_ / "tiny.yaml")
      << "model: {type: deepspeech2, conv_kernels: [5x9, 3x5], conv_channels: 4, layers: 2,\n"
         "  hidden: 12, dropout: 0.2, cell: "
      << cell << ", fused: " << fused
      << "}\n"
         "data: {synthetic: true, sample_rate: 2000, max_seconds: 2.2, hop_ms: 25,\n"
         "  window_ms: 50, buckets: 2}\n"
         "train: {batch_size: 6, steps: 5, lr: 0.01, clip_norm: 5, log_every: 1,\n"
         "  save_every: 1000, valid_every: 1000}\n"
         "device: {threads: 1}\n";
  done(
      "train --config tiny.yaml --out none --set memory.schedule=program --set "
      "memory.inplace=false");
  for (const char* method : {"none", "mirror", "sqrt", "echo"}) {
    done("train --config tiny.yaml --out " + std::string(method) +
         "_run --set memory.recompute=" + method);
    EXPECT_TRUE(outcome(std::string(method) + "_run") == outcome("none")) << method;
  }
  done("train --config tiny.yaml --out other --set train.seed=2");
  EXPECT_FALSE(outcome("other") == outcome("none"));
}

INSTANTIATE_TEST_SUITE_P(Cells, SpeechMemory,
                         testing::Combine(testing::Values("gru", "lstm"),
                                          testing::Values("true", "false")),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param)) +
                                  (std::get<1>(test.param)[0] == 't' ? "_fused" : "_unfused");
                         });

// The published recipes without their corpora, at a size that runs at once.
class SpeechRecipe : public SpeechRun, public testing::WithParamInterface<const char*> {};

TEST_P(SpeechRecipe, RunsOnMadeUpFeatures) {
  done("train --config " PAL_SOURCE_DIR "/configs/" + std::string(GetParam()) +
       ".yaml --out run --steps 2 --set data.synthetic=true --set data.max_seconds=2.5 "
       "--set data.buckets=1 --set model.conv_channels=4 --set model.hidden=16 "
       "--set model.fully_connected=8 --set train.batch_size=4 --set train.log_every=1 "
       "--set device.threads=1");
  EXPECT_NE(err_.find("SYNTHETIC"), std::string::npos);
  EXPECT_EQ(rows("run", "step").size(), 2u);
}

INSTANTIATE_TEST_SUITE_P(Recipes, SpeechRecipe,
                         testing::Values("deepspeech2_librispeech", "deepspeech2_v3"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
