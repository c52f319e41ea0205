// The runner on an accelerator: nodes are queued in program order, and what waits for another queue
// waits for an event there. A step whose addresses stay is recorded once and replayed.
#include <cstdio>
#include <mutex>
#include <set>
#include <string>

#include "core/error.h"
#include "core/runner.h"

namespace pal {
namespace {

// Of all programs, since they fail alike.
void tell_once(const std::string& what) {
  static std::mutex in_turn;
  static std::set<std::string> told;
  const std::lock_guard lock(in_turn);
  if (told.insert(what).second) std::fprintf(stderr, "warning: %s\n", what.c_str());
}

// The compute queue goes on behind what the others have been given. `ends`: an event for each that
// has nodes.
void join_queues(Accelerator& accelerator, const std::vector<Accelerator::Event>& ends) {
  for (size_t q = 1; q < ends.size(); ++q) {
    if (!ends[q]) continue;
    accelerator.record(ends[q], QueueId(q));
    accelerator.wait(kComputeQueue, ends[q]);
  }
}

}  // namespace

// An event for every node that another queue waits for.
void Runner::make_marks() {
  marks_.resize(program_.nodes.size());
  for (const Node& node : program_.nodes) {
    for (NodeId w : node.waits) {
      if (!marks_[w]) marks_[w] = accelerator_->make_event();
    }
  }
  begin_ = accelerator_->make_event();
  for (const auto& lane : lanes_) {
    ends_of_lanes_.push_back(lane->nodes.empty() ? Accelerator::Event()
                                                 : accelerator_->make_event());
  }
}

void Runner::run_on_accelerator() {
  memory_.begin_step();
  try {
    queue_step();
  } catch (...) {
    try {
      join_queues(*accelerator_, ends_of_lanes_);  // what is queued still uses the step's bytes
      memory_.end_step();
    } catch (const DeviceError&) {  // the first error says more
    }
    throw;
  }
  memory_.end_step();
}

void Runner::queue_step() {
  if (version_ != memory_.version()) forget_recording(), version_ = memory_.version();
  if (!recordings_[recording_].empty()) return replay_all();
  if (options_.trace) begin_trace();
  const bool watched = options_.poison || options_.check_finite;
  // The first run loads kernels and libraries, which cannot be recorded.
  if (options_.record && warm_ && !watched)
    record_all();
  else
    queue_all();
  if (options_.trace) end_trace();
  warm_ = true;
}

// The device's own clock tells what a node takes: nobody waits in between. Of a recorded step the
// times are of its replay: else a short node would take as long as the host does to start it.
void Runner::begin_trace() {
  if (!origin_) origin_ = accelerator_->make_timed_event();
  timed_.resize(program_.nodes.size());
  for (Timed& node : timed_) {
    if (node.begin) break;
    node = {accelerator_->make_timed_event(), accelerator_->make_timed_event()};
  }
  accelerator_->record_time(origin_, kComputeQueue);
}
void Runner::end_trace() {
  accelerator_->synchronize();
  forget_recording();  // the next one has its own beginning
  for (NodeId n = 0; n < program_.node_count(); ++n) {
    spans_[n] = {accelerator_->ns_between(origin_, timed_[n].begin),
                 accelerator_->ns_between(origin_, timed_[n].end)};
  }
}

// Each piece runs when it is recorded: the next edge is for what comes behind it.
void Runner::record_all() {
  const NodeId count = program_.node_count();
  std::vector<NodeId> begins{0};
  for (NodeId n = 1; n < count; ++n) {
    if (memory_.is_edge(n)) begins.push_back(n);
  }
  // Pieces would cut the other queues as well, which run ahead.
  const bool any_edge = begins.size() > 1 || memory_.is_edge(count);
  if (any_edge && lanes_.size() > 1) return queue_all();
  begins.push_back(count);
  std::vector<Piece> pieces;
  for (size_t i = 0; i + 1 < begins.size(); ++i) {
    const NodeId begin = begins[i], end = begins[i + 1];
    memory_.before_node(begin, kComputeQueue);
    if (Accelerator::Graph graph = record_piece(begin, end)) {
      accelerator_->replay(graph);
      pieces.push_back({begin, end, std::move(graph)});
    } else {
      queue_piece(begin, end);
    }
    memory_.after_node(end - 1, kComputeQueue);
  }
  // One that the device has no room for would have none the next time.
  if (pieces.size() + 1 < begins.size()) {
    accelerator_->synchronize();  // the pieces that were recorded are running
    return set_recording(false);
  }
  recordings_[recording_] = std::move(pieces);
}

void Runner::queue_piece(NodeId begin, NodeId end) {
  if (lanes_.size() > 1) return queue_all();
  for (NodeId n = begin; n < end; ++n) start(n, *lanes_[0]);
}

// Null: it is not to be had, and nothing of it has run. What fails while it is recorded may be what
// cannot be recorded, as a library's own work; if it is not that, it fails again when it is run.
Accelerator::Graph Runner::record_piece(NodeId begin, NodeId end) {
  if (!options_.record) return nullptr;  // the piece before it was not
  Accelerator::Graph graph;
  std::string why = "the device has no room for it";
  accelerator_->begin_recording();
  try {
    queue_piece(begin, end);
    graph = accelerator_->end_recording();
  } catch (const DeviceError& error) {
    accelerator_->abandon_recording();
    why = error.what();
  } catch (...) {
    accelerator_->abandon_recording();
    throw;
  }
  options_.record = graph != nullptr;
  if (!graph) tell_once("a step is not recorded, and runs node by node: " + why);
  return graph;
}

void Runner::set_recording(bool on) {
  options_.record = on;
  if (!on) forget_recording();
}

void Runner::replay_all() {
  for (const Piece& piece : recordings_[recording_]) {
    memory_.before_node(piece.begin, kComputeQueue);
    accelerator_->replay(piece.graph);
    memory_.after_node(piece.end - 1, kComputeQueue);
  }
}

// The compute queue begins before the others, and ends after them, so that programs follow one
// another whatever their queues.
void Runner::queue_all() {
  if (lanes_.size() > 1) accelerator_->record(begin_, kComputeQueue);
  for (size_t q = 1; q < lanes_.size(); ++q) {
    if (!lanes_[q]->nodes.empty()) accelerator_->wait(QueueId(q), begin_);
  }
  for (NodeId n = 0; n < program_.node_count(); ++n) {
    const Node& node = program_.node(n);
    for (NodeId w : node.waits) accelerator_->wait(node.queue, marks_[w]);
    execute(n, *lanes_[node.queue]);
    if (marks_[n]) accelerator_->record(marks_[n], node.queue);
  }
  join_queues(*accelerator_, ends_of_lanes_);
}

}  // namespace pal
