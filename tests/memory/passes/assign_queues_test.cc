// Offloads and reloads stand in one logical order for all passes, and get queues and waits last.
#include "memory/passes/assign_queues.h"

#include <gtest/gtest.h>

#include <set>

#include "core/order.h"
#include "core/print.h"
#include "core/rewriter.h"
#include "core/verify.h"
#include "memory/storages/lifetimes.h"
#include "ops/tensors/transfers.h"
#include "tests/memory/compiled_bits.h"
#include "tests/memory/running.h"
#include "tests/support/random_network.h"
#include "tests/support/random_program.h"

namespace pal::test {
namespace {

// A value of 64 floats is made, offloaded while `wide` lives, and reloaded for the last node.
Program logical() {
  Builder b;
  Val x = b.input("x0", {Shape{64}});
  Val y = affine(x);
  Val host, back;
  {
    Builder::Within phase(b, Phase::offload);
    host = b.emit1(copy_out_op, {y});
  }
  Val wide = reverse(join({x, x}));
  Val part = halves(wide)[0];
  {
    Builder::Within phase(b, Phase::reload);
    back = b.emit1(copy_in_op, {host});
  }
  b.output("loss", sum(plus(part, back)));
  return b.take();
}

std::string queues_of(const Program& p) {
  std::string out;
  for (const Node& node : p.nodes) {
    out += (out.empty() ? "" : "; ") + std::string(node.op->name);
    if (node.queue) out += " q" + std::to_string(node.queue);
    for (NodeId w : node.waits) out += " after " + std::to_string(w);
  }
  return out;
}

TEST(AssignQueues, WaitsKeepTheLogicalOrdersLifetimes) {
  const Program p = logical();
  std::string note;
  const Program out = assign_queues(p, &note).value();
  EXPECT_EQ(
      queues_of(out),
      "affine; copy_out q1 after 0; join after 1; reverse; halves; copy_in q2 after 4 after 1; "
      "add after 5; sum");
  EXPECT_EQ(note, "2 copies on queues of their own");
  EXPECT_NO_THROW(verify(out));
  EXPECT_EQ(peak_bytes(out), peak_bytes(p));
}

TEST(AssignQueues, AnOffloadMovesUpToItsMaker) {
  Program p = logical();
  // Logically the offload comes after `halves`: its bytes are free from there on.
  std::vector<NodeId> order{0, 2, 3, 4, 1, 5, 6, 7};
  p = permuted(p, order);
  const Program out = assign_queues(p).value();
  EXPECT_EQ(queues_of(out),
            "affine; copy_out q1 after 0; join; reverse; halves; copy_in q2 after 4 after 1; "
            "add after 1 after 5; sum");
  EXPECT_NO_THROW(verify(out));
}

TEST(AssignQueues, NothingWithoutCopies) { EXPECT_FALSE(assign_queues(random_program(1))); }

TEST(AssignQueues, RandomProgramsAreSoundAndKeepTheirBits) {
  int copies = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const Program p = random_program(seed, {.nodes = 50, .copies = true, .gated = seed % 3 == 0});
    const std::optional<Program> out = assign_queues(p);
    if (!out) continue;
    ++copies;
    ASSERT_EQ(queue_count(*out), 3) << "seed " << seed;
    ASSERT_NO_THROW(verify(*out)) << "seed " << seed;
    ASSERT_NO_THROW(assign_storages(*out)) << "seed " << seed;
    ASSERT_EQ(reference(*out, 2), reference(p, 2)) << "seed " << seed;
  }
  EXPECT_GT(copies, 200);
}

// Every feature map of at least `bytes` that the backward pass reads is offloaded after its last
// reader in the forward pass, and reloaded before its first reader in the backward pass.
Program with_offloads(const Program& p, int64_t bytes) {
  const Readers readers(p);
  std::set<ValueId> kept;  // outputs and state stay
  for (auto& out : p.outputs) kept.insert(out.value);
  for (auto& slot : p.state) kept.insert({slot.start, slot.end});
  ByNode<std::vector<ValueId>> leave(p.nodes.size()), come(p.nodes.size());
  for (ValueId v : p.values.ids()) {
    const Value& value = p.value(v);
    if (value.producer == kNone || p.node(value.producer).phase != Phase::forward) continue;
    if (value.spec.bytes() < bytes || kept.count(v)) continue;
    NodeId last_forward = value.producer, first_later = kNone;
    for (NodeId r : readers[v]) {
      if (p.node(r).phase == Phase::forward)
        last_forward = r;
      else if (first_later == kNone)
        first_later = r;
    }
    if (first_later == kNone || first_later <= last_forward) continue;
    leave[last_forward].push_back(v), come[first_later].push_back(v);
  }
  Rewriter out(p);
  ByValue<ValueId> host(p.values.size(), kNone), back(p.values.size(), kNone);
  for (NodeId n : p.nodes.ids()) {
    for (ValueId v : come[n]) {
      Value value = p.value(v);
      back[v] = out.add(value);
      out.insert({.op = &copy_in_op, .in = {host[v]}, .out = {back[v]}, .phase = Phase::reload});
    }
    Node node = p.node(n);
    for (ValueId& v : node.in) {
      if (v != kNone && node.phase != Phase::forward && back[v] != kNone) v = back[v];
    }
    out.replace(n, node);
    for (ValueId v : leave[n]) {
      Value value = p.value(v);
      value.space = Space::host, value.role = Role::host_copy;
      host[v] = out.add(value);
      out.insert({.op = &copy_out_op, .in = {v}, .out = {host[v]}, .phase = Phase::offload});
    }
  }
  return out.finish();
}

TEST(AssignQueues, OffloadsUnderEveryPassKeepBitsAndLowerThePeak) {
  int lower = 0, cloned = 0, fused = 0, moved = 0;
  for (uint64_t seed = 0; seed < 9; ++seed) {
    const bool wide = seed % 3 == 0;
    const Program step = random_network(
        seed, {.layers = 6 + int(seed % 9), .batch = wide ? 48 : 16, .width = wide ? 80 : 12});
    const Program offloading = with_offloads(step, 1024);
    if (offloading.nodes.size() == step.nodes.size()) continue;
    KernelCache cache{Device{}};
    const StateLayout layout(step);
    for (const Recompute method :
         {Recompute::none, Recompute::mirror, Recompute::sqrt, Recompute::echo}) {
      for (int bits = 0; bits < 8; ++bits) {
        CompileOptions options;
        options.recompute = method;
        options.inplace = bits & 1, options.windows = bits & 2;
        options.schedule = bits & 4 ? Schedule::lifetime : Schedule::program;
        options.fuse_recompute = options.fuse_epilogues = seed % 2;
        const Compiled stays = compile(step, cache, layout, options);
        const Compiled swaps = compile(offloading, cache, layout, options);
        const std::string where = "seed " + std::to_string(seed) + " " + to_string(method) +
                                  " options " + std::to_string(bits);
        ASSERT_EQ(queue_count(swaps.program), 3) << where;
        ASSERT_EQ(difference_of(step, bits_of(stays), bits_of(swaps)), "") << where;
        lower += method == Recompute::none && swaps.plan.device().bytes < stays.plan.device().bytes;
        for (const Node& node : swaps.program.nodes) cloned += node.phase == Phase::recompute;
        fused += count_of(swaps.program, "lstm_cell_replay_grad") +
                 count_of(swaps.program, "mlp_score_replay_grad") +
                 count_of(swaps.program, "matmul_relu_grad");
        for (const PassReport& pass : swaps.passes) {
          moved += pass.name == "schedule" && pass.after_bytes < pass.before_bytes;
        }
      }
    }
  }
  EXPECT_GT(lower, 20);
  EXPECT_GT(cloned, 200);
  EXPECT_GT(fused, 20);
  EXPECT_GT(moved, 10);
}

}  // namespace
}  // namespace pal::test
