// The commands that use a saved run: translate, eval, score, ensembles; and one run from nothing to
// translations.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/error.h"
#include "tests/support/error_of.h"
#include "tests/support/files.h"
#include "train/commands/commands.h"
#include "train/loop/checkpoint.h"
#include "train/loop/initialise.h"
#include "train/loop/run_options.h"
#include "train/translation/ensemble.h"
#include "train/translation/translation_task.h"
#include "train/translation/translator.h"

namespace pal {
namespace {

namespace fs = std::filesystem;
using test::error_of;

// A run's folder with drawn weights, as a trainer would leave it.
class SavedRun : public testing::Test {
 protected:
  SavedRun() {
    const std::string samples = std::string(PAL_SOURCE_DIR) + "/data/samples/tatoeba_en_vi";
    const Config config = parse_config(
        "model: {type: nmt, hidden: 8, embedding: 6, attention_size: 4, init_scale: 1.0,\n"
        "  encoder_layers: 1, decoder_layers: 1}\n"
        "data: {root: " +
            samples +
            ", vocab_min_count: 20, max_length: 10}\n"
            "train: {batch_size: 32, max_epochs: 1}\ndevice: {threads: 1}\n",
        "test.yaml");
    std::ofstream(dir_ / "config.yaml") << dump_config(config);
    const TranslationTask task(config);
    task.save_files(dir_);
    ProgramSet set(compile_options(config.memory), cpu_device(1));
    task.declare_weights(set);
    initialise(set, 7);
    save_weights(dir_ / "last.safetensors", set);
  }

  fs::path file(const std::string& name, const std::string& text) const {
    std::ofstream(dir_ / name, std::ios::binary) << text;
    return dir_ / name;
  }
  // What translating the text prints.
  std::string translated(const std::string& text, bool json = false) const {
    testing::internal::CaptureStdout();
    const int code = run_translate({dir_, file("input.txt", text), json});
    const std::string out = testing::internal::GetCapturedStdout();
    EXPECT_EQ(code, kExitDone);
    return out;
  }
  const TemporaryFolder folder_;
  const fs::path dir_ = folder_.path();
};

// Of a run in `dir` by a shell: what comes out of `command`, with $PAL for the program.
std::string shell(const fs::path& dir, const std::string& command) {
  const std::string all = "cd '" + dir.string() + "' && PAL='" PAL_BINARY "' && " + command;
  EXPECT_EQ(std::system(all.c_str()), 0) << all;
  return read_file(dir / "out");
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// Lines that are no text have empty translations, are named and counted; all others have what they
// have alone, also beyond the first group.
TEST_F(SavedRun, goes_on_past_lines_that_are_no_text) {
  constexpr int kEmpty = 2100;
  std::string text = "go\nb\x80\n" + std::string(kEmpty, '\n') + "help\nc\x80\n";
  file("lines", text);
  const std::string good = translated("go\n"), other = translated("help\n");
  ASSERT_NE(good, "\n");
  const std::string out = shell(dir_, "$PAL translate --model . < lines > out 2> err; test $? = 2");
  EXPECT_EQ(out, good + std::string(kEmpty + 1, '\n') + other + "\n");
  const std::string said = read_file(dir_ / "err");
  EXPECT_NE(said.find("standard input: line 2: invalid UTF-8"), std::string::npos) << said;
  EXPECT_NE(said.find("standard input: line 2104: invalid UTF-8"), std::string::npos) << said;
  EXPECT_NE(said.find("2 of 2104 lines could not be translated"), std::string::npos) << said;
  // Numbered through, without those that have none.
  const auto list =
      split(shell(dir_, "$PAL translate --model . --n-best 1 < lines > out 2> err; test $? = 2"));
  ASSERT_EQ(list.size(), size_t(kEmpty + 2));
  EXPECT_EQ(list[1].find("2 ||| "), 0u) << list[1];
  EXPECT_EQ(list.back().find("2102 ||| "), 0u) << list.back();
  EXPECT_EQ(shell(dir_, "$PAL translate --model . --strict < lines > out 2> err; test $? = 2"), "");
  EXPECT_NE(read_file(dir_ / "err").find("pal: standard input: line 2: invalid"),
            std::string::npos);
}

// The search would take hours.
TEST_F(SavedRun, goes_on_past_lines_that_are_too_long) {
  std::string most, more = "go";
  for (int64_t i = 0; i < kMostSourceWords; ++i) more += " go";
  most = more.substr(3);
  file("lines", "go\n" + more + "\nhelp\n");
  const std::string out = shell(dir_, "$PAL translate --model . < lines > out 2> err; test $? = 2");
  EXPECT_EQ(out, translated("go\n") + "\n" + translated("help\n"));
  const std::string said = read_file(dir_ / "err");
  EXPECT_NE(said.find("standard input: line 2: has 1,001 words"), std::string::npos) << said;
  EXPECT_NE(said.find("1 of 3 lines could not be translated"), std::string::npos) << said;
  const Ensemble models(dir_.string());
  EXPECT_EQ(models.defect_of(most), "");
  const std::vector<std::string> lines{"go", more};
  EXPECT_NE(error_of([&] { models.score(lines, lines); }).find("line 2 of the source has 1,001"),
            std::string::npos);
}

// Of many, the first are named.
TEST_F(SavedRun, names_the_first_of_many_that_are_no_text) {
  std::string text;
  for (int i = 0; i < 50; ++i) text += "\x80\n";
  file("lines", text);
  shell(dir_, "$PAL translate --model . < lines > out 2> err; test $? = 2");
  const std::vector<std::string> said = split(read_file(dir_ / "err"));
  EXPECT_EQ(
      std::count_if(said.begin(), said.end(),
                    [](const auto& line) { return line.find("invalid") != std::string::npos; }),
      20);
  EXPECT_NE(said.back().find("50 of 50 lines"), std::string::npos) << said.back();
}

// Who reads the translations may stop before all are there.
TEST_F(SavedRun, ends_quietly_when_nobody_reads_on) {
  const std::string out = shell(
      dir_, "yes '' | head -100000 | ($PAL translate --model . 2> err; true) | head -2 > out");
  EXPECT_EQ(out, "\n\n");
  const std::vector<std::string> said = split(read_file(dir_ / "err"));
  ASSERT_EQ(said.size(), 1u) << said[1];
  EXPECT_EQ(said[0].find("translating with"), 0u);
}

// Nor does JSON wait for the last of them.
TEST_F(SavedRun, writes_translations_as_json_while_more_come) {
  const std::string begin = shell(
      dir_,
      "yes '' | (timeout 60 $PAL translate --model . --json 2> err; true) | head -c 25 > out");
  EXPECT_EQ(begin, R"({"translations":["","","")");
  const std::vector<std::string> said = split(read_file(dir_ / "err"));
  ASSERT_EQ(said.size(), 1u) << said[1];
  file("lines", "go\n\x80\nhelp\n");
  const auto all = nlohmann::json::parse(
      shell(dir_, "$PAL translate --model . --n-best 2 --json < lines > out 2> err; test $? = 2"));
  ASSERT_EQ(all["translations"].size(), 3u);
  ASSERT_EQ(all["n_best"].size(), 3u);
  EXPECT_EQ(all["n_best"][1], nlohmann::json::array());
  EXPECT_EQ(all["n_best"][2][0]["translation"], all["translations"][2]);
}

TEST_F(SavedRun, translates_line_by_line) {
  std::string long_line;
  for (int i = 0; i < 33; ++i) long_line += "Tom is here ";
  const std::string text = "\xEF\xBB\xBFTom is here.\r\n\n" + long_line + "\n   \nI am Tom";
  const std::string out = translated(text);
  const std::vector<std::string> lines = split(out);
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(out.back(), '\n');
  EXPECT_EQ(lines[1], "");
  EXPECT_EQ(lines[3], "");
  EXPECT_NE(lines[0] + lines[2] + lines[4], "");
  for (const std::string& line : lines) EXPECT_EQ(line.find("<unk>"), std::string::npos);
  EXPECT_EQ(split(translated("Tom is here."))[0], lines[0]);
  EXPECT_EQ(nlohmann::json::parse(translated(text, true)),
            (nlohmann::json{{"translations", lines}}));
  EXPECT_EQ(translated(""), "");
  EXPECT_EQ(translated("\n"), "\n");
}

TEST_F(SavedRun, refuses_what_it_cannot_read) {
  const fs::path input = file("input.txt",
                              "fine\nb\xFF"
                              "d\n");
  const std::string invalid =
      error_of([&] { run_translate({.model = dir_, .input = input, .strict = true}); });
  EXPECT_NE(invalid.find("input.txt: line 2: invalid UTF-8"), std::string::npos);
  EXPECT_NE(error_of([&] {
              run_translate({dir_, dir_ / "none.txt", false});
            }).find("none.txt"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              run_translate({dir_ / "none", {}, false});
            }).find("no such folder"),
            std::string::npos);
  fs::remove(dir_ / "last.safetensors");
  EXPECT_NE(error_of([&] {
              run_translate({dir_, {}, false});
            }).find("best.safetensors"),
            std::string::npos);
}

TEST_F(SavedRun, evaluates_a_part_or_files) {
  auto eval = [&](EvalArgs args) {
    testing::internal::CaptureStdout();
    EXPECT_EQ(run_eval(args), kExitDone);
    return testing::internal::GetCapturedStdout();
  };
  const nlohmann::json test = nlohmann::json::parse(eval({.model = dir_, .json = true}));
  EXPECT_EQ(test.size(), 6u);
  EXPECT_EQ(test["beam"], 5);
  EXPECT_EQ(test["sentences"], 484);
  EXPECT_EQ(test["signature"], "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:palimpsest-1");
  EXPECT_GT(test["loss"].get<double>(), 1);
  const std::string root = std::string(PAL_SOURCE_DIR) + "/data/samples/tatoeba_en_vi/test.";
  const std::string files =
      eval({.model = dir_, .source = root + "en", .reference = root + "vi", .json = true});
  EXPECT_EQ(nlohmann::json::parse(files), test);
  EXPECT_EQ(eval({.model = dir_, .part = "valid"}).substr(0, 6), "BLEU =");
  // A reference that is the translation itself.
  const std::string source = "Tom is here.\nI am Tom.\nTom is here now and I am here too.\n";
  const std::string output = translated(source);
  const nlohmann::json perfect = nlohmann::json::parse(eval(
      {.model = dir_, .source = file("s", source), .reference = file("r", output), .json = true}));
  EXPECT_NEAR(perfect["bleu"].get<double>(), 100, 1e-9);
  EXPECT_NE(error_of([&] {
              eval({.model = dir_, .source = dir_ / "s", .reference = dir_ / "gone"});
            }).find("--reference"),
            std::string::npos);
  testing::internal::GetCapturedStdout();
}

TEST_F(SavedRun, lists_the_n_best_and_scores_them_alike) {
  const std::string text = "Tom is here.\n\nI am Tom.\n";
  auto list = [&](const std::string& models, bool json) {
    testing::internal::CaptureStdout();
    EXPECT_EQ(run_translate({models, file("input.txt", text), json, {.n_best = 3}, true}),
              kExitDone);
    return testing::internal::GetCapturedStdout();
  };
  const std::vector<std::string> lines = split(list(dir_, false));
  ASSERT_EQ(lines.size(), 7u);
  EXPECT_EQ(lines[2].substr(0, 6), "0 ||| ");
  EXPECT_EQ(lines[3], "1 |||  ||| 0.000000");
  EXPECT_EQ(lines[4].substr(0, 6), "2 ||| ");
  const nlohmann::json object = nlohmann::json::parse(list(dir_, true));
  EXPECT_EQ(object["n_best"][2].size(), 3u);
  EXPECT_EQ(object["n_best"][2][0]["translation"], object["translations"][2]);
  EXPECT_EQ(nlohmann::json::parse(list(dir_.string() + "," + dir_.string(), true)), object);

  testing::internal::CaptureStdout();
  EXPECT_EQ(run_score({dir_, file("s", "Tom is here.\nI am Tom.\n"),
                       file("t", object["translations"][0].get<std::string>() + "\n" +
                                     object["translations"][2].get<std::string>() + "\n"),
                       true}),
            kExitDone);
  const nlohmann::json scores = nlohmann::json::parse(testing::internal::GetCapturedStdout());
  for (size_t i : {0, 1}) {
    EXPECT_NEAR(scores["log_probs"][i].get<double>(),
                object["n_best"][2 * i][0]["log_prob"].get<double>(), 1e-4);
  }
  EXPECT_NE(error_of([&] { run_score({dir_, dir_ / "s", file("u", "one\n"), false}); }), "");
}

TEST_F(SavedRun, ensembles_need_one_target_vocabulary) {
  const fs::path other = dir_ / "other";
  fs::create_directories(other);
  for (const char* name : {"config.yaml", "vocab.source.txt", "vocab.target.txt", "buckets.txt"}) {
    fs::copy_file(dir_ / name, other / name);
  }
  fs::copy_file(dir_ / "last.safetensors", other / "last.safetensors");
  std::vector<std::string> words;
  std::ifstream in(other / "vocab.target.txt");
  for (std::string word; std::getline(in, word);) words.push_back(word);
  in.close();
  std::swap(words[4], words[5]);
  std::ofstream out(other / "vocab.target.txt");
  for (const std::string& word : words) out << word << "\n";
  out.close();
  auto translate = [&](const std::string& models) {
    run_translate({models, file("input.txt", "Tom\n"), false});
  };
  EXPECT_NE(error_of([&] {
              translate(dir_.string() + "," + other.string());
            }).find("have different target vocabularies"),
            std::string::npos);
  EXPECT_NE(error_of([&] { translate(dir_.string() + ","); }).find("DIR,DIR"), std::string::npos);
}

// Their average, of the same model twice, is that model; pairs without a source do not count.
TEST_F(SavedRun, an_ensembles_loss_is_that_of_its_average) {
  const auto loss = [&](const std::string& models, const std::string& source,
                        const std::string& reference) {
    testing::internal::CaptureStdout();
    EXPECT_EQ(run_eval({.model = models,
                        .source = file("s", source),
                        .reference = file("r", reference),
                        .json = true}),
              kExitDone);
    const auto said = nlohmann::json::parse(testing::internal::GetCapturedStdout());
    return said["loss"].get<double>();
  };
  const std::string one = dir_.string(), two = one + "," + one;
  const std::string source = "Tom is here.\nI am Tom.\n";
  const std::string reference = "Tom o day .\nToi la Tom .\n";
  const double of_two = loss(two, source, reference);
  EXPECT_NEAR(of_two, loss(one, source, reference), 1e-4);
  // Sums of a batch of another size are rounded otherwise.
  EXPECT_NEAR(loss(two, source + "\n", reference + "Toi Tom la Toi\n"), of_two, 1e-6);
}

TEST_F(SavedRun, best_goes_before_last) {
  const SavedNmt last = open_nmt(dir_);
  EXPECT_EQ(last.weights.filename(), "last.safetensors");
  fs::copy_file(dir_ / "last.safetensors", dir_ / "best.safetensors");
  EXPECT_EQ(open_nmt(dir_).weights.filename(), "best.safetensors");
}

// From nothing to translations: data, training, checkpoint, evaluation.
TEST(Translation, is_learned) {
  const TemporaryFolder folder;
  const fs::path dir = folder.path() / "run";
  TrainArgs args{.config = parse_config(
                     "model: {type: nmt, hidden: 64, embedding: 32, attention_size: 32,\n"
                     "  encoder_layers: 1, decoder_layers: 1, forget_bias: 1.0}\n"
                     "data: {synthetic: true, source_vocab_size: 12, target_vocab_size: 12,\n"
                     "  max_length: 30, bucket_width: 10}\n"
                     "train: {batch_size: 32, steps: 1200, lr: 0.005, clip_value: 1.0,\n"
                     "  log_every: 400, valid_every: 600}\n"
                     "device: {threads: 1}\n",
                     "test.yaml"),
                 .name = "test",
                 .out = dir,
                 .json = true};
  testing::internal::CaptureStdout();
  const int code = run_train(args);
  const nlohmann::json summary = nlohmann::json::parse(testing::internal::GetCapturedStdout());
  EXPECT_EQ(code, kExitDone);
  // By five seeds and two instruction sets 68 to 80; untrained: below 1. After half of the steps 39
  // to 63, by chance.
  EXPECT_GT(summary["test"]["bleu"].get<double>(), 60);
  EXPECT_LT(summary["test"]["loss"].get<double>(), 0.6);  // 0.19 to 0.44; untrained: ln 16 = 2.8
  testing::internal::CaptureStdout();
  EXPECT_EQ(run_eval({.model = dir, .json = true, .beam = {.beam = 1}}), kExitDone);
  const nlohmann::json result = nlohmann::json::parse(testing::internal::GetCapturedStdout());
  EXPECT_EQ(result["bleu"], summary["test"]["bleu"]);
  EXPECT_EQ(result["loss"], summary["test"]["loss"]);
}

}  // namespace
}  // namespace pal
