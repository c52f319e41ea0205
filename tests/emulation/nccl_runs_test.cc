// Runs of several ranks on emulated GPUs, as processes that mpirun starts: the bits of one, NCCL's
// errors, hangs, and what begins with exit code 2. Left out where this build has no MPI.
#include <nlohmann/json.hpp>

#include "tests/support/variable.h"
#include "tests/train/loop/whole_runs.h"
#include "train/run_files/safetensors.h"

namespace pal {
namespace {

using Words = std::vector<std::string>;

class NcclRuns : public RunTest {
 protected:
  NcclRuns() {
    std::ofstream(dir_ / "words.yaml")
        << "model: {type: nmt, hidden: 12, embedding: 12, attention_size: 8, encoder_layers: 1,\n"
           "  decoder_layers: 1, dropout: 0.2}\n"
           "data: {synthetic: true, source_vocab_size: 30, target_vocab_size: 30, max_length: 8}\n"
           "train: {batch_size: 16, lr: 0.01, valid_every: 1000, log_every: 1, accumulate: 4,\n"
           "  clip_norm: 0.5, ema: 0.9}\n"
           "device: {type: cuda, threads: 1}\n";
    std::ofstream(dir_ / "images.yaml")
        << "model: {type: resnet, family: cifar, depth: 8, width: 4}\n"
           "data: {synthetic: true, classes: 4, image_size: 8, crop: random_resized}\n"
           "train: {batch_size: 4, lr: 0.02, valid_every: 1000, log_every: 1, accumulate: 4,\n"
           "  optimizer: momentum}\n"
           "device: {type: cuda, threads: 1}\n";
  }
  void SetUp() override {
    const fs::path plugin = fs::path(PAL_BINARY).parent_path() / "libpal_mpi.so";
    if (!fs::exists(plugin)) GTEST_SKIP() << "this build has no MPI (" << plugin << ")";
  }

  RunResult train(const std::string& config, const std::string& out, int ranks,
                  const Words& sets = {}, const char* steps = "3") {
    Words words{"train", "--config", config + ".yaml", "--out", out, "--steps", steps};
    for (const std::string& set : sets) words.insert(words.end(), {"--set", set});
    if (ranks > 1) words.insert(words.end(), {"--ranks", std::to_string(ranks)});
    if (fs::exists(dir_ / out / "last.safetensors")) words.emplace_back("--resume");
    return pal(words);
  }
  std::string weights(const std::string& out) const {
    return read_file(dir_ / out / "last.safetensors");
  }
  std::vector<double> losses(const std::string& out) const {
    std::vector<double> found;
    std::ifstream in(dir_ / out / "metrics.jsonl");
    for (std::string line; std::getline(in, line);) {
      const auto row = nlohmann::json::parse(line);
      if (row["event"] == "step") found.push_back(row["loss"]);
    }
    return found;
  }
  void same_bits(const std::string& config) {
    const Words ordered{"train.reduction=ordered"};
    const std::string alone = config + "-alone";
    ASSERT_EQ(train(config, alone, 1, ordered).status, 0);
    for (const char* shard : {"none", "optimizer", "gradients", "weights"}) {
      for (const int ranks : {2, 4}) {
        const std::string out = config + "-" + shard + std::to_string(ranks);
        Words with = ordered;
        with.push_back(std::string("train.shard=") + shard);
        // Four ranks have a queue for exchanges, and buckets enough to need one.
        with.push_back(std::string("train.link=") + (ranks == 4 ? "1gbe" : "none"));
        with.emplace_back("train.bucket=2KiB");
        const RunResult ran = train(config, out, ranks, with);
        ASSERT_EQ(ran.status, 0) << ran.err;
        EXPECT_NE(ran.err.find("NCCL 2.28.9 holds"), std::string::npos) << ran.err;
        EXPECT_TRUE(weights(alone) == weights(out)) << out;
        EXPECT_EQ(losses(alone), losses(out)) << out;
      }
    }
  }
  void near_losses(const std::string& config) {
    const Words sums{"train.reduction=library"};
    ASSERT_EQ(train(config, "one", 1, sums).status, 0);
    const std::vector<double> one = losses("one");
    for (const char* shard : {"none", "gradients"}) {
      const RunResult ran = train(config, shard, 4, {sums[0], std::string("train.shard=") + shard});
      ASSERT_EQ(ran.status, 0) << ran.err;
      const std::vector<double> four = losses(shard);
      ASSERT_EQ(one.size(), four.size());
      for (size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(one[i], four[i], 1e-5) << shard;
    }
  }

  const Variable library_{"PAL_CUDA_LIBRARY_PATH", PAL_EMULATED_LIBRARIES "/whole"};
  const Variable gpus_{"PAL_EMULATED_GPUS", "4"};
};

TEST_F(NcclRuns, HaveTheBitsOfOneRank) { same_bits("words"); }
TEST_F(NcclRuns, HaveTheBitsOfOneRankOnImages) { same_bits("images"); }

// Pairs of ranks that stand for machines: sums, and gathers of uneven pieces, go by levels.
TEST_F(NcclRuns, HaveTheBitsOfOneRankByLevels) {
  // Of embeddings of 36,000 numbers two ranks have 16,384 each, the third has the rest.
  const Words ordered{"train.reduction=ordered", "train.bucket=2KiB",
                      "data.source_vocab_size=3000"};
  ASSERT_EQ(train("words", "alone", 1, ordered).status, 0);
  const Variable machines("PAL_RANKS_PER_NODE", "2");
  for (const char* shard : {"none", "optimizer", "weights"}) {
    Words with = ordered;
    with.push_back(std::string("train.shard=") + shard);
    const RunResult ran = train("words", shard, 4, with);
    ASSERT_EQ(ran.status, 0) << ran.err;
    EXPECT_TRUE(weights("alone") == weights(shard)) << shard;
  }
}

// Batch norm over all ranks' images: the same bits however its exchanges are queued, and near those
// of the processor.
TEST_F(NcclRuns, SyncTheirNorms) {
  const Words synced{"train.reduction=ordered", "train.batch_norm=sync"};
  ASSERT_EQ(train("images", "local", 2, {synced[0]}).status, 0);
  ASSERT_EQ(train("images", "synced", 2, synced).status, 0);
  EXPECT_FALSE(weights("local") == weights("synced"));
  Words on_processor = synced;
  on_processor.emplace_back("device.type=cpu");
  ASSERT_EQ(train("images", "processor", 2, on_processor).status, 0);
  const std::vector<double> gpu = losses("synced"), processor = losses("processor");
  ASSERT_EQ(gpu.size(), 3u);
  for (size_t i = 0; i < gpu.size(); ++i) EXPECT_NEAR(gpu[i], processor[i], 1e-4);
  Words eager = synced;
  eager.insert(eager.end(), {"device.graphs=false", "train.shard=optimizer"});
  const Variable shuffled("PAL_EMULATED_SHUFFLED", "1");
  ASSERT_EQ(train("images", "eager", 2, eager).status, 0);
  EXPECT_TRUE(weights("synced") == weights("eager"));
}

// Streams and graphs in any order that events allow; steps as they are, recorded, and where NCCL
// will not be recorded.
TEST_F(NcclRuns, HaveTheSameBitsHoweverTheyAreQueued) {
  const Words sets{"train.reduction=ordered", "train.shard=optimizer", "memory.swap=planned"};
  ASSERT_EQ(train("words", "plain", 2, sets).status, 0);
  const std::string want = weights("plain");
  {
    const Variable shuffled("PAL_EMULATED_SHUFFLED", "1");
    ASSERT_EQ(train("words", "shuffled", 2, sets).status, 0);
    EXPECT_TRUE(want == weights("shuffled"));
  }
  Words eager = sets;
  eager.emplace_back("device.graphs=false");
  ASSERT_EQ(train("words", "eager", 2, eager).status, 0);
  EXPECT_TRUE(want == weights("eager"));
  const Variable refused("PAL_EMULATED_NCCL", "refuse_recording");
  const RunResult ran = train("words", "refused", 2, sets);
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_TRUE(want == weights("refused"));
}

TEST_F(NcclRuns, HaveNearLossesWithNcclsSums) { near_losses("words"); }
TEST_F(NcclRuns, HaveNearLossesWithNcclsSumsOnImages) { near_losses("images"); }

TEST_F(NcclRuns, GoOnWithAnyNumber) {
  const Words sets{"train.reduction=ordered", "train.shard=optimizer"};
  ASSERT_EQ(train("words", "whole", 1, sets, "4").status, 0);
  ASSERT_EQ(train("words", "parts", 4, sets, "2").status, 0);
  ASSERT_EQ(train("words", "parts", 2, sets, "3").status, 0);
  ASSERT_EQ(train("words", "parts", 1, sets, "4").status, 0);
  EXPECT_TRUE(weights("whole") == weights("parts"));
}

// Of an error that comes later, and of a rank that never comes: said with the exchange and the
// step, all ranks end, and the checkpoint is whole.
TEST_F(NcclRuns, EndTogetherWhereNcclFails) {
  ASSERT_EQ(train("words", "whole", 1, {"train.reduction=ordered"}, "6").status, 0);
  struct Fault {
    std::string fault, said, timeout;
  };
  for (const auto& [fault, said, timeout] :
       {Fault{"error=14:1", "NCCL: ", "60"}, {"hang=14:1", "some rank did not answer for", "5"}}) {
    const std::string out = fault.substr(0, 4);
    const auto begin = std::chrono::steady_clock::now();
    RunResult ended;
    {
      const Variable faults("PAL_EMULATED_NCCL", fault);
      ended = train("words", out, 2,
                    {"train.reduction=ordered", "train.save_every=1", "train.link=1gbe",
                     "train.rank_timeout=" + timeout},
                    "400");
    }
    EXPECT_EQ(ended.status, 1) << ended.err;
    EXPECT_NE(ended.err.find(said), std::string::npos) << ended.err;
    EXPECT_NE(ended.err.find("at step "), std::string::npos) << ended.err;
    EXPECT_NE(ended.err.find(" bytes, at"), std::string::npos) << "an exchange\n" << ended.err;
    EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), 60);
    const SafetensorsFile file = SafetensorsFile::open((dir_ / out / "last.safetensors").string());
    for (const TensorView& tensor : file.tensors()) file.check(tensor);
    const RunResult resumed = train("words", out, 2, {}, "6");
    ASSERT_EQ(resumed.status, 0) << resumed.err;
    EXPECT_TRUE(weights("whole") == weights(out)) << fault;
  }
}

TEST_F(NcclRuns, BeginOnlyWithALibraryThatHasAll) {
  const auto refused = [&](const char* folder, const Words& said) {
    const Variable library("PAL_CUDA_LIBRARY_PATH",
                           std::string(PAL_EMULATED_LIBRARIES "/") + folder);
    const RunResult ended = train("words", "no", 2);
    EXPECT_EQ(ended.status, 2) << ended.err;
    for (const std::string& words : said) {
      EXPECT_NE(ended.err.find(words), std::string::npos) << words << "\n" << ended.err;
    }
    EXPECT_FALSE(fs::exists(dir_ / "no"));
  };
  refused("lacking", {"2.28.9 and has no ncclSend, ncclReduceScatter"});
  refused("old", {"need NCCL 2.9.6 or newer", "was found is 2.8.4"});
  const Variable versions("PAL_EMULATED_NCCL", "version=22703:1");
  refused("whole", {"rank 0 has NCCL 2.28.9 and rank 1 has 2.27.3"});
}

TEST_F(NcclRuns, HaveAGpuEach) {
  const Variable gpus("PAL_EMULATED_GPUS", "2");
  const RunResult four = train("words", "no", 4);
  EXPECT_EQ(four.status, 2) << four.err;
  EXPECT_NE(four.err.find("rank 0 and rank 2 are on one GPU (GPU-"), std::string::npos) << four.err;
  EXPECT_FALSE(fs::exists(dir_ / "no"));
}

}  // namespace
}  // namespace pal
