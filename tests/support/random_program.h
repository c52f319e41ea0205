// Toy operators, and random programs made of them, for tests of passes, planners and memories.
//
// The programs meet everything that memory has to get right: views and halves, stacks that their
// operands can be written into, in-place chains, workspaces, unread outputs, state that is read and
// then updated, and, with a second queue, copies out and back. All values are f32.
#pragma once
#include <cstdint>

#include "core/builder.h"
#include "core/op.h"

namespace pal::test {

extern const OpDef toy_affine;   // y = k x + 1; may be in place
extern const OpDef toy_add;      // a + b; may be in place on either
extern const OpDef toy_reverse;  // x backwards, through a workspace of x's size
extern const OpDef toy_view;     // (n) -> (n), the same bytes
extern const OpDef toy_halves;   // (2n) -> (n), (n), windows of x
extern const OpDef toy_join;     // (n), (n), ... -> (kn): operands are windows of the output
extern const OpDef toy_sum;      // (n) -> (1)
extern const OpDef toy_gate;     // (1) -> (1), a gate: half of x
extern const OpDef toy_update;   // w - g/8 [* gate], of many (w, g, gate); writes state

struct ToyAttrs {
  float k = 1;
  auto fields() const { return std::tuple{field("k", k)}; }
};

Val affine(Val x, float k = 2);
Val plus(Val a, Val b);
Val reverse(Val x);
Val view(Val x);
std::vector<Val> halves(Val x);
Val join(std::vector<Val> parts);
Val sum(Val x);
Val gate(Val x);
Val update(Val w, Val g, Val gate = {});

struct RandomOptions {
  int nodes = 40;
  int states = 3;
  bool copies = false;      // some values are offloaded and reloaded, in one logical order
  bool two_queues = false;  // the same on queue 1
  bool gated = false;       // the updates wait for a gate
};

// Deterministic in the seed. Inputs "x0", "x1"; state "w0", ...; outputs "loss" and "y".
Program random_program(uint64_t seed, const RandomOptions& options = {});

// How many a test tries: PAL_TEST_PROGRAMS where that is set, else `usual`.
uint64_t programs_asked(uint64_t usual);

// Adds the waits that reads, and writes of state, need across queues.
void add_waits(Program& program);

}  // namespace pal::test
