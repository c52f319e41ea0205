// After each test of test_gpu the card is asked whether it can go on. An error such as an access
// outside of all memory stays for as long as the process lives, so that every test behind it would
// fail too. So the process ends at once, with a status of its own, and scripts/gpu-check goes on
// behind that test in another.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>

namespace {

constexpr int kLastingError = 86;  // LASTING_ERROR in scripts/gpu_check/shards.py

// cudaSuccess: there is none, or it was one of a call and is forgotten.
cudaError_t lasting_error() {
  cudaDeviceSynchronize();  // what is under way may fail yet
  cudaGetLastError();
  return cudaDeviceSynchronize();
}

class LastingErrors : public testing::EmptyTestEventListener {
 public:
  void OnTestProgramStart(const testing::UnitTest&) override {
    there_is_a_card_ = lasting_error() == cudaSuccess;
  }
  // Listeners hear of an end in reverse: the test's own last line is not printed yet, so that
  // whoever reads takes it for the one that was under way.
  void OnTestEnd(const testing::TestInfo& test) override {
    const cudaError_t error = there_is_a_card_ ? lasting_error() : cudaSuccess;
    if (error == cudaSuccess) return;
    std::printf("%s.%s: an error stays: %s (%s)\n", test.test_suite_name(), test.name(),
                cudaGetErrorString(error), cudaGetErrorName(error));
    std::fflush(stdout);
    _exit(kLastingError);
  }

 private:
  bool there_is_a_card_ = false;
};

[[maybe_unused]] const bool listening =
    (testing::UnitTest::GetInstance()->listeners().Append(new LastingErrors), true);

}  // namespace
