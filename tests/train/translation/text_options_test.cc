// Runs whose text is cut into learned pieces, whose batches are counted in words, and whose
// vocabularies others made: from training to every command that uses the run's folder.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/error.h"
#include "core/scalars.h"
#include "ops/tensors/transfers.h"
#include "tests/support/files.h"
#include "train/commands/commands.h"
#include "train/loop/run_options.h"
#include "train/loop/trainer.h"
#include "train/tasks/make_task.h"
#include "train/translation/ensemble.h"
#include "train/translation/translation_task.h"

namespace pal {
namespace {

namespace fs = std::filesystem;

class TextOptions : public testing::Test {
 protected:
  TextOptions() {
    fs::create_directories(dir_ / "corpus");
    for (const char* part : {"train", "valid", "test"}) {
      for (const char* language : {"en", "vi"}) copy_lines(std::string(part) + "." + language);
    }
  }

  // The first lines of a file that ships: enough, and quick.
  void copy_lines(const std::string& name) const {
    std::ifstream in(std::string(PAL_SOURCE_DIR) + "/data/samples/tatoeba_en_vi/" + name);
    std::ofstream out(dir_ / "corpus" / name);
    std::string line;
    const int most = name.starts_with("train") ? 300 : 20;
    for (int i = 0; i < most && std::getline(in, line); ++i) out << line << "\n";
  }
  Config config(const std::string& data, const std::string& train) const {
    return parse_config(
        "model: {type: nmt, hidden: 16, embedding: 12, attention_size: 8,\n"
        "  encoder_layers: 1, decoder_layers: 1, dropout: 0.1}\n"
        "data: {root: " +
            (dir_ / "corpus").string() + ", max_length: 30" + data +
            "}\ntrain: {log_every: 1, valid_every: 1000" + train + "}\ndevice: {threads: 1}\n",
        "test.yaml");
  }
  nlohmann::json train(const Config& config, const std::string& name, bool resume = false) const {
    testing::internal::CaptureStdout();
    const TrainArgs args{
        .config = config, .name = "test", .out = dir_ / name, .resume = resume, .json = true};
    const int code = run_train(args);
    const std::string out = testing::internal::GetCapturedStdout();
    EXPECT_EQ(code, kExitDone);
    return nlohmann::json::parse(out);
  }
  const TemporaryFolder folder_;
  const fs::path dir_ = folder_.path();
};

TEST_F(TextOptions, a_run_with_pieces_needs_nothing_but_its_folder) {
  const Config c = config(", tokenizer: sentencepiece, sentencepiece_size: 200",
                          ", batch_size: 16, steps: 6, save_every: 3");
  train(c, "run");
  EXPECT_TRUE(fs::exists(dir_ / "run/source.model"));
  EXPECT_FALSE(fs::exists(dir_ / "run/vocab.source.txt"));
  Config three = c;
  three.train.steps = std::optional<int64_t>(3);
  train(three, "resumed");
  EXPECT_EQ(read_file(dir_ / "run/source.model"),
            read_file(dir_ / "resumed/source.model"));  // learned alike
  EXPECT_NE(read_file(dir_ / "run/source.model"), read_file(dir_ / "run/target.model"));
  train(c, "resumed", true);
  EXPECT_EQ(read_file(dir_ / "run/last.safetensors"), read_file(dir_ / "resumed/last.safetensors"));

  fs::rename(dir_ / "corpus", dir_ / "away");
  const Ensemble one((dir_ / "run").string()),
      two((dir_ / "run").string() + "," + (dir_ / "resumed").string());
  const std::vector<std::string> lines = {"I am here.", "", "What is it?"};
  const auto translations = one.translate(lines, {.beam = 2});
  ASSERT_EQ(translations.size(), 3u);
  EXPECT_EQ(translations[1][0].text, "");
  for (const auto& best : translations) {
    EXPECT_EQ(best[0].text.find("\u2581"), std::string::npos);  // text, not pieces
  }
  EXPECT_EQ(two.translate(lines, {.beam = 2})[2][0].text, translations[2][0].text);
  const std::vector<std::string> targets = {"T\u00f4i \u1edf \u0111\u00e2y.", "", "G\u00ec?"};
  EXPECT_EQ(one.score(lines, targets).size(), 3u);
  EXPECT_LT(one.score(lines, targets)[0], 0);
  // A perfect reference is the text of the translations, whatever its pieces.
  TranslationPart part;
  part.lines = {lines, {}};
  for (const auto& best : translations) part.lines.target.push_back(best[0].text);
  std::ofstream(dir_ / "s") << lines[0] << "\n\n" << lines[2] << "\n";
  std::ofstream out(dir_ / "t");
  for (const std::string& line : part.lines.target) out << line << "\n";
  out.close();
  const TranslationPart files =
      one.data().read_part({(dir_ / "s").string(), ""}, {(dir_ / "t").string(), ""});
  const TranslationEvaluation result = one.evaluate(files, {.beam = 2});
  EXPECT_EQ(result.hypotheses, part.lines.target);
  EXPECT_GT(result.loss, 0);
}

TEST_F(TextOptions, one_model_for_both_languages_or_one_that_is_given) {
  const TranslationTask shared(
      config(", tokenizer: sentencepiece, sentencepiece_size: 150,\n"
             "  sentencepiece_model: bpe, shared_vocabulary: true",
             ", max_epochs: 1"));
  EXPECT_EQ(shared.data().source().words(), shared.data().target().words());
  EXPECT_EQ(shared.data().source().size(), 154);
  EXPECT_TRUE(shared.data().source_segmenter() == shared.data().target_segmenter());
  shared.data().source_segmenter().pieces()->save((dir_ / "corpus/mine.model").string());

  const std::string given = ", tokenizer: sentencepiece, sentencepiece_file: mine.model";
  const TranslationTask from_file(config(given, ", max_epochs: 1"));
  EXPECT_EQ(from_file.data().target().words(), shared.data().target().words());
  EXPECT_TRUE(from_file.data().source_segmenter() == shared.data().source_segmenter());
  fs::remove(dir_ / "corpus/mine.model");
  const std::string message =
      usage_error_of([&] { TranslationTask task(config(given, ", max_epochs: 1")); });
  EXPECT_NE(message.find("mine.model (data.sentencepiece_file): no such file"), std::string::npos)
      << message;
}

TEST_F(TextOptions, made_up_text_has_as_many_words_as_pieces) {
  const TranslationTask task(
      config(", tokenizer: sentencepiece, sentencepiece_size: 50, synthetic: true,\n"
             "  target_vocab_size: 40",
             ", max_epochs: 1"));
  EXPECT_EQ(task.data().source().size(), 54);
  EXPECT_EQ(task.data().target().size(), 44);
}

TEST_F(TextOptions, an_ensemble_needs_the_same_pieces) {
  const std::string train_part = ", batch_size: 16, steps: 1";
  train(config(", tokenizer: sentencepiece, sentencepiece_size: 150", train_part), "a");
  train(config(", tokenizer: sentencepiece, sentencepiece_size: 160", train_part), "b");
  const std::string both = (dir_ / "a").string() + "," + (dir_ / "b").string();
  EXPECT_NE(usage_error_of([&] { Ensemble models(both); }).find("different target vocabularies"),
            std::string::npos);
}

TEST_F(TextOptions, batches_are_counted_in_words) {
  const Config c = config("", ", batch_words: 128, max_epochs: 1");
  TranslationTask task(c);
  ASSERT_GT(task.bucket_count(), 2);
  std::vector<int64_t> rows;
  int64_t samples = 0;
  for (bool ended = false; !ended;) {
    const BatchInfo info = task.next(1)[0];
    const auto [S, T] = task.bucket_lengths(info.bucket);
    EXPECT_LE(info.samples * std::max(S, T), 128);
    samples += info.samples;
    ended = info.last_of_epoch;
  }
  EXPECT_EQ(samples, 300);
  // What is recorded is what is filled: rows differ from bucket to bucket.
  auto scalars_of = [](Builder& b) {
    return step_scalars(b.input("scalars", scalars_spec(), Space::host));
  };
  auto rows_of = [&](const Recorded& recorded, Builder& b) {
    b.output("loss", recorded.loss);
    const Program program = b.take();
    return program.value(program.input("source")).spec.shape[1];
  };
  for (int bucket = 0; bucket < task.bucket_count(); ++bucket) {
    const auto [S, T] = task.bucket_lengths(bucket);
    const int64_t fit = 128 / std::max(S, T), expected = fit >= 8 ? fit / 8 * 8 : fit;
    Builder b, by_lengths;
    EXPECT_EQ(rows_of(task.record(b, bucket, scalars_of(b), false), b), expected);
    EXPECT_EQ(
        rows_of(task.record_lengths(by_lengths, {S, T}, scalars_of(by_lengths), false), by_lengths),
        expected);
    rows.push_back(expected);
  }
  EXPECT_GT(rows.front(), rows.back());
  EXPECT_EQ(task.batch(), rows.back());
}

TEST_F(TextOptions, a_run_in_words_resumes_to_the_same_bits) {
  const Config c = config("", ", batch_words: 128, steps: 14, save_every: 7");
  train(c, "whole");
  Config half = c;
  half.train.steps = std::optional<int64_t>(7);
  train(half, "half");
  train(c, "half", true);
  EXPECT_EQ(read_file(dir_ / "whole/last.safetensors"), read_file(dir_ / "half/last.safetensors"));

  // Three columns, and the batches that they say.
  std::istringstream buckets(read_file(dir_ / "whole/buckets.txt"));
  int source = 0, target = 0, rows = 0, lines = 0;
  while (buckets >> source >> target >> rows) {
    EXPECT_EQ(rows, BatchSize::of_words(128).rows(source, target));
    ++lines;
  }
  TranslationTask task(c, dir_ / "whole");
  EXPECT_EQ(task.bucket_count(), lines);

  // Old files of two columns; and damaged ones.
  std::ofstream(dir_ / "whole/buckets.txt") << "9 9\n30 30\n";
  TranslationTask old(c, dir_ / "whole");
  EXPECT_EQ(old.data().ladder().rows(0), 8);
  EXPECT_EQ(old.data().ladder().rows(1), 4);
  for (const char* damaged : {"9 9 0\n", "9 9 -4\n", "9 9 4 4\n", "9\n", "9 9 x\n"}) {
    std::ofstream(dir_ / "whole/buckets.txt") << damaged;
    TranslationTask broken(c, dir_ / "whole");
    EXPECT_NE(usage_error_of([&] { broken.bucket_count(); }).find("buckets.txt: line 1"),
              std::string::npos)
        << damaged;
  }
  std::ofstream(dir_ / "whole/buckets.txt") << "9 9 8\n";  // where no words are counted
  TranslationTask sentences(config("", ", batch_size: 4, steps: 1"), dir_ / "whole");
  EXPECT_NE(usage_error_of([&] { sentences.bucket_count(); }), "");
}

TEST_F(TextOptions, the_largest_plan_is_found_among_the_buckets) {
  // 3 rows of 30 words are fewer words than 7 of 15: the last bucket is not the largest.
  const Config c = config(", bucket_width: 15", ", batch_words: 119, steps: 1");
  TrainArgs args{.config = c, .name = "test", .out = dir_ / "run"};
  const TranslationTask task(c);
  const BucketLadder& ladder = task.data().ladder();
  const std::vector<int> candidates = task.largest_candidates();
  EXPECT_EQ(candidates.front(), task.bucket_count() - 1);
  Trainer trainer(args, make_task(args));
  EXPECT_NE(trainer.largest_bucket(), task.bucket_count() - 1) << ladder.print();
  const int64_t most = trainer.largest().compiled().plan.device().bytes;
  for (int bucket = 0; bucket < task.bucket_count(); ++bucket) {
    const auto [S, T] = task.bucket_lengths(bucket);
    Program program =
        record_step([&](Builder& b, Val scalars) { return task.record(b, bucket, scalars, true); },
                    c.train, MicroBatch::only);
    const StateLayout layout(program);
    KernelCache cache(cpu_device(1));
    const Compiled step = compile(std::move(program), cache, layout, compile_options(c.memory));
    EXPECT_LE(step.plan.device().bytes, most) << S << "x" << T << " of " << ladder.print();
    if (bucket == trainer.largest_bucket()) {
      EXPECT_EQ(step.plan.device().bytes, most);
    }
  }
}

TEST_F(TextOptions, vocabularies_of_others_are_read_and_saved_as_ours) {
  std::ofstream(dir_ / "corpus/vocab.en") << "<unk>\n<s>\n</s>\nI\nis\n.\n";
  std::ofstream(dir_ / "corpus/dict.vi") << "t\u00f4i 12\n. 7\nl\u00e0 5\n";
  const Config c = config(", source_vocab: vocab.en, target_vocab: dict.vi, target_vocab_size: 2",
                          ", batch_size: 16, steps: 2");
  train(c, "run");
  EXPECT_EQ(read_file(dir_ / "run/vocab.source.txt"), "<pad>\n<unk>\n<s>\n</s>\nI\nis\n.\n");
  EXPECT_EQ(read_file(dir_ / "run/vocab.target.txt"), "<pad>\n<unk>\n<s>\n</s>\nt\u00f4i\n.\n");
  EXPECT_NO_THROW(open_nmt(dir_ / "run"));
  std::ofstream(dir_ / "corpus/vocab.en") << "I\nis\nI\n";
  const std::string message = usage_error_of([&] { TranslationTask task(c); });
  EXPECT_NE(message.find("vocab.en (data.source_vocab): line 3 repeats 'I' of line 1"),
            std::string::npos)
      << message;
}

TEST_F(TextOptions, sentences_that_are_all_too_long_are_an_error_and_some_are_counted) {
  const TranslationTask some(config("", ", max_epochs: 1"));
  std::ofstream(dir_ / "corpus/train.en", std::ios::app) << std::string(80, 'a') << "\n\n";
  {
    std::ofstream(dir_ / "corpus/train.vi", std::ios::app) << "mot\nhai\n";
    std::ofstream more(dir_ / "corpus/train.en", std::ios::app);
    std::ofstream other(dir_ / "corpus/train.vi", std::ios::app);
    for (int i = 0; i < 60; ++i) more << "long ", other << "d\u00e0i ";
    more << "\n", other << "\n";
  }
  const TranslationTask task(config("", ", max_epochs: 1"));
  EXPECT_NE(task.describe().back().find("left out: 1 too long, 1 empty"), std::string::npos)
      << task.describe().back();
  std::ofstream(dir_ / "corpus/train.en") << "a b c d e f g h i j k l m n o p q r s t u v w x y z "
                                             "a b c d e f g h i j\n";
  std::ofstream(dir_ / "corpus/train.vi") << "a\n";
  const TranslationTask none(config("", ", max_epochs: 1"));
  const std::string message = usage_error_of([&] { none.bucket_count(); });
  EXPECT_NE(message.find("none of 1 sentence pairs has 1 to 30 steps"), std::string::npos)
      << message;
}

}  // namespace
}  // namespace pal
