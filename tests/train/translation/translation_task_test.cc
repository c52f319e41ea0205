// The translator's data and batches: lazy reading, vocabularies, made-up text, exact resumption,
// errors; and its validation.
#include "train/translation/translation_task.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/error.h"
#include "core/scalars.h"
#include "ops/tensors/transfers.h"
#include "tests/support/files.h"
#include "tests/support/thread_group.h"
#include "train/loop/run_options.h"
#include "train/loop/step_program.h"

namespace pal {
namespace {

namespace fs = std::filesystem;

void write(const fs::path& file, const std::vector<std::string>& lines) {
  std::ofstream out(file);
  for (const std::string& line : lines) out << line << "\n";
}

// A folder with a corpus of short sentences, made anew for each test.
class TranslationTaskTest : public testing::Test {
 protected:
  TranslationTaskTest() {
    fs::create_directories(dir_ / "run");
    std::vector<std::string> source, target;
    for (int i = 0; i < 40; ++i) {
      source.push_back("one two");
      target.push_back("eins zwei");
      for (int j = 0; j < i % 7; ++j) source.back() += " s" + std::to_string((i + j) % 9);
      for (int j = 0; j < i % 5; ++j) target.back() += " t" + std::to_string((i * j) % 9);
    }
    write(dir_ / "train.en", source);
    write(dir_ / "train.vi", target);
    write(dir_ / "valid.en", {"one two.", "s1 two one s2", "", "one"});
    write(dir_ / "valid.vi", {"eins zwei.", "t1 zwei", "eins", "eins"});
  }

  Config config(const std::vector<std::string>& sets = {}) const {
    std::vector<Override> overrides;
    for (const std::string& set : sets) overrides.push_back(parse_set(set));
    return parse_config(
        "model: {type: nmt, hidden: 8, embedding: 6, attention_size: 4,\n"
        "  encoder_layers: 1, decoder_layers: 1}\n"
        "data: {root: " +
            dir_.string() +
            ", max_length: 12}\n"
            "train: {batch_size: 4, max_epochs: 1}\ndevice: {threads: 1}\n",
        "test.yaml", overrides);
  }
  const TemporaryFolder folder_;
  const fs::path dir_ = folder_.path();
};

TEST_F(TranslationTaskTest, batches_cover_the_corpus_and_count_epochs) {
  TranslationTask task(config());
  int64_t samples = 0, words = 0;
  double last = 0;
  bool ended = false;
  while (!ended) {
    const BatchInfo info = task.next(1)[0];
    samples += info.samples;
    words += static_cast<int64_t>(info.normalizer);
    EXPECT_GT(info.epoch, last);
    EXPECT_GT(info.tokens, info.normalizer);
    last = info.epoch;
    ended = info.last_of_epoch;
  }
  EXPECT_EQ(last, 1.0);
  EXPECT_EQ(samples, 40);
  EXPECT_EQ(words, 40 * 3 + 8 * (0 + 1 + 2 + 3 + 4));  // two words, </s>, and i % 5 more
  const std::vector<BatchInfo>& two = task.next(2);
  EXPECT_EQ(two.size(), 2u);
  EXPECT_LT(two[0].epoch, two[1].epoch);
}

TEST_F(TranslationTaskTest, full_batches_have_no_padding) {
  const Config c = config();
  const TranslationTask task(c);
  ProgramSet programs(compile_options(c.memory), choose_device(c.device));
  Executable& step = programs.add("step", record_plan_step(task, c, {5, 3}));
  const BatchInfo info = task.fill_full(step, {5, 3});
  EXPECT_EQ(info.samples, 4);
  EXPECT_EQ(info.tokens, 4 * (5 + 3));
  EXPECT_EQ(info.normalizer, 4 * 3);
  auto ids_of = [&](const char* input, int count) {
    const auto* ids = reinterpret_cast<const int32_t*>(step.input(input));
    return std::vector<int32_t>(ids, ids + count);
  };
  for (const auto& [input, count, size] :
       {std::tuple{translation_input::kSource, 4 * 5, task.data().source().size()},
        {translation_input::kTargetIn, 4 * 3, task.data().target().size()},
        {translation_input::kTargetOut, 4 * 3, task.data().target().size()}}) {
    for (int32_t id : ids_of(input, count)) {
      EXPECT_GE(id, Vocabulary::kSpecials) << input;
      EXPECT_LT(id, size) << input;
    }
  }
  EXPECT_EQ(ids_of(translation_input::kSourceLengths, 4), std::vector<int32_t>(4, 5));
}

TEST_F(TranslationTaskTest, vocabularies_come_from_the_training_text_or_from_files) {
  TranslationTask made(config());
  EXPECT_EQ(made.data().source().size(), 4 + 2 + 9);
  EXPECT_EQ(made.data().target().word(4), "eins");  // as frequent as zwei, and before it in bytes
  TranslationTask frequent(config({"data.vocab_min_count=40"}));
  EXPECT_EQ(frequent.data().source().words().back(), "two");
  EXPECT_EQ(frequent.data().source().size(), 6);
  TranslationTask few(config({"data.target_vocab_size=3"}));
  EXPECT_EQ(few.data().target().word(5), "t0");  // 40 times, like eins and zwei: by bytes
  EXPECT_EQ(few.data().target().size(), 7);
  TranslationTask shared(config({"data.shared_vocabulary=true"}));
  EXPECT_EQ(shared.data().source().words(), shared.data().target().words());
  EXPECT_EQ(shared.data().source().size(), 4 + 2 + 2 + 9 + 9);

  write(dir_ / "words", {"<pad>", "<unk>", "<s>", "</s>", "two", "one", "three"});
  TranslationTask from_file(config({"data.source_vocab=words"}));
  EXPECT_EQ(from_file.data().source().word(4), "two");
  EXPECT_EQ(from_file.data().target().word(4), "eins");
  TranslationTask cut(config({"data.source_vocab=words", "data.source_vocab_size=2"}));
  EXPECT_EQ(cut.data().source().size(), 6);
  TranslationTask one_file(config({"data.source_vocab=words", "data.shared_vocabulary=true"}));
  EXPECT_EQ(one_file.data().target().words(), one_file.data().source().words());
  EXPECT_EQ(one_file.data().target().word(4), "two");
  fs::remove(dir_ / "train.en");  // with both files nothing else is read
  TranslationTask both(config({"data.source_vocab=words", "data.target_vocab=words"}));
  EXPECT_EQ(both.data().target().size(), 7);
  EXPECT_NE(usage_error_of([&] { both.bucket_count(); }).find("train.en"), std::string::npos);
}

TEST_F(TranslationTaskTest, a_run_folder_stands_in_for_the_training_text) {
  TranslationTask first(config());
  first.save_files(dir_ / "run");
  fs::remove(dir_ / "train.en");
  TranslationTask second(config(), dir_ / "run");
  EXPECT_EQ(second.data().source().words(), first.data().source().words());
  EXPECT_EQ(second.data().target().words(), first.data().target().words());
  EXPECT_EQ(second.data().ladder().buckets, first.data().ladder().buckets);
  EXPECT_EQ(second.data().ladder().batch, 4);
  write(dir_ / "run/buckets.txt", {"5 6", "4 7"});
  TranslationTask third(config(), dir_ / "run");
  EXPECT_NE(usage_error_of([&] { third.bucket_count(); }).find("buckets.txt: line 2"),
            std::string::npos);
}

TEST_F(TranslationTaskTest, missing_files_say_which_key_and_what_to_do) {
  fs::remove(dir_ / "train.vi");
  const std::string what = usage_error_of([&] { TranslationTask task(config()); });
  EXPECT_NE(what.find((dir_ / "train.vi").string()), std::string::npos);
  EXPECT_NE(what.find("data.train_target"), std::string::npos);
  EXPECT_NE(what.find("data/samples/tatoeba_en_vi"), std::string::npos);
  const std::string iwslt =
      usage_error_of([&] { TranslationTask task(config({"data.root=data/IWSLT15"})); });
  EXPECT_NE(iwslt.find("nlp.stanford.edu/projects/nmt"), std::string::npos);
  EXPECT_NE(usage_error_of([&] {
              TranslationTask task(config(), dir_ / "run");
            }).find("vocab.source.txt"),
            std::string::npos);
}

// The words of the next batches, as numbers that tell batches apart.
std::vector<std::vector<int32_t>> take(TranslationTask& task, int count) {
  std::vector<std::vector<int32_t>> taken;
  for (const BatchInfo& info : task.next(count)) {
    taken.push_back({info.bucket, static_cast<int32_t>(info.normalizer),
                     static_cast<int32_t>(info.tokens), static_cast<int32_t>(1000 * info.epoch)});
  }
  return taken;
}

TEST_F(TranslationTaskTest, a_position_resumes_exactly) {
  TranslationTask whole(config());
  EXPECT_EQ(whole.position().substr(0, 20), "epoch 0 batch 0 data");
  take(whole, 7);
  const std::string position = whole.position();
  const auto rest = take(whole, 9);
  TranslationTask other(config());
  take(other, 3);
  other.restore(position);
  EXPECT_EQ(other.position(), position);
  EXPECT_EQ(take(other, 9), rest);
  EXPECT_EQ(other.position(), whole.position());
}

TEST_F(TranslationTaskTest, another_corpus_or_a_torn_position_is_refused) {
  TranslationTask task(config());
  const std::string position = task.position();
  TranslationTask wider(config({"data.bucket_width=3"}));
  EXPECT_NE(usage_error_of([&] { wider.restore(position); }).find("cannot resume"),
            std::string::npos);
  for (const std::string& torn :
       {std::string(), position.substr(0, 12), position + "0", "x" + position}) {
    EXPECT_NE(usage_error_of([&] { task.restore(torn); }), "") << torn;
  }
  std::fstream text(dir_ / "train.vi", std::ios::in | std::ios::out);
  text << "zwei eins";  // two words change places: as many of each as before
  text.close();
  TranslationTask changed(config());
  EXPECT_NE(usage_error_of([&] { changed.restore(position); }).find("training text"),
            std::string::npos);
}

TEST_F(TranslationTaskTest, made_up_text_is_real_and_says_what_it_is) {
  const std::vector<std::string> sets = {"data.synthetic=true", "data.source_vocab_size=50",
                                         "data.target_vocab_size=40", "data.max_length=100"};
  TranslationTask task(config(sets)), again(config(sets));
  EXPECT_EQ(task.describe()[0].substr(0, 14), "SYNTHETIC TEXT");
  EXPECT_EQ(task.data().source().size(), 54);
  EXPECT_EQ(task.data().target().size(), 44);
  EXPECT_EQ(task.position(), again.position());
  auto other = sets;
  other.push_back("train.seed=2");
  EXPECT_NE(TranslationTask(config(other)).position(), task.position());

  const EncodedText& text = task.data().train();
  double words = 0, longest = 0;
  for (const PairLength& each : text.lengths()) {
    words += each.source;
    longest = std::max<double>(longest, each.source);
    ASSERT_GE(each.target, each.source + 1);
  }
  EXPECT_NEAR(words / static_cast<double>(text.size()), 20, 2);
  EXPECT_GT(longest, 80);
  const TranslationPart& valid = task.data().part("valid");
  EXPECT_EQ(valid.lines.source.size(), 200u);
  EXPECT_NE(valid.lines.source, task.data().part("test").lines.source);
  // Its lines and its numbers agree.
  EXPECT_EQ(task.data().source().encode(tokenize(valid.lines.source[7], Tokenizer::simple)),
            std::vector<int32_t>(valid.text.source(7).begin(), valid.text.source(7).end()));

  EXPECT_NE(usage_error_of([&] {
              TranslationTask(config({"data.synthetic=true"}));
            }).find("data.source_vocab_size"),
            std::string::npos);
}

// A set with the model's weights, all of them `value`.
std::unique_ptr<ProgramSet> constant_weights(const TranslationTask& task, const Config& config,
                                             float value) {
  auto set = std::make_unique<ProgramSet>(compile_options(config.memory), cpu_device(1));
  task.declare_weights(*set);
  for (const StateTensor& slot : set->state()) {
    std::fill_n(reinterpret_cast<float*>(slot.data), slot.spec.numel(), value);
  }
  return set;
}

TEST_F(TranslationTaskTest, a_model_that_knows_nothing_costs_the_vocabulary) {
  const Config c = config();
  TranslationTask task(c);
  const auto set = constant_weights(task, c, 0);
  const TranslationEvaluation result = task.evaluate(*set, task.data().part("valid"));
  EXPECT_NEAR(result.loss, std::log(task.data().target().size()), 1e-5);
  // All words are equally likely: </s> has the lowest id of those that may be chosen.
  EXPECT_EQ(result.hypotheses, std::vector<std::string>(4, ""));
  const Validation validation = task.validate(*set, "valid", {});
  EXPECT_EQ(validation.loss, result.loss);
  EXPECT_EQ(validation.best_by, "bleu");
  ASSERT_EQ(validation.metrics.size(), 1u);
  EXPECT_EQ(validation.metrics[0].first, "bleu");
  EXPECT_EQ(validation.metrics[0].second, 0);
  ASSERT_EQ(validation.samples.size(), 4u);  // no more than there are lines
  EXPECT_EQ(validation.samples[1].first, "s1 two one s2");
}

// Ranks that deal out the batches all have what one alone has.
TEST_F(TranslationTaskTest, ranks_validate_as_one_alone) {
  const Config c = config({"train.batch_size=1"});
  TranslationTask alone(c);
  const auto set = constant_weights(alone, c, 0.125f);
  const TranslationEvaluation expected = alone.evaluate(*set, alone.data().part("valid"));
  EXPECT_GT(expected.loss, 0.1);
  for (const int ranks : {2, 3}) {
    test::as_ranks(ranks, [&](const std::shared_ptr<Group>& group) {
      TranslationTask task(c);
      const auto own = constant_weights(task, c, 0.125f);
      const TranslationEvaluation result =
          task.evaluate(*own, task.data().part("valid"), Dealt(group));
      EXPECT_EQ(result.loss, expected.loss);
      EXPECT_EQ(result.hypotheses, expected.hypotheses);
    });
  }
}

TEST_F(TranslationTaskTest, fill_refuses_another_buckets_program) {
  const Config c = config({"data.bucket_width=4"});
  TranslationTask task(c);
  ASSERT_GT(task.bucket_count(), 1);
  auto record = [&](int bucket) {
    Builder b;
    Val scalars = step_scalars(b.input("scalars", scalars_spec(), Space::host));
    const Recorded recorded = task.record(b, bucket, scalars, false);
    b.output("loss", recorded.loss);
    for (const auto& [name, value] : recorded.outputs) b.output(name, value);
    return b.take();
  };
  ProgramSet set(compile_options(c.memory), cpu_device(1));
  const BatchInfo info = task.next(1)[0];
  Executable& right = set.add("right", record(info.bucket));
  Executable& wrong = set.add("wrong", record(info.bucket == 0 ? 1 : 0));
  EXPECT_THROW(task.fill(wrong, 0), ProgramError);
  for (const StateTensor& slot : set.state()) std::memset(slot.data, 0, size_t(slot.spec.bytes()));
  StepScalars scalars;
  scalars.tokens = static_cast<float>(info.normalizer);
  std::memcpy(right.input("scalars"), &scalars, sizeof scalars);
  task.fill(right, 0);
  right.run();
  EXPECT_NEAR(*right.output("loss"), std::log(task.data().target().size()), 1e-5);
}

}  // namespace
}  // namespace pal
