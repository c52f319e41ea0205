// The runner on an accelerator: nodes are queued in program order, and what waits for another queue
// waits for an event there. A step whose addresses never change is recorded once and replayed.
#include "core/error.h"
#include "core/runner.h"

namespace pal {

// An event for every node that another queue waits for.
void Runner::make_marks() {
  marks_.resize(program_.nodes.size());
  for (const Node& node : program_.nodes) {
    for (NodeId w : node.waits) {
      if (!marks_[w]) marks_[w] = accelerator_->make_event();
    }
  }
  begin_ = accelerator_->make_event();
  for (size_t q = 0; q < lanes_.size(); ++q) ends_of_lanes_.push_back(accelerator_->make_event());
}

void Runner::run_on_accelerator() {
  Accelerator::Graph& recording = recordings_[recording_];
  if (recording) return accelerator_->replay(recording);
  const bool watched = options_.poison || options_.check_finite || options_.trace;
  // The first run loads kernels and libraries, which cannot be recorded.
  const bool record = options_.record && warm_ && !watched;
  memory_.begin_step();
  if (record) {
    accelerator_->begin_recording();
    try {
      queue_all();
    } catch (...) {
      accelerator_->abandon_recording();
      throw;
    }
    recording = accelerator_->end_recording();
    accelerator_->replay(recording);
  } else {
    queue_all();
    warm_ = true;
  }
  memory_.end_step();
}

// The compute queue begins before the others, and ends after them, so that programs follow one
// another whatever their queues.
void Runner::queue_all() {
  if (lanes_.size() > 1) accelerator_->record(begin_, kComputeQueue);
  for (size_t q = 1; q < lanes_.size(); ++q) accelerator_->wait(QueueId(q), begin_);
  for (NodeId n = 0; n < program_.node_count(); ++n) {
    const Node& node = program_.node(n);
    for (NodeId w : node.waits) accelerator_->wait(node.queue, marks_[w]);
    execute(n, *lanes_[node.queue]);
    if (marks_[n]) accelerator_->record(marks_[n], node.queue);
  }
  for (size_t q = 1; q < lanes_.size(); ++q) {
    accelerator_->record(ends_of_lanes_[q], QueueId(q));
    accelerator_->wait(kComputeQueue, ends_of_lanes_[q]);
  }
}

}  // namespace pal
