// The main function of every test program. The profile that the user measured of this machine
// (~/.config/palimpsest/cpu.yaml) stays out of the tests: what they expect is of other devices. So
// do fronts that are kept (~/.cache/palimpsest).
#include <gtest/gtest.h>

#include <cstdlib>

#ifdef PAL_REACH
#include <cstdio>

#include "tests/reached.h"

// Writes a line for each test into the file that PAL_REACHED names: its name, and what it reached.
class ReachedPlaces : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo&) override { pal::test::begin_reaching(); }
  void OnTestEnd(const testing::TestInfo& test) override {
    const char* name = std::getenv("PAL_REACHED");
    std::FILE* file = name ? std::fopen(name, "ab") : nullptr;
    if (!file) return;
    std::fprintf(file, "%s.%s", test.test_suite_name(), test.name());
    for (const uint64_t place : pal::test::reached_places()) {
      std::fprintf(file, " %llx", static_cast<unsigned long long>(place));
    }
    std::fputc('\n', file);
    std::fclose(file);
  }
};
#endif

int main(int argc, char** argv) {
  // Where nobody, not even root, can make folders: no test finds what another has kept.
  setenv("XDG_CONFIG_HOME", "/dev/null/config", 1);
  setenv("XDG_CACHE_HOME", "/dev/null/cache", 1);
  testing::InitGoogleTest(&argc, argv);
#ifdef PAL_REACH
  testing::UnitTest::GetInstance()->listeners().Append(new ReachedPlaces);
#endif
  return RUN_ALL_TESTS();
}
