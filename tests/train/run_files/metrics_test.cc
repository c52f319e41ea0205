// metrics.jsonl: exact keys, resuming, mending, failing; and the progress line's text.
#include "train/run_files/metrics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/error.h"
#include "tests/support/error_of.h"
#include "tests/support/files.h"
#include "train/run_files/log.h"

namespace pal {
namespace {

namespace fs = std::filesystem;

class Metrics : public testing::Test {
 protected:
  void steps(MetricsWriter& writer, int64_t from, int64_t to) {
    for (int64_t s = from; s <= to; ++s) {
      writer.write(StepRow{.step = s, .epoch = 0.5, .loss = 1.0 / static_cast<double>(s)});
      if (s % 3 == 0) writer.write(ValidRow{s, 0.5, 2.5, {{"bleu", static_cast<double>(s)}}});
    }
  }
  auto densities() const {
    std::ifstream in(file_, std::ios::binary);
    return largest_densities(in);
  }
  const TemporaryFolder folder_;
  const fs::path file_ = folder_.path() / "metrics.jsonl";
};

const PlanRow kPlan{.step = 0,
                    .program = "train/10x20/only",
                    .source_length = 10,
                    .target_length = 20,
                    .nodes = 5,
                    .compile_seconds = 0.1};

TEST_F(Metrics, rows_have_exactly_the_contracts_keys) {
  MetricsWriter writer = MetricsWriter::create(file_);
  writer.write(kPlan);
  writer.write(StepRow{3, 0.25, 0.1, 1e-3, 2.5, 100, 1000, 12.5, 64, 128, 256});
  writer.write(ValidRow{3, 0.25, 3.5, {{"bleu", 12.25}}});
  writer.write(EndRow{3, 0.25, "steps", 1.5, 64, 256});
  EXPECT_EQ(
      read_file(file_),
      R"({"event":"plan","step":0,"program":"train/10x20/only","bucket":[10,20],"nodes":5,)"
      R"("values":0,"total_bytes":0,"arena_bytes":0,"lower_bound_bytes":0,"compile_seconds":0.1})"
      "\n"
      R"({"event":"step","step":3,"epoch":0.25,"loss":0.1,"lr":0.001,"grad_norm":2.5,)"
      R"("samples_per_s":100.0,"tokens_per_s":1000.0,"step_ms":12.5,"arena_bytes":64,)"
      R"("peak_bytes":128,"process_peak_bytes":256})"
      "\n"
      R"({"event":"valid","step":3,"epoch":0.25,"loss":3.5,"bleu":12.25})"
      "\n"
      R"({"event":"end","step":3,"epoch":0.25,"reason":"steps","seconds":1.5,)"
      R"("arena_bytes":64,"process_peak_bytes":256})"
      "\n");
}

TEST_F(Metrics, densities_are_read_back_the_largest_of_each_map) {
  EXPECT_TRUE(densities().empty());
  MetricsWriter writer = MetricsWriter::create(file_);
  const MapDensity relu{.value = 7, .layer = "a relu", .elements = 64, .density = 0.25};
  writer.write(DensityRow{.step = 1, .program = "train/1x1/only", .maps = {relu}});
  EXPECT_EQ(read_file(file_),
            R"({"event":"density","step":1,"program":"train/1x1/only","maps":[{"value":7,)"
            R"("layer":"a relu","elements":64,"density":0.25}]})"
            "\n");
  MapDensity more = relu, pool{.value = 9, .layer = "a max_pool", .density = 0.5};
  more.density = 0.75, more.form = "csr", more.capacity = 0.8;
  writer.write(DensityRow{.step = 2, .program = "train/1x1/only", .maps = {more, pool}});
  writer.write(DensityRow{.step = 3, .program = "train/1x1/only", .maps = {relu}});
  writer.write(DensityRow{.step = 3, .program = "train/2x2/only", .maps = {relu}});
  std::ofstream(file_, std::ios::app) << "[1]\n"
                                      << R"({"event":"density","step":4,"program":"x"})"
                                      << "\n"
                                      << R"({"event":"density","step":4,"progr)";
  const auto read = densities();
  ASSERT_EQ(read.size(), 2u);
  ASSERT_EQ(read.at("train/1x1/only").size(), 2u);
  EXPECT_EQ(read.at("train/1x1/only").at(7).density, 0.75);
  EXPECT_EQ(read.at("train/1x1/only").at(7).layer, "a relu");
  EXPECT_EQ(read.at("train/1x1/only").at(9).density, 0.5);
  EXPECT_EQ(read.at("train/2x2/only").at(7).density, 0.25);
}

TEST_F(Metrics, a_density_is_a_part_of_a_map_of_some_program) {
  for (const char* map :
       {R"({"value":4294967303,"layer":"a","density":0.5})",
        R"({"value":-1,"layer":"a","density":0.5})", R"({"value":7,"layer":"a","density":1e300})",
        R"({"value":7,"layer":"a","density":-0.5})"}) {
    std::ofstream(file_) << R"({"event":"density","step":1,"program":"x","maps":[)" << map
                         << "]}\n";
    const auto read = densities();
    EXPECT_TRUE(read.empty()) << map;
  }
}

TEST_F(Metrics, not_a_number_is_null) {
  MetricsWriter writer = MetricsWriter::create(file_);
  writer.write(StepRow{.step = 1, .loss = std::numeric_limits<double>::quiet_NaN()});
  EXPECT_TRUE(nlohmann::json::parse(read_file(file_))["loss"].is_null());
}

TEST_F(Metrics, a_resumed_log_equals_an_uninterrupted_one) {
  {
    MetricsWriter whole = MetricsWriter::create(file_);
    whole.write(kPlan);
    steps(whole, 1, 9);
  }
  std::string expected = read_file(file_);
  {
    MetricsWriter first = MetricsWriter::create(file_);
    first.write(kPlan);
    steps(first, 1, 8);
    first.write(EndRow{.step = 8, .reason = "interrupted"});
  }
  MetricsWriter second = MetricsWriter::resume(file_, 6);  // the checkpoint was made at 6
  PlanRow again = kPlan;
  again.step = 6;
  again.compile_seconds = 9;
  second.write(again);  // the same plan: not written twice
  steps(second, 7, 9);
  EXPECT_EQ(read_file(file_), expected);
  PlanRow other = again;
  other.program = "train/10x20/first";  // another program that needs as much
  second.write(other);
  const std::string more = read_file(file_);
  EXPECT_NE(more, expected);
  again.arena_bytes = 77;  // another plan
  second.write(again);
  EXPECT_NE(read_file(file_), more);
}

TEST_F(Metrics, a_torn_last_line_is_removed) {
  {
    MetricsWriter writer = MetricsWriter::create(file_);
    steps(writer, 1, 2);
  }
  std::string whole = read_file(file_);
  size_t first = whole.find('\n') + 1;
  for (size_t cut = first + 1; cut < whole.size(); ++cut) {
    std::ofstream(file_, std::ios::binary) << whole.substr(0, cut);
    MetricsWriter::resume(file_, 9);
    ASSERT_EQ(read_file(file_), whole.substr(0, first)) << cut;
  }
  std::ofstream(file_, std::ios::binary) << whole << std::string(100, '\0') << "\n";
  MetricsWriter::resume(file_, 9);
  EXPECT_EQ(read_file(file_), whole);
}

TEST_F(Metrics, a_foreign_line_in_the_middle_is_refused) {
  for (const char* line : {"hello", "[1]", "{\"step\":1}", "{\"event\":\"step\",\"step\":\"1\"}"}) {
    const std::string rows = std::string(line) + "\n{\"event\":\"step\",\"step\":1}\n";
    std::ofstream(file_, std::ios::binary) << rows;
    EXPECT_THROW(MetricsWriter::resume(file_, 9), UsageError) << line;
    EXPECT_EQ(read_file(file_), rows);
  }
}

TEST_F(Metrics, what_cannot_be_read_is_refused) {
  std::filesystem::create_directory(file_);
  EXPECT_EQ(test::error_of([&] { MetricsWriter::resume(file_, 9); }, kExitFailed),
            file_.string() + ": cannot be read");
}

// It is read and written in blocks.
TEST_F(Metrics, a_long_log_is_kept_to_its_step) {
  std::string kept, later;
  for (int step = 1; step <= 30'000; ++step) {
    const std::string row = R"({"event":"step","step":)" + std::to_string(step) + R"(,"why":")" +
                            std::string(size_t(step % 200), 'x') + "\"}\n";
    (step <= 29'000 ? kept : later) += row;
  }
  ASSERT_GT(kept.size(), size_t{3} << 20);
  std::ofstream(file_, std::ios::binary) << kept << later;
  MetricsWriter::resume(file_, 29'000);
  EXPECT_TRUE(read_file(file_) == kept);
}

// What was killed behind its last step is told from what was done, and makes up its validation.
TEST_F(Metrics, whether_a_run_was_done) {
  const auto resumed = [&](const EndRow& end, int64_t step) {
    {
      MetricsWriter writer = MetricsWriter::create(file_);
      steps(writer, 1, 8);
      writer.write(ValidRow{.step = 8, .loss = 2});
      writer.write(end);
    }
    return MetricsWriter::resume(file_, step).was_done();
  };
  EXPECT_TRUE(resumed({.step = 8, .reason = "steps"}, 8));
  EXPECT_FALSE(resumed({.step = 8, .reason = "steps"}, 7));
  EXPECT_FALSE(resumed({.step = 8, .reason = "interrupted"}, 8));
  EXPECT_FALSE(resumed({.step = 8, .reason = "nan"}, 8));
  MetricsWriter again = MetricsWriter::resume(file_, 8);
  const std::string before = read_file(file_);
  again.write(ValidRow{.step = 8, .loss = 2});
  EXPECT_EQ(read_file(file_), before);
  again.write(ValidRow{.step = 8, .loss = 3});
  EXPECT_NE(read_file(file_), before);
}

TEST_F(Metrics, a_row_may_hold_anything_however_deep) {
  const std::string deep(200'000, '[');
  std::ofstream(file_, std::ios::binary)
      << R"({"event":"plan","step":0,"x":)" << deep << std::string(deep.size(), ']') << "}\n";
  EXPECT_NO_THROW(MetricsWriter::resume(file_, 9));
  EXPECT_TRUE(densities().empty());
}

TEST_F(Metrics, an_absent_file_is_started_on_resume) {
  MetricsWriter writer = MetricsWriter::resume(file_, 3);
  steps(writer, 4, 4);
  EXPECT_EQ(nlohmann::json::parse(read_file(file_))["step"], 4);
}

TEST_F(Metrics, failures_to_write_are_reported) {
  EXPECT_THROW(MetricsWriter::create(file_ / "no" / "such"), Error);
  if (!fs::exists("/dev/full")) GTEST_SKIP();
  MetricsWriter full = MetricsWriter::create("/dev/full");
  EXPECT_THROW(full.write(StepRow{}), Error);
}

TEST(Progress, text) {
  EXPECT_EQ(progress_text({.step = 120,
                           .total_steps = 4000,
                           .epoch = 1.42,
                           .loss = 3.21034,
                           .tokens_per_s = 51200,
                           .seconds_left = 185}),
            "step 120/4000  epoch 1.42  loss 3.2103  51,200 tokens/s  eta 3:05");
  EXPECT_EQ(progress_text({.step = 1, .tokens_per_s = 9, .unit = "images"}).substr(8),
            "epoch 0.00  loss 0.0000  9 images/s");
  EXPECT_EQ(progress_text({.step = 7, .loss = 1}), "step 7  epoch 0.00  loss 1.0000");
  EXPECT_NE(progress_text({.seconds_left = 4000}).find("eta 1:06:40"), std::string::npos);
}

TEST(Progress, one_line_on_a_terminal_and_due_lines_elsewhere) {
  testing::internal::CaptureStderr();
  {
    Progress terminal(true);
    terminal.update({.step = 1}, false);
    terminal.update({.step = 2}, true);
  }
  std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\r'), 2);
  testing::internal::CaptureStderr();
  {
    Progress plain(false);
    plain.update({.step = 1}, false);
    plain.update({.step = 2}, true);
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "step 2  epoch 0.00  loss 0.0000\n");
}

}  // namespace
}  // namespace pal
