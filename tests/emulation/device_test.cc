// The GPU as the framework sees it: what is said where there is none, memory, events, errors.
#include "core/cuda/device.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/builder.h"
#include "core/error.h"
#include "memory/run/program_set.h"
#include "tests/emulation/emulation.h"
#include "train/loop/run_options.h"

namespace pal::test {
namespace {

class Gpu : public testing::Test {
 protected:
  void SetUp() override { emulation::settings() = {}; }
  void TearDown() override { emulation::settings() = {}; }
  static std::string refusal() {
    try {
      cuda_device();
      return "";
    } catch (const UsageError& error) {
      return error.what();
    }
  }
};

TEST_F(Gpu, SaysWhyThereIsNone) {
  emulation::settings().driver = 0;
  EXPECT_NE(refusal().find("no NVIDIA driver"), std::string::npos) << refusal();
  emulation::settings() = {.driver = 12040};
  EXPECT_NE(refusal().find("is for CUDA 12.4, this build needs 13.0"), std::string::npos)
      << refusal();
  emulation::settings() = {.devices = 0};
  EXPECT_NE(refusal().find("there is no GPU"), std::string::npos) << refusal();
  emulation::settings() = {.major = 7, .minor = 0};
  EXPECT_NE(refusal().find("compute capability 7.0, 7.5 is the least"), std::string::npos)
      << refusal();
  EXPECT_EQ(refusal().find('\n'), std::string::npos);
  emulation::settings() = {.major = 7, .minor = 5};
  EXPECT_EQ(refusal(), "");
  EXPECT_EQ(cuda_device().accelerator->description(),
            "Emulated GPU, 16 GiB, compute capability 7.5");
}

TEST_F(Gpu, RefusesPrecisionsThatItHasNot) {
  for (const char* precision : {"f32", "bf16", "tf32"}) {
    for (const int major : {7, 8}) {
      emulation::settings() = {.major = major, .minor = 5};
      const Config config = load_config(
          PAL_SOURCE_DIR "/configs/nmt_small.yaml",
          {parse_set("device.type=cuda"), parse_set(std::string("train.precision=") + precision)});
      std::string text;
      try {
        training_device(config);
      } catch (const UsageError& error) {
        text = error.what();
      }
      const bool has = major == 8 || std::string(precision) == "f32";
      EXPECT_EQ(text.empty(), has) << precision << " " << major;
      if (has) continue;
      EXPECT_EQ(text, "train.precision: Emulated GPU, 16 GiB, compute capability 7.5 has no " +
                          std::string(precision) + " (8.0 has); set it to f32");
    }
  }
}

TEST_F(Gpu, MemoryIsZeroedAndLimited) {
  emulation::settings().memory = 1 << 20;
  auto gpu = cuda_device().accelerator;
  std::byte* p = gpu->allocate(Space::device, 1 << 19);
  std::vector<std::byte> held(1 << 19, std::byte{1});
  gpu->copy(kComputeQueue, held.data(), p, int64_t(held.size()));
  gpu->synchronize();
  ASSERT_EQ(held, std::vector<std::byte>(1 << 19));
  EXPECT_EQ(gpu->free_bytes(), 1 << 19);
  try {
    gpu->allocate(Space::device, 1 << 20);
    ADD_FAILURE() << "more than there is";
  } catch (const BudgetError& error) {
    EXPECT_NE(std::string(error.what()).find("524288 bytes free, the arena needs 1048576"),
              std::string::npos)
        << error.what();
  }
  // A 16th of so small a card is left to others, but not by who has just had the bytes.
  const int64_t most = (1 << 19) - (1 << 16);
  EXPECT_THROW(gpu->allocate(Space::device, most + 64), BudgetError);
  for (const auto& [bytes, again] : {std::pair(most, false), std::pair(most + 64, true)}) {
    gpu->release(Space::device, gpu->allocate(Space::device, bytes, again));
  }
  gpu->release(Space::device, p);
  EXPECT_EQ(gpu->free_bytes(), 1 << 20);
}

TEST_F(Gpu, PinnedMemoryIsZeroedAndGivenBack) {
  constexpr int64_t kBytes = 1000;
  auto gpu = cuda_device().accelerator;
  std::byte* const first = gpu->allocate(Space::host, kBytes);
  for (int n = 0; n < 2; ++n) {
    std::byte* const p = n == 0 ? first : gpu->allocate(Space::host, kBytes);
    EXPECT_EQ(p, first) << "where there is room again";
    EXPECT_EQ(std::count(p, p + kBytes, std::byte{0}), kBytes);
    std::fill_n(p, kBytes, std::byte{7});
    gpu->release(Space::host, p);
  }
}

TEST_F(Gpu, IsCountedAgainFromTheFirst) {
  emulation::settings().devices = 2;
  std::vector<std::string> found;
  for (int number = 0; number < 5; ++number) found.push_back(open_accelerator(number)->identity());
  EXPECT_NE(found[0], found[1]);
  for (size_t number = 2; number < found.size(); ++number) {
    EXPECT_EQ(found[number], found[number % 2]) << number;
  }
}

TEST_F(Gpu, TimesAreNanoseconds) {
  auto gpu = cuda_device().accelerator;
  const auto from = gpu->make_timed_event(), to = gpu->make_timed_event();
  gpu->record_time(from, kComputeQueue);
  gpu->wait(from);
  constexpr int64_t kMs = 1'000'000'000;
  emulation::advance(kMs);
  gpu->record_time(to, kComputeQueue);
  gpu->wait(to);
  // To half a second, which is less than a millionth of it.
  EXPECT_NEAR(double(gpu->ns_between(from, to)), double(kMs) * 1e6, 5e8);
}

// What fails as the host waits, or as steps are recorded, is said once.
TEST_F(Gpu, ErrorsAreSaidAndNotMetAgain) {
  auto gpu = cuda_device().accelerator;
  gpu->begin_recording();
  EXPECT_THROW(gpu->synchronize(), DeviceError);
  gpu->abandon_recording();
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  emulation::settings().good_graphs = 0;
  gpu->begin_recording();
  EXPECT_FALSE(gpu->end_recording());
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  emulation::settings().good_pins = 0;
  EXPECT_THROW(gpu->allocate(Space::host, 1), BudgetError);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_F(Gpu, AStepThatIsRecordedMayGoFirst) {
  auto gpu = cuda_device().accelerator;
  gpu->begin_recording();
  gpu->prefer(kComputeQueue, true);
  const Accelerator::Graph graph = gpu->end_recording();
  ASSERT_TRUE(graph);
  gpu->replay(graph);
  gpu->synchronize();
}

TEST_F(Gpu, NothingRunsBeforeItIsWaitedFor) {
  auto gpu = cuda_device().accelerator;
  int from = 1, to = 0;
  gpu->copy(kComputeQueue, &to, &from, sizeof to);
  from = 2;
  EXPECT_EQ(to, 0);
  auto event = gpu->make_event();
  gpu->record(event, kComputeQueue);
  gpu->wait(event);
  EXPECT_EQ(to, 2);
}

// A failed call names the file, the line and the node.
const OpDef failing_op{
    .name = "test_failing",
    .formula = "fails",
    .infer = [](SpecSpan in, const Attrs&) { return Specs{in[0]}; },
    .cuda = nullptr,
};
const Backend failing_cuda{.run = [](const KernelArgs&) {
  check_cuda(cudaErrorMemoryAllocation);  // the line that the message names
}};
TEST_F(Gpu, FailedCallsNameTheirNode) {
  OpDef op = failing_op;
  op.cuda = &failing_cuda;
  Builder b;
  Builder::Within scope(b, "encoder");
  b.output("y", b.emit1(op, {b.input("x", {Shape{4}})}));
  ProgramSet set({}, cuda_device());
  Executable& step = set.add("step", b.take());
  try {
    step.run();
    ADD_FAILURE() << "no error";
  } catch (const ProgramError& error) {
    const std::string text = error.what();
    EXPECT_EQ(text.find("[test_failing] device_test.cc:"), 0u) << text;
    EXPECT_NE(text.find("out of memory"), std::string::npos) << text;
    EXPECT_NE(text.find("at node 0 (forward, encoder)"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace pal::test
