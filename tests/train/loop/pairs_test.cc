// Micro-batches side by side (train.overlap_micro_batches) on batches that are given one by one:
// each reads its own batch, and what is not finite ends the run as it does one behind the other.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <regex>

#include "core/error.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/products/matmul.h"
#include "ops/sums/reduce.h"
#include "tests/support/files.h"
#include "train/loop/trainer.h"

namespace pal {
namespace {

constexpr int64_t kWidth = 6;

struct GivenBatch {
  int bucket = 0;
  bool bad = false;  // it has a NaN
};
using GivenBatches = std::vector<GivenBatch>;

// Two layers on numbers that differ by the batch. Bucket b has b + 3 rows.
class GivenTask : public Task {
 public:
  explicit GivenTask(GivenBatches batches) : batches_(std::move(batches)) {}
  int bucket_count() const override { return 2; }
  std::pair<int64_t, int64_t> bucket_lengths(int bucket) const override { return {bucket + 3, 1}; }
  Recorded record(Builder& b, int bucket, Val scalars, bool training) const override {
    return record_lengths(b, bucket_lengths(bucket), scalars, training);
  }
  Recorded record_lengths(Builder& b, std::pair<int64_t, int64_t> lengths, Val,
                          bool) const override {
    Val x = b.input("x", {{lengths.first, kWidth}});
    for (const char* name : {"a", "b"}) {
      Builder::Within scope(b, name);
      x = tanh(matmul(x, b.state(name, {{kWidth, kWidth}}, Role::weight,
                                 {.kind = Init::Kind::uniform, .a = 0.5f})));
    }
    return {.loss = sum_all(mul(x, x))};
  }
  std::unique_ptr<Task> variant(const Config&) const override { return nullptr; }
  void take_share(BatchShare) override {}
  const std::vector<BatchInfo>& next(int count) override {
    first_ = next_, next_ += size_t(count);
    infos_.clear();
    for (size_t i = first_; i < next_; ++i) {
      infos_.push_back({.bucket = batches_.at(i).bucket, .samples = 1, .tokens = 1});
    }
    return infos_;
  }
  void fill(Executable& program, int i) override {
    const size_t batch = first_ + size_t(i);
    std::vector<float> x(size_t(program.input_spec("x").numel()));
    ASSERT_EQ(int64_t(x.size()), (batches_.at(batch).bucket + 3) * kWidth) << "batch " << batch;
    for (size_t e = 0; e < x.size(); ++e) x[e] = float((batch * 31 + e * 7) % 11) / 11 - 0.4f;
    if (batches_[batch].bad) x.back() = std::numeric_limits<float>::quiet_NaN();
    std::memcpy(program.input("x"), x.data(), x.size() * sizeof(float));
  }
  BatchInfo fill_full(Executable&, std::pair<int64_t, int64_t>) const override { return {}; }
  std::string position() const override { return ""; }
  void restore(const std::string&) override {}
  Validation validate(ProgramSet&, const std::string&, const Dealt&) override { return {}; }
  void add_programs(ProgramSet&, const std::string&) override {}
  void save_files(const std::filesystem::path&) const override {}
  std::vector<std::string> describe() const override { return {}; }

 private:
  const GivenBatches batches_;
  size_t first_ = 0, next_ = 0;
  std::vector<BatchInfo> infos_;
};

struct PairsRun {
  std::string error;                         // "": it ended well
  std::map<std::string, std::string> state;  // weights and the optimizer's, by name
  std::string checkpoint;
  std::vector<std::string> rows;  // losses and norms
  bool paired = false;
};

class PairsTest : public testing::Test {
 protected:
  // Updates of four micro-batches each, saved one by one.
  PairsRun train(const GivenBatches& batches, bool overlap, const std::string& clip) {
    const std::filesystem::path out = folder_.path() / ("run" + std::to_string(++runs_));
    std::filesystem::create_directory(out);
    std::ofstream(out / "in.yaml")
        << "model: {type: nmt}\ndata: {synthetic: true}\n"
        << "train: {batch_size: 1, accumulate: 4, steps: " << batches.size() / 4
        << ", lr: 0.01, valid_every: 1000, save_every: 1, log_every: 1, clip_norm: " << clip
        << ", overlap_micro_batches: " << (overlap ? "true" : "false")
        << "}\ndevice: {type: cpu, threads: 1}\n";
    const TrainArgs args{.config = load_config(out / "in.yaml"), .name = "given", .out = out};
    Trainer trainer(args, std::make_unique<GivenTask>(batches));
    PairsRun run;
    try {
      trainer.run(std::atomic<bool>(false));
    } catch (const Error& error) {
      // Nodes have other numbers in a pair.
      run.error = std::regex_replace(error.what(), std::regex("at node [0-9]+"), "at node N");
    }
    for (const StateTensor& slot : trainer.programs().state()) {
      if (slot.role == Role::weight_gradient) continue;  // the sums: they begin with each update
      run.state[slot.name].assign(reinterpret_cast<const char*>(slot.data),
                                  size_t(slot.spec.bytes()));
    }
    run.checkpoint = read_file(out / "last.safetensors");
    std::ifstream in(out / "metrics.jsonl");
    for (std::string line; std::getline(in, line);) {
      const auto row = nlohmann::json::parse(line);
      if (row["event"] == "step") run.rows.push_back(row["loss"].dump() + row["grad_norm"].dump());
      if (row["event"] == "end") run.rows.push_back(row["reason"].dump() + row["step"].dump());
    }
    for (const char* name : {"train/3x1/first+middle", "train/3x1/middle+middle"}) {
      run.paired |= trainer.programs().find(name) != nullptr;
    }
    return run;
  }
  static void same(const PairsRun& apart, const PairsRun& beside) {
    EXPECT_FALSE(apart.paired);
    EXPECT_TRUE(beside.paired);
    EXPECT_EQ(apart.error, beside.error);
    EXPECT_EQ(apart.rows, beside.rows);
    EXPECT_TRUE(apart.state == beside.state);
    EXPECT_TRUE(apart.checkpoint == beside.checkpoint);
  }

  const TemporaryFolder folder_;
  int runs_ = 0;
};

TEST_F(PairsTest, EachReadsItsOwnBatchAndOthersBucketsRunApart) {
  const GivenBatches batches = {{0}, {0}, {1}, {1}, {0}, {1}, {1}, {0}, {1}, {0}, {0}, {1}};
  const PairsRun apart = train(batches, false, "null");
  EXPECT_EQ(apart.error, "");
  EXPECT_EQ(apart.rows.size(), 4u);
  same(apart, train(batches, true, "null"));
}

// With and without a gate that looks at gradients; the bad one first or second of either pair.
TEST_F(PairsTest, ANaNEndsTheRunAsOneBehindTheOther) {
  for (const char* clip : {"null", "1.0"}) {
    for (size_t bad = 4; bad < 8; ++bad) {
      SCOPED_TRACE(std::string(clip) + ", micro-batch " + std::to_string(bad));
      GivenBatches batches(12);
      batches[bad].bad = true;
      const PairsRun apart = train(batches, false, clip);
      EXPECT_NE(apart.error.find("[matmul] made a NaN"), std::string::npos) << apart.error;
      EXPECT_NE(apart.error.find("at step 2; the last checkpoint is whole"), std::string::npos);
      EXPECT_EQ(apart.rows.back(), "\"nan\"1");
      same(apart, train(batches, true, clip));
    }
  }
}

}  // namespace
}  // namespace pal
