// Lists of recordings, the symbols of transcripts, and corpora with faults in them.
#include "data/manifest.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string_view>

#include "core/error.h"
#include "data/audio.h"
#include "data/labels.h"
#include "data/speech_batches.h"
#include "data/speech_corpus.h"

namespace pal {
namespace {

namespace fs = std::filesystem;

const std::string kDigits = PAL_SOURCE_DIR "/data/samples/spoken_digits";

class ManifestTest : public testing::Test {
 protected:
  ManifestTest()
      : dir_(fs::path(testing::TempDir()) /
             ("pal_manifest_" + std::to_string(getpid()) + "_" +
              testing::UnitTest::GetInstance()->current_test_info()->name())) {
    fs::create_directories(dir_);
  }
  ~ManifestTest() override { fs::remove_all(dir_); }

  std::vector<ManifestEntry> read(const std::string& name, const std::string& text) const {
    std::ofstream(dir_ / name) << text;
    return read_manifest({(dir_ / name).string(), "data.train", ""});
  }
  std::string error_of(const std::string& name, const std::string& text) const {
    try {
      (void)read(name, text);
    } catch (const UsageError& e) {
      EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos);
      return e.what();
    }
    return "";
  }

  fs::path dir_;
};

TEST_F(ManifestTest, IsATableOrObjects) {
  for (const auto& [name, text] :
       {std::pair("a.csv",
                  "path,transcript,speaker,split\na.wav,one two,anna,train\n"
                  "\"b,c.wav\",\"say \"\"no\"\"\",,test\n"),
        std::pair("a.tsv",
                  "seconds\tsplit\tfile\ttext\tspeaker\n1\ttrain\ta.wav\tone two\tanna\n"
                  "\n2\ttest\tb,c.wav\tsay \"no\"\t\n"),
        std::pair("a.jsonl",
                  "{\"audio_filepath\": \"a.wav\", \"text\": \"one two\", \"speaker\": \"anna\", "
                  "\"split\": \"train\", \"duration\": 1}\n\n"
                  "{\"path\": \"b,c.wav\", \"transcript\": \"say \\\"no\\\"\", \"split\": "
                  "\"test\"}\n")}) {
    const std::vector<ManifestEntry> got = read(name, text);
    ASSERT_EQ(got.size(), 2u) << name;
    EXPECT_EQ(got[0].path, "a.wav");
    EXPECT_EQ(got[0].transcript, "one two");
    EXPECT_EQ(got[0].speaker, "anna");
    EXPECT_EQ(got[0].split, "train");
    EXPECT_EQ(got[1].path, "b,c.wav");
    EXPECT_EQ(got[1].transcript, "say \"no\"");
    EXPECT_EQ(got[1].speaker, "");
  }
}

TEST_F(ManifestTest, SaysWhatIsWrongAndWhere) {
  EXPECT_NE(error_of("a.csv", "path,words\na,b\n").find("a.csv:1: "), std::string::npos);
  EXPECT_NE(error_of("a.csv", "name,transcript\na,b\n").find("no column path"), std::string::npos);
  EXPECT_NE(error_of("a.csv", "path,transcript\na\n").find("a.csv:2: 1 fields"), std::string::npos);
  EXPECT_NE(error_of("a.csv", "path,transcript\n\"a,b\n").find("a.csv:2: a quote"),
            std::string::npos);
  EXPECT_NE(error_of("a.csv", "path,transcript\n,b\n").find("names no file"), std::string::npos);
  EXPECT_NE(error_of("a.csv", "path,transcript\n").find("lists no recording"), std::string::npos);
  EXPECT_NE(error_of("a.jsonl", "{\"path\": \"a\"}\n").find("a.jsonl:1: no string \"transcript\""),
            std::string::npos);
  EXPECT_NE(error_of("a.jsonl", "{\"path\": \n").find("JSON object"), std::string::npos);
  EXPECT_NE(error_of("a.lst", "a b\n").find(".csv, .tsv or .jsonl"), std::string::npos);
}

TEST(LabelsTest, SpellTranscripts) {
  const Labels labels;
  EXPECT_EQ(labels.size(), 29);
  const auto ids = labels.encode("  It's\t ABBA ", true);
  ASSERT_TRUE(ids);
  EXPECT_EQ(labels.decode(*ids), "it's abba");
  EXPECT_EQ(least_steps(*ids), 10);  // nine, and a blank between the b's
  std::string unknown;
  EXPECT_FALSE(labels.encode("caf\xC3\xA9", true, &unknown));
  EXPECT_EQ(unknown, "\xC3\xA9");
  EXPECT_FALSE(labels.encode("ABBA", false, &unknown));
  EXPECT_EQ(unknown, "A");
  EXPECT_FALSE(labels.encode("bad \xFF", true, &unknown));
  EXPECT_EQ(labels.encode(" ", true)->size(), 0u);
}

TEST(LabelsTest, StepsAreOfTheLabelsGiven) {
  const std::vector<int32_t> labels{1, 1, 2, 3, 3, 3};
  const std::vector<int64_t> steps{0, 1, 3, 4, 5, 7, 9};
  for (size_t n = 0; n < steps.size(); ++n) {
    EXPECT_EQ(least_steps(std::span(labels).first(n)), steps[n]) << n;
  }
}

TEST_F(ManifestTest, LabelsComeFromAFile) {
  const std::string path = (dir_ / "labels.txt").string();
  std::ofstream(path) << "\xC3\xA9\n \nx\n";
  const Labels labels = Labels::load({path, "data.labels", ""});
  EXPECT_EQ(labels.encode("x \xC3\x89", true), (std::vector<int32_t>{3, 2, 1}));
  const std::string again = (dir_ / "again.txt").string();
  labels.save(again);
  EXPECT_EQ(Labels::load({again, "", ""}), labels);
  for (const char* wrong : {"a\nbc\n", "a\na\n", "a\n\nb\n"}) {
    std::ofstream(path) << wrong;
    try {
      Labels::load({path, "data.labels", ""});
      FAIL() << wrong;
    } catch (const UsageError& error) {
      EXPECT_TRUE(std::string(error.what()).starts_with(path + ":2: ")) << error.what();
    }
  }
  // A file that is something else may have lines of any length; 40 bytes of them are shown.
  for (const size_t length : {39u, 40u, 41u, 1000u}) {
    std::ofstream(path) << std::string(length, 'x');
    try {
      Labels::load({path, "data.labels", ""});
      FAIL() << length;
    } catch (const UsageError& error) {
      const std::string_view said = error.what();
      EXPECT_EQ(std::count(said.begin() + said.find(", got '"), said.end(), 'x'),
                std::min<size_t>(length, 40));
    }
  }
}

// A list with every kind of fault: left out and counted, or refused.
TEST_F(ManifestTest, FaultsAreSkippedOrRefused) {
  fs::copy_file(kDigits + "/7_theo_6.flac", dir_ / "good.flac");
  fs::copy_file(kDigits + "/3_theo_6.flac", dir_ / "cut.flac");
  fs::resize_file(dir_ / "cut.flac", 20);
  std::ofstream(dir_ / "text.wav") << "nothing to hear";
  const std::vector<ManifestEntry> entries = {{"good.flac", "SEVEN", "theo", "", 2},
                                              {"missing.wav", "one", "", "", 3},
                                              {"text.wav", "one", "", "", 4},
                                              {"cut.flac", "three", "", "", 5},
                                              {"good.flac", "7", "", "", 6}};
  SpeechOptions options;
  options.spectrogram.rate = 8000;
  Faults faults;
  const auto kept = check_entries(entries, dir_.string(), Labels(), options, faults);
  ASSERT_EQ(kept.size(), 1u);
  EXPECT_EQ(kept[0].transcript, "seven");
  EXPECT_EQ(kept[0].labels, Labels().encode("seven", false));
  EXPECT_EQ(faults.count, 4);
  EXPECT_NE(faults.first.find("missing.wav"), std::string::npos);
  options.skip_faults = false;
  EXPECT_THROW(check_entries(entries, dir_.string(), Labels(), options, faults), UsageError);
  options.skip_faults = true, options.max_seconds = 0.1, faults = {};
  EXPECT_TRUE(check_entries({entries[0]}, dir_.string(), Labels(), options, faults).empty());
  EXPECT_NE(faults.first.find("data.max_seconds"), std::string::npos);
}

std::vector<Utterance> digits(const std::string& part, SpeechOptions& options) {
  options.spectrogram.rate = 8000, options.join_gap = 0.05;
  std::vector<ManifestEntry> entries = read_manifest({kDigits + "/manifest.csv", "", ""});
  std::erase_if(entries, [&](const ManifestEntry& e) { return e.split != part; });
  Faults faults;
  auto out = check_entries(entries, kDigits, Labels(), options, faults);
  EXPECT_EQ(faults.count, 0) << faults.first;
  return out;
}

TEST(Joined, AreRecordingsOfOneSpeakerAndOnePart) {
  SpeechOptions options;
  const auto test = digits("test", options), train = digits("train", options);
  EXPECT_EQ(test.size(), 60u);
  EXPECT_EQ(train.size(), 300u);
  const auto strings = join_utterances(test, Labels(), options, 100, 3, 7, 1, 3);
  ASSERT_EQ(strings.size(), 100u);
  FeatureReader reader(options);
  for (size_t i = 0; i < strings.size(); ++i) {
    const Utterance& u = strings[i];
    EXPECT_GE(u.files.size(), 3u);
    EXPECT_LE(u.files.size(), 7u);
    for (const std::string& file : u.files) {
      EXPECT_NE(file.find("_" + u.speaker + "_0.flac"), std::string::npos) << "take 0 is the test";
    }
    if (i < 10) {
      EXPECT_EQ(reader.read(u).frames, u.frames);
    }
  }
  const auto same = join_utterances(test, Labels(), options, 100, 3, 7, 1, 3);
  const auto other = join_utterances(test, Labels(), options, 100, 3, 7, 2, 3);
  int equal = 0;
  for (size_t i = 0; i < 100; ++i) {
    EXPECT_EQ(strings[i].files, same[i].files);
    equal += strings[i].files == other[i].files;
  }
  EXPECT_LT(equal, 5);
}

TEST_F(ManifestTest, JoinedTranscriptsKeepTheirCase) {
  const std::string path = (dir_ / "labels.txt").string();
  std::ofstream(path) << "A\na\n \n";
  const Labels labels = Labels::load({path, "data.labels", ""});
  const std::vector<Utterance> one = {{.files = {"a.wav"}, .labels = {1, 2}, .transcript = "Aa"}};
  const auto joined = join_utterances(one, labels, {}, 1, 2, 2, 1, 1);
  ASSERT_EQ(joined.size(), 1u);
  EXPECT_EQ(joined[0].transcript, "Aa Aa");
  EXPECT_EQ(joined[0].labels, (std::vector<int32_t>{1, 2, 3, 1, 2}));
}

TEST(SpeechBatches, HoldFeaturesLabelsAndNothingElse) {
  SpeechOptions options;
  auto utterances = join_utterances(digits("train", options), Labels(), options, 5, 1, 2, 1, 1);
  utterances[3].files[0] = "/nowhere/a.wav";
  FeatureReader reader(options);
  const std::vector<int32_t> rows{2, 3, 0};
  const SpeechExtent extent{200, 20, 4};
  SpeechBatch batch;
  batch.position.epoch = 1;
  fill_speech_batch(reader, utterances, rows, extent, nullptr, true, batch);
  EXPECT_EQ(batch.utterances, 2);
  EXPECT_EQ(batch.faults.count, 1);
  EXPECT_EQ(batch.frames[1], 0);
  EXPECT_EQ(batch.label_lengths[1], 0);
  EXPECT_EQ(batch.frames[3], 0);
  const Features alone = reader.read(utterances[0]);
  const float* row = batch.features.data() + 2 * 200 * 81;
  for (size_t i = 0; i < 200 * 81; ++i) {
    ASSERT_EQ(row[i], i < alone.values.size() ? alone.values[i] : 0) << i;
  }
  for (size_t i = 0; i < utterances[2].labels.size(); ++i) {
    EXPECT_EQ(batch.labels[i * 4], utterances[2].labels[i]);
  }
  EXPECT_THROW(fill_speech_batch(reader, utterances, rows, extent, nullptr, false, batch),
               UsageError);

  // Variety: the same in the same epoch, another in the next.
  const SpeechVariety variety{.tempo = true, .masks = {1, 10, 1, 10}, .seed = 3};
  auto drawn = [&](int64_t epoch) {
    batch.position.epoch = epoch;
    fill_speech_batch(reader, utterances, std::vector<int32_t>{0, 1, 2, 4}, extent, &variety, true,
                      batch);
    return batch.features;
  };
  const auto first = drawn(1);
  EXPECT_EQ(drawn(1), first);
  EXPECT_NE(drawn(2), first);

  // Each tempo comes about as often as the others.
  EXPECT_EQ(batch.labels.size(), size_t(20 * 4));
  std::map<int64_t, int> times;
  const SpeechVariety tempo{.tempo = true, .seed = 3};
  for (batch.position.epoch = 0; batch.position.epoch < 60; ++batch.position.epoch) {
    fill_speech_batch(reader, utterances, std::vector<int32_t>{1}, extent, &tempo, true, batch);
    ++times[batch.frames[0]];
  }
  ASSERT_EQ(times.size(), 3u);
  const Utterance& said = utterances[1];
  for (const int speed : {9, 10, 11}) {
    EXPECT_GT(times[reader.read(said, speed).frames], 10) << speed;
    EXPECT_EQ(reader.read(said, speed).frames,
              reader.frames(resampled_length(said.samples, speed, 10)));
  }
  EXPECT_LT(reader.read(said, 11).frames, reader.read(said, 10).frames);
  EXPECT_LT(reader.read(said, 10).frames, reader.read(said, 9).frames);
}

TEST(MadeUp, AreLikeReadBooks) {
  SpeechOptions options;
  const auto made = make_up_utterances(Labels(), options, 300, 1, 1);
  FeatureReader reader(options);
  double seconds = 0;
  for (const Utterance& u : made) {
    EXPECT_GE(u.frames, 200);
    EXPECT_LE(u.frames, 1600);
    seconds += double(u.frames) / 100;
  }
  EXPECT_NEAR(seconds / 300, 11.3, 0.7);  // 12.3 in LibriSpeech
  const Features f = reader.read(made[0]);
  EXPECT_EQ(f.frames, made[0].frames);
  EXPECT_EQ(f.values, reader.read(made[0]).values);
  EXPECT_NE(f.values, reader.read(made[1]).values);
}

// Over noise in [-1/2, 1/2) the bins of the label that is spoken stand out by two.
TEST(MadeUp, FeaturesSayWhichLabelIsSpoken) {
  SpeechOptions options;
  FeatureReader reader(options);
  for (const Utterance& u : make_up_utterances(Labels(), options, 3, 1, 1)) {
    const Features f = reader.read(u);
    const auto labels = int64_t(u.labels.size());
    for (int64_t frame = 0; frame < f.frames; ++frame) {
      const int32_t label = u.labels[size_t(frame * labels / f.frames)];
      int64_t high = 0;
      for (int64_t bin = 0; bin < f.bins; ++bin) {
        const bool spoken = bin * 30 / f.bins == label;
        const float value = f.values[size_t(frame * f.bins + bin)] - (spoken ? 2.0f : 0.0f);
        ASSERT_TRUE(value >= -0.5f && value <= 0.5f) << frame << " " << bin;
        high += spoken;
      }
      ASSERT_GE(high, f.bins / 30);
    }
  }
}

}  // namespace
}  // namespace pal
