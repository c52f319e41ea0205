// In which order an accelerator is told what a step has: who begins behind whom, and which part of
// a step is recorded. The device here writes down what it is told, and computes nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/accelerator.h"
#include "core/runner.h"

namespace pal {
namespace {

using Log = std::vector<std::string>;
Log* told = nullptr;  // by the kernels of the test that runs
void tell(const std::string& what) { told->push_back(what); }

std::string of_queue(QueueId queue) { return " q" + std::to_string(int(queue)); }

class Scribe final : public Accelerator {
 public:
  void use_here() override {}
  std::string description() const override { return "a scribe"; }
  std::string identity() const override { return "scribe"; }
  bool has_bf16() const override { return false; }
  int64_t free_bytes() const override { return 0; }
  int64_t room() const override { return 0; }
  std::byte* allocate(Space, int64_t, bool) override { return nullptr; }
  void release(Space, std::byte*) noexcept override {}
  void* stream(QueueId) override { return nullptr; }
  void prefer(QueueId, bool) override {}
  Event make_event() override { return std::make_shared<int>(events_++); }
  Event make_timed_event() override { return make_event(); }
  int64_t ns_between(const Event& from, const Event& to) override {
    return number(to) - number(from);
  }
  void record(const Event& event, QueueId queue) override {
    tell("mark " + name(event) + of_queue(queue));
  }
  void record_time(const Event&, QueueId) override {}
  void wait(QueueId queue, const Event& event) override {
    tell("wait " + name(event) + of_queue(queue));
  }
  void wait(const Event& event) override { tell("wait " + name(event)); }
  void synchronize() override {}
  void copy(QueueId, void*, const void*, int64_t) override {}
  void fill(QueueId, void*, unsigned char, int64_t) override {}
  void begin_recording() override { tell("record"); }
  Graph end_recording() override {
    tell("recorded");
    return std::make_shared<int>(graphs_++);
  }
  void abandon_recording() noexcept override {}
  void replay(const Graph& graph) override { tell("replay " + name(graph)); }

 private:
  static int number(const std::shared_ptr<void>& one) {
    return *static_cast<const int*>(one.get());
  }
  static std::string name(const std::shared_ptr<void>& one) { return std::to_string(number(one)); }
  int events_ = 0, graphs_ = 0;
};

// Storages without bytes. Something happens between the nodes on both sides of an edge.
class Edges final : public Memory {
 public:
  explicit Edges(std::vector<NodeId> edges) : edges_(std::move(edges)) {}
  void before_node(NodeId n, QueueId) override { tell_at(n); }
  void after_node(NodeId n, QueueId) override { tell_at(NodeId(n + 1)); }
  std::byte* acquire(StorageId, QueueId) override { return &byte_; }
  std::byte* outside_step(StorageId) override { return &byte_; }
  int64_t capacity() const override { return 1; }
  bool is_edge(NodeId n) const override {
    return std::find(edges_.begin(), edges_.end(), n) != edges_.end();
  }

 private:
  void tell_at(NodeId n) const {
    if (is_edge(n)) tell("edge " + std::to_string(n));
  }
  std::vector<NodeId> edges_;
  std::byte byte_{};
};

// A node for each queue given, each of which makes a value that nobody reads and waits for the node
// before it where that is on another queue.
struct Step {
  const OpDef op{.name = "some", .formula = "", .infer = nullptr};
  Program program;
  Storages storages;
  Log log;
  std::shared_ptr<Scribe> scribe = std::make_shared<Scribe>();

  explicit Step(const std::vector<int>& queues) {
    told = &log;
    for (const int queue : queues) {
      const ValueId v = program.values.add({.producer = program.nodes.next_id()});
      Node node{.op = &op, .out = {v}, .queue = QueueId(queue)};
      const NodeId before = program.node_count() - 1;
      if (before >= 0 && program.node(before).queue != queue) node.waits = {before};
      program.nodes.push_back(std::move(node));
      storages.of.push_back(storages.list.add({}));
      storages.offset.push_back(0), storages.workspace.push_back(kNone);
    }
  }
  Runner make_runner(Memory& memory, RunOptions options) {
    auto kernel = std::make_shared<Kernel>();
    kernel->run = [](const KernelArgs& args) { tell("node" + of_queue(args.queue.id)); };
    ByNode<std::shared_ptr<const Kernel>> kernels(program.nodes.size(), kernel);
    return {program, kernels, storages, memory, {.kind = DeviceKind::cuda, .accelerator = scribe},
            options};
  }
  // What is told in some runs, the last of them.
  Log run(Memory& memory, bool record, int runs) {
    Runner runner = make_runner(memory, {.record = record});
    for (int i = 0; i < runs; ++i) log.clear(), runner.run();
    return log;
  }
  Log run(std::vector<NodeId> edges, bool record, int runs) {
    Edges memory(std::move(edges));
    return run(memory, record, runs);
  }
};

// Events, as they are made: of nodes that others wait for, the beginning, the ends of queues.
TEST(RunnerDevice, QueuesBeginBehindComputeWhichEndsBehindThem) {
  EXPECT_EQ(Step({0, 0}).run({}, false, 1), (Log{"node q0", "node q0"})) << "there is no other";
  EXPECT_EQ(Step({1, 0}).run({}, false, 1),
            (Log{"mark 1 q0", "wait 1 q1", "node q1", "mark 0 q1", "wait 0 q0", "node q0",
                 "mark 3 q1", "wait 3 q0"}));
}

TEST(RunnerDevice, AQueueWithoutNodesIsToldNothing) {
  EXPECT_EQ(Step({0, 2}).run({}, false, 1),
            (Log{"mark 1 q0", "wait 1 q2", "node q0", "mark 0 q0", "wait 0 q2", "node q2",
                 "mark 3 q2", "wait 3 q0"}));
}

TEST(RunnerDevice, TheSecondRunIsRecordedAndThenReplayed) {
  Step step({0, 0});
  EXPECT_EQ(step.run({}, true, 2), (Log{"record", "node q0", "node q0", "recorded", "replay 0"}));
  EXPECT_EQ(Step({0, 0}).run({}, true, 3), (Log{"replay 0"}));
  EXPECT_EQ(Step({0, 1}).run({}, true, 3), (Log{"replay 0"})) << "with the queues' waits";
}

TEST(RunnerDevice, ARecordingEndsAtAnEdge) {
  EXPECT_EQ(Step({0, 0, 0}).run({1}, true, 2),
            (Log{"record", "node q0", "recorded", "replay 0", "edge 1", "edge 1", "record",
                 "node q0", "node q0", "recorded", "replay 1"}));
  EXPECT_EQ(Step({0, 0, 0}).run({1}, true, 3), (Log{"replay 0", "edge 1", "edge 1", "replay 1"}));
  EXPECT_EQ(Step({0, 0}).run({2}, true, 3), (Log{"replay 0", "edge 2"}));
}

// The scribe's events are moments, in the order in which they are made: of the trace its origin,
// then every node's begin and end.
TEST(RunnerDevice, EveryNodeHasItsTime) {
  Step step({0, 0, 0});
  Edges memory({});
  Runner runner = step.make_runner(memory, {.trace = true});
  runner.run();
  EXPECT_EQ(runner.node_times(), (std::vector<int64_t>{1, 1, 1}));
  int64_t before = 0;
  for (const Runner::Span& span : runner.spans()) {
    EXPECT_GT(span.begin, before);
    before = span.end;
  }
}

// Pieces would cut the other queues as well: wherever the edges are, the step runs node by node.
TEST(RunnerDevice, NothingOfSeveralQueuesIsRecordedWithAnEdge) {
  for (const std::vector<NodeId>& edges : {std::vector<NodeId>{1}, {2}, {1, 2}, {3}}) {
    Step step({0, 1, 0});
    const Log log = step.run(edges, true, 3);
    EXPECT_EQ(std::count(log.begin(), log.end(), "record"), 0);
    EXPECT_EQ(std::count(log.begin(), log.end(), "node q0"), 2);
    EXPECT_EQ(std::count(log.begin(), log.end(), "node q1"), 1);
  }
}

}  // namespace
}  // namespace pal
