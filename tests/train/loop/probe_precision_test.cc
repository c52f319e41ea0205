// Which formats are proposed for which errors.
#include "train/loop/probe_precision.h"

#include <gtest/gtest.h>

#include <limits>

namespace pal {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

ProbedMaps maps(const std::string& scope, double fp16, double fp10, double fp8) {
  ProbedMaps out{.scope = scope};
  out.error[size_t(Dpr::fp16)] = fp16, out.error[size_t(Dpr::fp10)] = fp10;
  out.error[size_t(Dpr::fp8)] = fp8;
  return out;
}
using Proposed = std::vector<std::pair<std::string, Dpr>>;

TEST(ProposeFormats, TheSmallestThatIsSafeInAllOfALayer) {
  EXPECT_EQ(propose_formats({maps("a", 0, 0.005, 0.01), maps("b", 0, 0.01, 0.02),
                             maps("c", 0.01, 0.02, 0.02), maps("d", 0.02, 0.1, kNever)},
                            0.01),
            (Proposed{{"a", Dpr::fp8}, {"b", Dpr::fp10}, {"c", Dpr::fp16}}));
  // The worst map of a layer decides, wherever it stands.
  EXPECT_EQ(propose_formats({maps("a", 0, 0, 0.5), maps("b", 0, 0, 0), maps("a", 0, 0.5, 0)}, 0.1),
            (Proposed{{"a", Dpr::fp16}, {"b", Dpr::fp8}}));
  // A smaller format that happens to do where a larger one does not is luck.
  EXPECT_EQ(propose_formats({maps("a", 0, 0.5, 0.001)}, 0.01), (Proposed{{"a", Dpr::fp16}}));
}

TEST(ProposeFormats, ANameStandsForWhatIsBelow) {
  const auto unsafe = maps("block/conv", 1, 1, 1);
  EXPECT_EQ(propose_formats({maps("block", 0, 0, 0), unsafe, maps("block/relu", 0, 0, 1)}, 0.1),
            (Proposed{{"block/relu", Dpr::fp10}}));
  EXPECT_EQ(propose_formats({maps("bloc", 0, 0, 0), unsafe, maps("", 0, 0, 0)}, 0.1),
            (Proposed{{"bloc", Dpr::fp8}}));
  EXPECT_TRUE(propose_formats({}, 0.1).empty());
}

}  // namespace
}  // namespace pal
