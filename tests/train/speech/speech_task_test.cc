// Recordings that are long enough to be taught, and what an evaluation adds up.
#include "train/speech/speech_task.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tests/support/files.h"
#include "tests/support/thread_group.h"
#include "train/loop/initialise.h"
#include "train/loop/run_options.h"

namespace pal {
namespace {

// Silence of so many samples, 1000 a second.
void write_wav(const std::filesystem::path& file, size_t samples) {
  const auto number = [](size_t value, int bytes) {
    std::string out;
    for (int i = 0; i < bytes; ++i) out += char(value >> 8 * i & 0xff);
    return out;
  };
  std::ofstream(file, std::ios::binary)
      << "RIFF" + number(36 + 2 * samples, 4) + "WAVEfmt " + number(16, 4) + number(1, 2) +
             number(1, 2) + number(1000, 4) + number(2000, 4) + number(2, 2) + number(16, 2) +
             "data" + number(2 * samples, 4) + std::string(2 * samples, '\0');
}

// A letter takes a step at least, and at 1.1 of its speed a recording has fewer frames.
TEST(SpeechData, RecordingsThatAreTooShortAtTheirFastestAreNotTaught) {
  const TemporaryFolder folder;
  std::ofstream list(folder.path() / "list.csv");
  list << "path,transcript\n";
  for (size_t frames = 8; frames <= 14; ++frames) {  // of 20 samples, every 10
    const std::string name = std::to_string(frames) + ".wav";
    write_wav(folder.path() / name, 20 + 10 * (frames - 1));
    list << name << ",abcdefghij\n";
  }
  list.close();
  for (const bool tempo : {false, true}) {
    const Config config = parse_config(
        "model: {type: deepspeech2}\n"
        "data: {root: " +
            folder.path().string() +
            ", train: list.csv, valid: list.csv, sample_rate: 1000, window_ms: 20, hop_ms: 10,\n"
            "  tempo: " +
            (tempo ? "true" : "false") + "}\ntrain: {batch_size: 1, steps: 1}\n",
        "test.yaml");
    SpeechData data(config.speech(), 1, 1, {}, [](int64_t frames) { return frames; });
    const auto frames_of = [&](const char* part) {
      std::vector<int64_t> frames;
      for (const Utterance& each : data.part(part)) frames.push_back(each.frames);
      std::sort(frames.begin(), frames.end());
      return frames;
    };
    EXPECT_EQ(frames_of("valid"), (std::vector<int64_t>{8, 9, 10, 11, 12, 13, 14}));
    const std::vector<int64_t> taught = frames_of("train");
    EXPECT_EQ(taught, tempo ? (std::vector<int64_t>{11, 12, 13, 14})
                            : (std::vector<int64_t>{10, 11, 12, 13, 14}));
  }
}

// The folder's recordings, as they are or joined.
Config recordings_config(const std::filesystem::path& folder, const std::string& train,
                         const std::string& valid, const std::string& more = "") {
  return parse_config(
      "model: {type: deepspeech2, conv_kernels: [3x3], conv_strides: [2x2], conv_channels: 2,\n"
      "  layers: 1, hidden: 4}\n"
      "data: {root: " +
          folder.string() + ", train: " + train + ", valid: " + valid +
          ", sample_rate: 1000, window_ms: 20, hop_ms: 10" + more +
          "}\ntrain: {batch_size: 2, steps: 1}\ndevice: {threads: 1}\n",
      "test.yaml");
}

// What is said in two files is other data than the same said in one, whatever the files' names.
TEST(SpeechData, ItsFingerprintTellsJoinedRecordingsFromOneRecording) {
  const TemporaryFolder folder;
  for (const char* name : {"a.wav", "b.wav"}) write_wav(folder.path() / name, 300);
  std::ofstream(folder.path() / "two.csv") << "path,transcript\na.wav,one\nb.wav,two\n";
  const auto data_of = [&](const char* list, const std::string& more) {
    const Config config = recordings_config(folder.path(), list, list, more);
    return SpeechData(config.speech(), 1, 1, {}, [](int64_t frames) { return frames; });
  };
  const std::string in_twos = ", join_least: 2, join_most: 2, join_train: 1";
  SpeechData joined = data_of("two.csv", in_twos);
  ASSERT_EQ(joined.train().size(), 1u);
  const Utterance both = joined.train()[0];
  ASSERT_EQ(both.files.size(), 2u);
  std::string name;
  for (const std::string& file : both.files) {
    name += std::filesystem::path(file).filename().string();
  }
  write_wav(folder.path() / name, size_t(both.samples));
  std::ofstream(folder.path() / "one.csv") << "path,transcript\n"
                                           << name << "," << both.transcript << "\n";
  SpeechData whole = data_of("one.csv", "");
  ASSERT_EQ(whole.train().size(), 1u);
  EXPECT_EQ(whole.train()[0].frames, both.frames);
  EXPECT_EQ(whole.train()[0].labels, both.labels);
  EXPECT_NE(whole.fingerprint(), joined.fingerprint());
  EXPECT_EQ(data_of("two.csv", in_twos).fingerprint(), joined.fingerprint());
}

// A recording that is listed three times has the loss it has once; one that is too short for its
// transcript does not count.
TEST(SpeechTask, TheLossIsTheMeanOfUtterancesThatAreLongEnough) {
  const TemporaryFolder folder;
  write_wav(folder.path() / "long.wav", 500), write_wav(folder.path() / "short.wav", 100);
  const std::string head = "path,transcript\n", row = "long.wav,abc\n";
  std::ofstream(folder.path() / "once.csv") << head << row;
  std::ofstream(folder.path() / "often.csv") << head << row << row << "short.wav,abcdefghijklm\n"
                                             << row;
  const auto evaluated = [&](const char* list) {
    const Config config = recordings_config(folder.path(), "once.csv", list);
    SpeechTask task(config);
    ProgramSet programs(compile_options(config.memory), cpu_device(1));
    task.declare_weights(programs);
    initialise(programs, 3);
    return task.evaluate(programs, "valid", 1);
  };
  const SpeechEvaluation once = evaluated("once.csv"), often = evaluated("often.csv");
  EXPECT_EQ(once.utterances, 1);
  EXPECT_EQ(often.utterances, 4);
  EXPECT_GT(once.loss, 0);
  EXPECT_NEAR(often.loss, once.loss, 1e-5 * once.loss);
}

// Errors are those of all utterances, whether one alone evaluates or ranks deal out the batches.
TEST(SpeechTask, AnEvaluationAddsUpTheErrorsOfAllUtterances) {
  const Config config = parse_config(
      "model: {type: deepspeech2, conv_kernels: [5x9], conv_strides: [2x2], conv_channels: 2,\n"
      "  layers: 1, hidden: 4}\n"
      "data: {synthetic: true, sample_rate: 2000, max_seconds: 2.2, hop_ms: 25, window_ms: 50,\n"
      "  buckets: 2}\n"
      "train: {batch_size: 16, steps: 1}\ndevice: {threads: 1}\n",
      "test.yaml");
  const auto evaluated = [&](const Dealt& dealt) {
    SpeechTask task(config);
    ProgramSet programs(compile_options(config.memory), cpu_device(1));
    task.declare_weights(programs);
    initialise(programs, 3);
    const SpeechEvaluation result = task.evaluate(programs, "valid", 1, dealt);
    const Validation validation = task.validate(programs, "valid", dealt);
    EXPECT_EQ(validation.metrics[0].first, "wer");
    EXPECT_EQ(validation.metrics[0].second, result.words.percent());
    EXPECT_EQ(validation.metrics[1].first, "cer");
    EXPECT_EQ(validation.metrics[1].second, result.characters.percent());
    return result;
  };
  const SpeechEvaluation alone = evaluated({});
  EXPECT_EQ(alone.utterances, 100);
  EXPECT_GT(alone.loss, 0);
  ErrorRate words, characters;
  for (size_t i = 0; i < alone.references.size(); ++i) {
    words += word_errors(alone.hypotheses[i], alone.references[i]);
    characters += character_errors(alone.hypotheses[i], alone.references[i]);
  }
  EXPECT_GT(words.units, 100);
  EXPECT_GT(characters.units, words.units);
  const auto expect_same = [&](const SpeechEvaluation& other) {
    EXPECT_EQ(other.words.errors, words.errors);
    EXPECT_EQ(other.words.units, words.units);
    EXPECT_EQ(other.characters.errors, characters.errors);
    EXPECT_EQ(other.characters.units, characters.units);
    EXPECT_EQ(other.loss, alone.loss);
    EXPECT_EQ(other.hypotheses, alone.hypotheses);
  };
  expect_same(alone);
  test::as_ranks(
      2, [&](const std::shared_ptr<Group>& group) { expect_same(evaluated(Dealt(group))); });
}

}  // namespace
}  // namespace pal
