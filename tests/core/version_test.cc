// The build id that the linker wrote into this program, among its other notes.
#include "core/version.h"

#include <gtest/gtest.h>

namespace pal {
namespace {

TEST(Version, TheBuildIdIsTheLinkers) { EXPECT_EQ(build_id(), PAL_TEST_BUILD_ID); }

}  // namespace
}  // namespace pal
