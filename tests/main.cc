// The main function of every test program. The profile that the user measured of this machine
// (~/.config/palimpsest/cpu.yaml) stays out of the tests: what they expect is of other devices. So
// do fronts that are kept (~/.cache/palimpsest).
#include <gtest/gtest.h>

#include <cstdlib>

int main(int argc, char** argv) {
  // Where nobody, not even root, can make folders: no test finds what another has kept.
  setenv("XDG_CONFIG_HOME", "/dev/null/config", 1);
  setenv("XDG_CACHE_HOME", "/dev/null/cache", 1);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
