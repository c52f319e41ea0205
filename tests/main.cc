// The main function of every test program. The profile that the user measured of this machine
// (~/.config/palimpsest/cpu.yaml) stays out of the tests: what they expect is of other devices.
#include <gtest/gtest.h>

#include <cstdlib>

int main(int argc, char** argv) {
  setenv("XDG_CONFIG_HOME", "/nonexistent/config", 1);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
