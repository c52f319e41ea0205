// Probe 5: a value goes to host memory and comes back on a second queue, while its bytes on the
// device serve something else; a wait that is missing is refused by verify, and would change the
// result.
#include <gtest/gtest.h>

#include "core/builder.h"
#include "core/error.h"
#include "core/verify.h"
#include "memory/storages/lifetimes.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/tensors/columns.h"
#include "ops/tensors/transfers.h"
#include "tests/probes/probe.h"
#include "tests/probes/toy_ops.h"

namespace pal::test {
namespace {

constexpr int64_t kRows = 32, kColumns = 64;

struct Held {  // which of the nodes is held up, until `flag` or for so long
  enum Which { none, producer, reload } which = none;
  std::atomic<bool>* flag = nullptr;
  int milliseconds = 0;
};

// The nodes, by position: y is needed by node 0 and not again before node 7.
enum : int32_t { kMake, kOut, kWide, kTanh, kSlice, kBack, kSigmoid, kUse, kSignal };

Program offloading(Held held = {}) {
  Builder b;
  Val x = b.input("x", {{kRows, kColumns}});
  Val y = held.which == Held::producer ? held_copy(x, held.flag, held.milliseconds) : scale(x, 2);
  Val host;
  {
    Builder::Within phase(b, Phase::offload);
    host = held.which == Held::producer ? signal(y, held.flag) : b.emit1(copy_out_op, {y});
  }
  Val wide = tanh(concatenate({x, x, x, x}));
  Val part = slice_columns(wide, 0, kColumns);
  Val back;
  {
    Builder::Within phase(b, Phase::reload);
    back = held.which == Held::reload ? held_copy(host, held.flag, held.milliseconds)
                                      : b.emit1(copy_in_op, {host});
  }
  Val sum = add(sigmoid(part), back);
  b.output("sum", held.which == Held::reload ? signal(sum, held.flag) : scale(sum, 1));
  Program p = b.take();
  p.node(kOut).queue = p.node(kBack).queue = 1;
  p.node(kOut).waits = {kMake};
  p.node(kWide).waits = {kOut};    // y's bytes are free from here on
  p.node(kBack).waits = {kSlice};  // and are wanted again from here on
  p.node(kUse).waits = {kBack};
  return p;
}

// The same on one queue, without the way to the host. A held producer copies instead of doubling.
Program staying(float factor = 2) {
  Builder b;
  Val x = b.input("x", {{kRows, kColumns}});
  Val y = scale(x, factor);
  Val wide = tanh(concatenate({x, x, x, x}));
  Val part = slice_columns(wide, 0, kColumns);
  b.output("sum", scale(add(sigmoid(part), y), 1));
  return b.take();
}

Program without_wait(Program p, NodeId node) {
  p.node(node).waits.clear();
  return p;
}

std::vector<std::byte> result(Planned& planned) {
  planned.set("x", random_floats(kRows * kColumns, 1));
  planned.run();
  return planned.bytes("sum");
}

// Runs `broken` in the memory that was planned for `good`: what a runner would do with a program
// that nobody verified.
std::vector<std::byte> result_unverified(Program good, const Program& broken) {
  Planned planned(std::move(good));
  planned.fill_arena(0x5A);
  planned.replace_program(broken);
  return result(planned);
}

TEST(Offload, ComesBackUnchangedAndMakesRoomMeanwhile) {
  const Program program = offloading();
  verify(program);
  Planned swapped(program), stayed(staying());
  EXPECT_EQ(result(swapped), result(stayed));
  const int64_t y_bytes = kRows * kColumns * 4;
  EXPECT_LE(swapped.peak(Space::device), stayed.peak(Space::device) - y_bytes);
  EXPECT_EQ(swapped.peak(Space::host), y_bytes);
  EXPECT_EQ(stayed.peak(Space::host), 0);
}

TEST(Offload, SlowQueuesAreWaitedFor) {
  for (auto which : {Held::producer, Held::reload}) {
    std::atomic<bool> flag{false};
    Planned slow(offloading({which, &flag, 30}));
    Planned stayed(staying(which == Held::producer ? 1 : 2));
    EXPECT_EQ(result(slow), result(stayed));
  }
}

TEST(Offload, AMissingWaitIsRefused) {
  const Program good = offloading();
  auto message = [&](NodeId node) { return error_of([&] { verify(without_wait(good, node)); }); };
  EXPECT_NE(message(kUse).find("without waiting for node 5 on queue 1"), std::string::npos)
      << message(kUse);
  EXPECT_NE(message(kOut).find("without waiting for node 0 on queue 0"), std::string::npos)
      << message(kOut);
}

TEST(Offload, AMissingWaitWouldChangeTheResult) {
  const std::pair<Held::Which, NodeId> cases[] = {{Held::reload, kUse}, {Held::producer, kOut}};
  for (auto [which, node] : cases) {
    std::atomic<bool> flag{false};
    Planned right(offloading({which, &flag, 0}));
    const auto expected = result(right);
    flag = false;
    // Held until the node that should have waited has run: it comes too early for certain.
    const Program good = offloading({which, &flag, 10'000});
    EXPECT_NE(result_unverified(good, without_wait(good, node)), expected) << "node " << node;
  }
}

// The other two waits are about memory: without them the program is right, and y lives longer.
TEST(Offload, WaitsDecideHowLongBytesAreTaken) {
  const Program good = offloading();
  Planned planned(good);
  for (NodeId node : {kWide, kBack}) {
    const Program longer = without_wait(good, node);
    EXPECT_NO_THROW(verify(longer));
    EXPECT_GT(peak_bytes(longer), peak_bytes(good)) << "node " << node;
    // The plan made with the wait is no plan without it.
    EXPECT_NO_THROW(planned.check(good));
    EXPECT_NE(error_of([&] { planned.check(longer); }), "") << "node " << node;
    Planned other(longer);
    EXPECT_EQ(result(other), result(planned));
  }
}

}  // namespace
}  // namespace pal::test
