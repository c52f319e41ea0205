// Runs a program, node by node. It knows kernels, storages and queues; what a node is for, and
// where its bytes come from, it does not. On the processor a queue is a thread (runner.cc); on an
// accelerator it is one of its streams, fed by the caller's thread (runner_device.cc).
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/accelerator.h"
#include "core/memory.h"
#include "core/prepare.h"

namespace pal {

struct RunOptions {
  bool poison = false;        // fill freed bytes with NaN: a read after the end of a lifetime shows
  bool check_finite = false;  // stop with the first node that makes a NaN or an infinity
  bool trace = false;         // record when every node ran, for write_chrome_trace
  // On an accelerator: record the second run, and replay it from then on, until the memory's
  // version changes; with `trace` each run is recorded anew. One that the device has no room for,
  // or that fails as it is recorded, is run unrecorded from then on, and a line on stderr says why.
  bool record = false;
};

class Runner final {
 public:
  // The program, storages and memory must outlive the runner. Allocates here so that run() does
  // not.
  Runner(const Program& program, ByNode<std::shared_ptr<const Kernel>> kernels,
         const Storages& storages, Memory& memory, const Device& device, RunOptions options = {});
  ~Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  // One pass over the program. Inputs and state are in place before, outputs and state after.
  // ProgramError from a kernel, or from check_finite, names the node. After an error the state may
  // have been written in part: nothing in the memory is to be relied on. On an accelerator it
  // returns when all is queued.
  void run();
  // To be called when the addresses of the memory have changed and not its version.
  void forget_recording() { recordings_ = {}; }
  // Whether steps are recorded from here on; false forgets those that were.
  void set_recording(bool on);
  bool has_recording() const { return !recordings_[0].empty() || !recordings_[1].empty(); }
  // Which of two recordings the next run makes or replays: one for each slot of the inputs.
  void use_recording(int slot) { recording_ = size_t(slot); }

  // The bytes of an input, output or state value between steps.
  std::byte* data(ValueId value);
  template <class T = float> T* data(const std::string& output) {
    return reinterpret_cast<T*>(data(program_.output(output)));
  }

  void set_options(RunOptions options);
  const RunOptions& options() const { return options_; }
  // The last run in the Trace Event Format, for chrome://tracing or Perfetto. One track a queue.
  void write_chrome_trace(const std::string& path) const;
  // Nanoseconds that each node took in the last run (with RunOptions::trace).
  std::vector<int64_t> node_times() const;
  // When each node ran in it, on a clock of nanoseconds.
  struct Span {
    int64_t begin = 0, end = 0;
  };
  const std::vector<Span>& spans() const { return spans_; }

 private:
  struct Call {  // of a node: ranges into the flat arrays below
    uint32_t operand, storage;
    uint16_t ins, outs, storages;
    StorageId workspace;  // kNone where it needs none
  };
  struct Operand {
    StorageId storage;
    int64_t offset;
  };
  // What a queue's thread needs to itself.
  struct Lane {
    Queue queue;
    std::vector<NodeId> nodes;
    ByStorage<std::byte*> address;  // as last acquired
    std::vector<void*> pointers;    // of the node that runs
    std::atomic<int64_t> done{0};   // all of this queue's nodes below this are finished
    std::thread thread;
  };

  void resolve();
  void find_ends();
  void start_lanes();
  void stop_lanes();
  void run_lane(Lane& lane);
  void execute(NodeId node, Lane& lane);
  void start(NodeId node, Lane& lane);
  void check(NodeId node, const Lane& lane) const;
  std::string at_node(NodeId node) const;  // ", at node 3 (forward, encoder/rnn0 t=1)"
  void make_marks();
  void begin_trace();
  void end_trace();
  void run_on_accelerator();
  void queue_step();
  void queue_all();
  void record_all();
  void queue_piece(NodeId begin, NodeId end);
  Accelerator::Graph record_piece(NodeId begin, NodeId end);
  void replay_all();
  void poison_ended(NodeId node, Lane& lane);
  void fail(std::exception_ptr error);

  const Program& program_;
  ByNode<std::shared_ptr<const Kernel>> kernels_;
  const Storages& storages_;
  Memory& memory_;
  const std::shared_ptr<Accelerator> accelerator_;  // null: the processor
  RunOptions options_;
  ByNode<Call> calls_;
  std::vector<Operand> operands_;
  std::vector<StorageId> node_storages_;
  // Storages that no node touches after it, on any queue; for poison.
  ByNode<std::vector<StorageId>> ends_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  ByNode<char> awaited_;  // by a node of another queue
  std::vector<Span> spans_;
  ByNode<Accelerator::Event> marks_;  // by node that another queue waits for, else null
  std::vector<Accelerator::Event> ends_of_lanes_;
  Accelerator::Event begin_;
  struct Timed {  // around a node, on its queue
    Accelerator::Event begin, end;
  };
  ByNode<Timed> timed_;  // of an accelerator that traces
  Accelerator::Event origin_;
  struct Piece {  // of a recorded step: some nodes, up to an edge of the memory
    NodeId begin, end;
    Accelerator::Graph graph;
  };
  std::array<std::vector<Piece>, 2> recordings_;
  size_t recording_ = 0;
  int64_t version_ = 0;  // of the memory, that they are of
  bool warm_ = false;    // has run without being recorded

  std::atomic<uint64_t> generation_{0};
  std::atomic<bool> stop_{false}, failed_{false};
  std::exception_ptr error_;
};

}  // namespace pal
