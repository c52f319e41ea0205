// Greedy and beam search with a model, ensembles, scoring: that words score as in the training
// loss, that neighbours, batches and padding change nothing; and the commands that do all this.
#include "train/translator.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "core/error.h"
#include "core/scalars.h"
#include "data/vocabulary.h"
#include "ops/copies.h"
#include "train/checkpoint.h"
#include "train/commands.h"
#include "train/initialise.h"
#include "train/nmt_task.h"
#include "train/trainer.h"

namespace pal {
namespace {

namespace fs = std::filesystem;

TEST(Likeliest, obeys_the_rules) {
  const bool forbid = false, allow = true;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  auto best = [](std::vector<float> scores, bool unknown) { return likeliest(scores, unknown); };
  EXPECT_EQ(best({0, -1, 0, -9, -3, -2, -4}, forbid), 5);  // never <pad>, <unk>, <s>
  EXPECT_EQ(best({0, -1, 0, -9, -3, -2, -4}, allow), 1);
  EXPECT_EQ(best({0, -2, 0, -2, -2, -2, -2}, forbid), 3);  // ties: the lowest id
  EXPECT_EQ(best({0, -2, 0, -2, -2, -2, -2}, allow), 1);
  EXPECT_EQ(best({0, 0, 0, -7, -1, -2, -1}, forbid), 4);
  EXPECT_EQ(best({nan, nan, nan, nan, nan, nan}, allow), 3);
}

constexpr int64_t kSourceWords = 11, kTargetWords = 9;

NmtOptions small_model() {
  NmtOptions o;
  o.source_vocab = kSourceWords;
  o.target_vocab = kTargetWords;
  o.embedding = 6;
  o.hidden = 8;
  o.attention_size = 5;
  o.init_scale = 1.5f;  // so that scores differ
  return o;
}

Program loss_program(const NmtOptions& model, const NmtShape& shape) {
  Builder b;
  Val scalars = step_scalars(b.input(nmt_input::kScalars, scalars_spec(), Space::host));
  b.output("nll", nmt_loss(b, model, shape, scalars, false).nll);
  return b.take();
}

std::unique_ptr<ProgramSet> drawn(const NmtOptions& model, uint64_t seed) {
  auto set = std::make_unique<ProgramSet>(CompileOptions{}, cpu_device(1));
  set->add("weights", loss_program(model, {1, 1, 1}));
  initialise(*set, seed);
  return set;
}

// Sentences of 1 to `longest` words, and an empty one.
std::vector<std::vector<int32_t>> sentences(int count, int longest) {
  std::vector<std::vector<int32_t>> all;
  for (int i = 0; i < count; ++i) {
    std::vector<int32_t> one;
    for (int j = 0; j < 1 + i * 5 % longest; ++j) {
      one.push_back(int32_t(4 + (i * 3 + j * (i + 2)) % (kSourceWords - 4)));
    }
    all.push_back(i == 2 ? std::vector<int32_t>{} : one);
  }
  return all;
}

TEST(Translator, scores_words_as_the_training_loss_does) {
  for (const bool reverse : {false, true}) {
    NmtOptions model = small_model();
    model.reverse_source = reverse;
    const auto set = drawn(model, 3);
    const std::vector<int32_t> source = {4, 7, 5, 9, /**/ 6, 10, 8, 0};
    const std::vector<int32_t> lengths = {4, 3};
    std::vector<int32_t> time_major(8);
    for (size_t b = 0; b < 2; ++b) {
      for (size_t s = 0; s < 4; ++s) time_major[s * 2 + b] = source[b * 4 + s];
    }
    const std::vector<std::vector<int32_t>> target = {{5, 4, 8, 3}, {7, 3, 0, 0}};
    NmtScorer scorer(*set, model, 2);
    scorer.start(4, time_major, lengths);
    std::vector<int32_t> words = {Vocabulary::kBegin, Vocabulary::kBegin}, in(8), out(8);
    double sum = 0;
    for (size_t t = 0; t < 4; ++t) {
      const float* scores = scorer.step(words);
      for (size_t b = 0; b < 2; ++b) {
        in[t * 2 + b] = words[b], out[t * 2 + b] = target[b][t];
        double mass = 0;
        for (int64_t v = 0; v < kTargetWords; ++v) {
          mass += std::exp(double(scores[int64_t(b) * kTargetWords + v]));
        }
        EXPECT_NEAR(mass, 1, 1e-5);
        if (target[b][t] != 0) sum -= double(scores[int64_t(b) * kTargetWords + target[b][t]]);
        words[b] = target[b][t];
      }
    }
    Executable& loss = set->add("loss", loss_program(model, {4, 4, 2}));
    const StepScalars scalars;
    std::memcpy(loss.input(nmt_input::kScalars), &scalars, sizeof scalars);
    std::memcpy(loss.input(nmt_input::kSource), time_major.data(), 32);
    std::memcpy(loss.input(nmt_input::kSourceLengths), lengths.data(), 8);
    std::memcpy(loss.input(nmt_input::kTargetIn), in.data(), 32);
    std::memcpy(loss.input(nmt_input::kTargetOut), out.data(), 32);
    loss.run();
    EXPECT_NEAR(sum, double(*loss.output("nll")), 1e-4 * sum);
    EXPECT_GT(sum, 1);
  }
}

// Greedy search as its definition says, one sentence at a time.
std::vector<int32_t> by_hand(ProgramSet& set, const NmtOptions& model,
                             const std::vector<int32_t>& source) {
  std::vector<int32_t> out;
  if (source.empty()) return out;
  NmtScorer scorer(set, model, 1);
  const std::vector<int32_t> length = {int32_t(source.size())};
  scorer.start(length[0], source, length);
  std::vector<int32_t> word = {Vocabulary::kBegin};
  while (out.size() < 2 * source.size() + 10) {
    word[0] = likeliest({scorer.step(word), size_t(model.target_vocab)}, false);
    if (word[0] == Vocabulary::kEnd) break;
    out.push_back(word[0]);
  }
  return out;
}

TEST(Translator, neighbours_batches_and_padding_change_nothing) {
  const NmtOptions model = small_model();
  const auto set = drawn(model, 5);
  const auto all = sentences(13, 9);
  const auto together = Translator(*set, model, 4, {3, 6}).greedy(all);
  ASSERT_EQ(together.size(), all.size());
  EXPECT_TRUE(together[2].empty());
  std::set<std::vector<int32_t>> different(together.begin(), together.end());
  EXPECT_GT(different.size(), 4u);  // or this test would show nothing
  Translator wide(*set, model, 16, {20});
  const auto padded = wide.greedy(all);
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(by_hand(*set, model, all[i]), together[i]) << i;
    EXPECT_EQ(padded[i], together[i]) << i;
    EXPECT_LE(together[i].size(), 2 * all[i].size() + 10);
  }
}

TEST(Translator, a_beam_of_one_is_greedy_search) {
  const NmtOptions model = small_model();
  for (const uint64_t seed : {5, 6, 7}) {
    const auto set = drawn(model, seed);
    const auto all = sentences(13, 9);
    Translator translator(*set, model, 4, {3, 6});
    for (const bool unknown : {false, true}) {
      const auto greedy = translator.greedy(all, unknown);
      const auto beam = translator.beam(all, {.beam = 1, .allow_unknown = unknown});
      for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(beam[i][0].words, greedy[i]) << i;
    }
  }
}

TEST(Translator, beams_are_sorted_scored_truly_and_alone_among_neighbours) {
  const NmtOptions model = small_model();
  const auto set = drawn(model, 5);
  const auto all = sentences(13, 9);
  Translator translator(*set, model, 4, {3, 6});
  const BeamOptions options{.beam = 4, .length_penalty = 0.7, .n_best = 4};
  const auto best = translator.beam(all, options);
  const auto neighbours = Translator(*set, model, 16, {20}).beam(all, options);
  int different = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].empty()) {
      ASSERT_EQ(best[i].size(), 1u);
      EXPECT_TRUE(best[i][0].words.empty());
      continue;
    }
    ASSERT_EQ(best[i].size(), 4u);
    const std::vector<std::vector<int32_t>> one = {all[i]};
    const auto alone = translator.beam(one, options);
    for (size_t n = 0; n < 4; ++n) {
      const Hypothesis& h = best[i][n];
      EXPECT_EQ(alone[0][n].words, h.words);
      EXPECT_EQ(neighbours[i][n].words, h.words);
      EXPECT_NEAR(neighbours[i][n].score, h.score, 1e-5);
      EXPECT_NEAR(h.score, h.log_prob / std::pow(double(h.words.size() + 1), 0.7), 1e-12);
      const std::vector<std::vector<int32_t>> target = {h.words};
      EXPECT_NEAR(translator.score(one, target)[0], h.log_prob, 1e-4);
      EXPECT_GE(best[i][n > 0 ? n - 1 : 0].score, h.score);
    }
    different += best[i][0].words != best[i][1].words;
  }
  EXPECT_EQ(different, 12);
}

TEST(Translator, an_ensemble_averages_probabilities) {
  const NmtOptions model = small_model();
  const auto a = drawn(model, 5), same = drawn(model, 5), b = drawn(model, 6);
  const auto all = sentences(9, 7);
  const std::vector<std::vector<int32_t>> targets(9, {5, 6, 4});
  const BeamOptions options{.beam = 3, .n_best = 3};
  Translator single(*a, model, 4, {8}), other(*b, model, 4, {8});
  Translator twice({{a.get(), model, {8}}, {same.get(), model, {8}}}, 4);
  Translator both({{a.get(), model, {8}}, {b.get(), model, {8}}}, 4);
  const auto expected = single.beam(all, options), doubled = twice.beam(all, options);
  const auto mixed = both.beam(all, options);
  int differ = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    for (size_t n = 0; n < expected[i].size(); ++n) {
      EXPECT_EQ(doubled[i][n].words, expected[i][n].words);
      EXPECT_EQ(doubled[i][n].score, expected[i][n].score);  // bit for bit
    }
    differ += mixed[i][0].words != expected[i][0].words;
  }
  EXPECT_GT(differ, 0);
  EXPECT_EQ(twice.score(all, targets), single.score(all, targets));
  // An empty target takes one step, so the average shows itself.
  const std::vector<std::vector<int32_t>> empty(9);
  const auto p = single.score(all, empty), q = other.score(all, empty), m = both.score(all, empty);
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_NEAR(std::exp(m[i]), (std::exp(p[i]) + std::exp(q[i])) / 2, 1e-6);
  }
  const float none = -std::numeric_limits<float>::infinity();
  const std::vector<float> x = {none, 0, none}, y = {none, none, -1};
  std::vector<float> out(3);
  average_log_probs(std::vector<const float*>{x.data(), y.data()}, out);
  EXPECT_EQ(out[0], none);
  EXPECT_FLOAT_EQ(out[1], std::log(0.5f));
  EXPECT_FLOAT_EQ(out[2], -1 + std::log(0.5f));
}

TEST(Translator, every_sentence_ends) {
  NmtOptions model = small_model();
  const auto set = drawn(model, 5);
  for (const StateTensor& slot : set->state()) {  // one word always wins
    auto* data = reinterpret_cast<float*>(slot.data);
    std::fill_n(data, slot.spec.numel(), 0.0f);
    if (slot.name == "output/bias") data[6] = 1;
  }
  const std::vector<std::vector<int32_t>> source = {{4}, {4, 5, 6}};
  const auto out = Translator(*set, model, 2, {3}).greedy(source);
  EXPECT_EQ(out[0], std::vector<int32_t>(12, 6));
  EXPECT_EQ(out[1], std::vector<int32_t>(16, 6));
}

TEST(Translator, compiles_a_bucket_for_what_is_longer_than_all) {
  const NmtOptions model = small_model();
  const auto set = drawn(model, 1);
  Translator translator(*set, model, 2, {3, 12});
  EXPECT_EQ(translator.rung(1), 3);
  EXPECT_EQ(translator.rung(4), 12);
  EXPECT_EQ(translator.rung(13), 20);
  EXPECT_EQ(translator.rung(20), 20);
  const std::vector<std::vector<int32_t>> source = {std::vector<int32_t>(23, 5)};
  translator.greedy(source);
  EXPECT_NE(set->find("encoder/30x2"), nullptr);
  EXPECT_NE(set->find("decoder/30x2"), nullptr);
}

// A run's folder with drawn weights, as a trainer would leave it.
class SavedRun : public testing::Test {
 protected:
  SavedRun()
      : dir_(fs::path(testing::TempDir()) /
             (std::string("pal_translator_") +
              testing::UnitTest::GetInstance()->current_test_info()->name())) {
    fs::remove_all(dir_);
    fs::create_directories(dir_);
    const std::string samples = std::string(PAL_SOURCE_DIR) + "/data/samples/tatoeba_en_vi";
    const Config config = parse_config(
        "model: {type: nmt, hidden: 8, embedding: 6, attention_size: 4, init_scale: 1.0,\n"
        "  encoder_layers: 1, decoder_layers: 1}\n"
        "data: {root: " + samples + ", vocab_min_count: 20, max_length: 10}\n"
        "train: {batch_size: 32, max_epochs: 1}\ndevice: {threads: 1}\n", "test.yaml");
    std::ofstream(dir_ / "config.yaml") << dump_config(config);
    const NmtTask task(config);
    task.save_files(dir_);
    ProgramSet set(compile_options(config.memory), cpu_device(1));
    task.declare_weights(set);
    initialise(set, 7);
    save_weights(dir_ / "last.safetensors", set);
  }
  ~SavedRun() override { fs::remove_all(dir_); }

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
  template <class Use>
  static std::string error_of(Use use) {
    try {
      use();
    } catch (const UsageError& e) {
      EXPECT_EQ(e.exit_code, kExitUsage);
      return e.what();
    }
    return "";
  }
  const fs::path dir_;
};

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
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
  const std::string invalid = error_of([&] { translated("fine\nb\xFF" "d\n"); });
  EXPECT_NE(invalid.find("input.txt: line 2: invalid UTF-8"), std::string::npos);
  testing::internal::GetCapturedStdout();  // the one that the error left open
  EXPECT_NE(error_of([&] { run_translate({dir_, dir_ / "none.txt", false}); }).find("none.txt"),
            std::string::npos);
  EXPECT_NE(error_of([&] { run_translate({dir_ / "none", {}, false}); }).find("no such folder"),
            std::string::npos);
  fs::remove(dir_ / "last.safetensors");
  EXPECT_NE(error_of([&] { run_translate({dir_, {}, false}); }).find("best.safetensors"),
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
  const nlohmann::json perfect = nlohmann::json::parse(
      eval({.model = dir_, .source = file("s", source), .reference = file("r", output),
            .json = true}));
  EXPECT_NEAR(perfect["bleu"].get<double>(), 100, 1e-9);
  EXPECT_NE(error_of([&] {
              eval({.model = dir_, .source = dir_ / "s", .reference = dir_ / "gone"});
            }).find("--reference"), std::string::npos);
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
  EXPECT_NE(error_of([&] { translate(dir_.string() + "," + other.string()); })
                .find("have different target vocabularies"), std::string::npos);
  EXPECT_NE(error_of([&] { translate(dir_.string() + ","); }).find("DIR,DIR"), std::string::npos);
}

TEST_F(SavedRun, best_goes_before_last) {
  const SavedNmt last = open_nmt(dir_);
  EXPECT_EQ(last.weights.filename(), "last.safetensors");
  fs::copy_file(dir_ / "last.safetensors", dir_ / "best.safetensors");
  EXPECT_EQ(open_nmt(dir_).weights.filename(), "best.safetensors");
}

// From nothing to translations: data, training, checkpoint, evaluation.
TEST(Translation, is_learned) {
  const fs::path dir = fs::path(testing::TempDir()) / "pal_translator_learned";
  fs::remove_all(dir);
  TrainArgs args{.config = parse_config(
                     "model: {type: nmt, hidden: 64, embedding: 32, attention_size: 32,\n"
                     "  encoder_layers: 1, decoder_layers: 1, forget_bias: 1.0}\n"
                     "data: {synthetic: true, source_vocab_size: 12, target_vocab_size: 12,\n"
                     "  max_length: 30, bucket_width: 10}\n"
                     "train: {batch_size: 32, steps: 600, lr: 0.005, clip_value: 1.0,\n"
                     "  log_every: 200, valid_every: 300}\n"
                     "device: {threads: 1}\n", "test.yaml"),
                 .name = "test", .out = dir, .json = true};
  testing::internal::CaptureStdout();
  const int code = run_train(args);
  const nlohmann::json summary = nlohmann::json::parse(testing::internal::GetCapturedStdout());
  EXPECT_EQ(code, kExitDone);
  EXPECT_GT(summary["test"]["bleu"].get<double>(), 50);  // 68; untrained: below 1
  EXPECT_LT(summary["test"]["loss"].get<double>(), 0.8);  // 0.40; untrained: ln 16 = 2.8
  testing::internal::CaptureStdout();
  EXPECT_EQ(run_eval({.model = dir, .json = true, .beam = {.beam = 1}}), kExitDone);
  const nlohmann::json result = nlohmann::json::parse(testing::internal::GetCapturedStdout());
  EXPECT_EQ(result["bleu"], summary["test"]["bleu"]);
  EXPECT_EQ(result["loss"], summary["test"]["loss"]);
  fs::remove_all(dir);
}

}  // namespace
}  // namespace pal
