// Where transferred values live, and when.
#include "ops/tensors/transfers.h"

#include <gtest/gtest.h>

#include "core/builder.h"

namespace pal {
namespace {

TEST(Transfers, OffloadLivesInHostMemory) {
  Builder builder;
  Val x = builder.input("x", {{3}});
  Val out = copy_out(x), back = copy_in(out);
  EXPECT_EQ(builder.program().value(out.id).space, Space::host);
  EXPECT_EQ(builder.program().value(back.id).space, Space::device);
  EXPECT_EQ(builder.program().nodes[0].phase, Phase::offload);
  EXPECT_EQ(builder.program().nodes[1].phase, Phase::reload);
}

}  // namespace
}  // namespace pal
