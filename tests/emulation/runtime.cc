// Streams, events and graphs. A stream is a queue of work that nobody does before somebody
// waits; then streams take turns in the order that the settings say, as far as events allow, so
// that a missing wait shows. Several threads may use the
// device: whoever waits does the work of all.
#include "tests/emulation/runtime.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <exception>
#include <memory>
#include <random>
#include <set>
#include <stdexcept>
#include <vector>

#include "tests/emulation/counting.h"
#include "tests/emulation/emulation.h"
#include "tests/emulation/memory.h"

using Work = std::function<void()>;

// Work, or a wait until an event has been reached so many times, or the reaching of one.
struct Item {
  enum class Kind { work, wait, reach } kind = Kind::work;
  Work work = {};
  std::shared_ptr<struct EventState> event = {};
  int64_t count = 0;
};
// Recorded work: what must be done before a node, in the order of recording.
struct EmulatedGraph {
  struct Node {
    Work work;
    std::set<size_t> after;
    bool first = false;  // it was recorded on a stream of the highest priority
  };
  std::vector<Node> nodes;
  std::vector<EmulatedStream*> streams = {};
  bool valid = true;
};
static std::chrono::milliseconds advanced{0};  // what the clock of events is ahead of the host's

struct EventState {
  int64_t recorded = 0, reached = 0;
  bool timed = false;
  std::chrono::steady_clock::time_point at = {};  // reached last
  std::weak_ptr<EmulatedGraph> graph = {};        // recorded while that was captured, behind these
  std::set<size_t> after = {};
};
struct EmulatedEvent {
  std::shared_ptr<EventState> state = std::make_shared<EventState>();
};
struct EmulatedStream {
  std::deque<Item> queue;
  std::shared_ptr<EmulatedGraph> capture = {};
  std::set<size_t> after = {};  // the next node of the capture
  bool origin = false;
  bool first = false;  // of the highest priority
};

namespace pal::emulation {
namespace {

// What is given no stream: a stream of its own, for which ours, which do not block, do not wait.
EmulatedStream& legacy() {
  static auto& one = *new EmulatedStream;
  return one;
}
EmulatedStream& stream_of(cudaStream_t stream) { return stream ? *stream : legacy(); }
// Never destroyed: a device that a static holds destroys its streams when the program ends.
std::vector<EmulatedStream*>& streams() {
  static auto& list = *new std::vector<EmulatedStream*>;
  return list;
}
int64_t waits = 0;  // of the host
int64_t replays = 0, work_first = 0, alive = 0;
thread_local EmulatedGraph* capturing = nullptr;  // by this thread

// Does the stream's next item; false where it must wait for another stream.
bool advance(EmulatedStream& s) {
  Item& item = s.queue.front();
  if (item.kind == Item::Kind::wait && item.event->reached < item.count) return false;
  Item taken = std::move(item);
  s.queue.pop_front();
  if (taken.kind == Item::Kind::work) taken.work();
  if (taken.kind == Item::Kind::reach) {
    taken.event->reached = taken.count,
    taken.event->at = std::chrono::steady_clock::now() + advanced;
  }
  return true;
}

// One item of a stream after the other's, as it happens.
void drain_shuffled(std::vector<EmulatedStream*> turn, const std::function<bool()>& is_done) {
  static std::mt19937 rng;
  for (size_t stuck = 0; stuck < turn.size();) {
    std::shuffle(turn.begin() + int64_t(stuck), turn.end(), rng);
    EmulatedStream& s = *turn[stuck];
    if (is_done && is_done()) return;
    if (s.queue.empty() || !advance(s)) {
      ++stuck;  // until another one goes on
      continue;
    }
    stuck = 0;
  }
}

}  // namespace

bool is_capturing() { return capturing != nullptr; }
bool is_spoiled() {
  if (capturing) capturing->valid = false;
  return is_capturing();
}

void drain(const std::function<bool()>& is_done) {
  ++waits;
  std::vector<EmulatedStream*> turn = streams();
  turn.push_back(&legacy());
  std::erase_if(turn, [](EmulatedStream* s) { return s->capture.get() != nullptr; });
  if (settings().order == Order::backward) std::reverse(turn.begin(), turn.end());
  const Reach reach;
  if (settings().order == Order::shuffled) drain_shuffled(turn, is_done);
  for (size_t i = 0; i < turn.size();) {
    if (is_done && is_done()) return;
    const bool went_on = !turn[i]->queue.empty() && advance(*turn[i]);
    i = went_on ? 0 : i + 1;
  }
  for (EmulatedStream* s : turn) {
    if (!s->queue.empty()) throw std::runtime_error("emulation: streams wait for each other");
  }
}

cudaError_t enqueue(cudaStream_t stream, Work work) {
  const auto held = hold();
  EmulatedStream& s = stream_of(stream);
  if (s.capture) {
    s.capture->nodes.push_back({std::move(work), s.after, s.first});
    s.after = {s.capture->nodes.size() - 1};
    return cudaSuccess;
  }
  if (!stream && is_spoiled()) return fail(cudaErrorStreamCaptureImplicit);
  work_first += s.first;
  s.queue.push_back({.work = std::move(work)});
  return cudaSuccess;
}

int64_t graphs_run() { return replays; }
int64_t graphs_alive() { return alive; }
int64_t waits_made() { return waits; }
void advance(int64_t ms) { advanced += std::chrono::milliseconds(ms); }
int64_t preferred_work() {
  const auto held = hold();
  return work_first;
}
int64_t pending_work() {
  const auto held = hold();
  int64_t n = 0;
  for (EmulatedStream* s : streams()) n += int64_t(s->queue.size());
  return n + int64_t(legacy().queue.size());
}

}  // namespace pal::emulation

using namespace pal::emulation;

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0, *greatest = -5;
  return cudaSuccess;
}
// Priorities are counted and otherwise ignored: what is right is right in any order.
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* s, unsigned, int priority) {
  const auto held = hold();
  if (is_spoiled()) return fail(cudaErrorStreamCaptureUnsupported);  // no one counts on it
  streams().push_back(*s = new EmulatedStream);
  (*s)->first = priority < 0;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t s) {
  const auto held = hold();
  drain();
  std::erase(streams(), s);
  delete s;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t s) {
  const auto held = hold();
  if (is_spoiled()) return fail(cudaErrorStreamCaptureUnsupported);
  const EmulatedStream& stream = stream_of(s);
  if (stream.capture) return fail(cudaErrorStreamCaptureUnsupported);
  const auto is_empty = [&] { return stream.queue.empty(); };
  if (!is_empty()) drain(is_empty);
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned) {
  const auto held = hold();
  const EventState& event = *e->state;
  const auto graph = event.graph.lock();
  if (graph && !s->capture) {  // joins the capture
    s->capture = graph, s->after.clear();
    graph->streams.push_back(s);
  }
  if (s->capture) {
    if (graph != s->capture) {
      s->capture->valid = false;
      return fail(cudaErrorStreamCaptureIsolation);
    }
    s->after.insert(event.after.begin(), event.after.end());
    return cudaSuccess;
  }
  if (is_to_fail(settings().good_waits)) return cudaSuccess;
  if (event.recorded) {
    s->queue.push_back({.kind = Item::Kind::wait, .event = e->state, .count = event.recorded});
  }
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  const auto held = hold();
  if (is_spoiled()) return fail(cudaErrorStreamCaptureUnsupported);
  for (EmulatedStream* s : streams()) {
    if (s->capture) return fail(cudaErrorStreamCaptureUnsupported);
  }
  drain();
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* e, unsigned flags) {
  *e = new EmulatedEvent;
  (*e)->state->timed = !(flags & cudaEventDisableTiming);
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t e) {
  delete e;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) {
  const auto held = hold();
  EventState& event = *e->state;
  event.graph = s->capture, event.after = s->after;
  if (s->capture) return cudaSuccess;
  s->queue.push_back({.kind = Item::Kind::reach, .event = e->state, .count = ++event.recorded});
  return cudaSuccess;
}
// An external event of a capture is reached anew by each replay, and joins nothing.
cudaError_t cudaEventRecordWithFlags(cudaEvent_t e, cudaStream_t s, unsigned flags) {
  if (!(flags & cudaEventRecordExternal)) return cudaEventRecord(e, s);
  const auto held = hold();
  if (!s->capture) return fail(cudaErrorIllegalState);
  enqueue(s, [state = e->state] {
    state->reached = ++state->recorded;
    state->at = std::chrono::steady_clock::now() + advanced;
  });
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t e) {
  const auto held = hold();
  if (is_spoiled()) return fail(cudaErrorStreamCaptureUnsupported);
  const EventState& event = *e->state;
  if (event.graph.lock()) return fail(cudaErrorCapturedEvent);
  const auto is_reached = [&] { return event.reached >= event.recorded; };
  if (!is_reached()) drain(is_reached);
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t from, cudaEvent_t to) {
  const auto held = hold();
  for (const cudaEvent_t e : {from, to}) {
    const EventState& event = *e->state;
    if (!event.timed || !event.recorded || event.reached < event.recorded) {
      return fail(cudaErrorInvalidResourceHandle);
    }
  }
  *ms = std::chrono::duration<float, std::milli>(to->state->at - from->state->at).count();
  return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode) {
  const auto held = hold();
  drain();
  s->capture = std::make_shared<EmulatedGraph>(), s->origin = true;
  s->after.clear();
  capturing = s->capture.get();
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t s, cudaStreamCaptureStatus* status) {
  const auto held = hold();
  *status = s->capture ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t* graph) {
  const auto held = hold();
  if (!s->capture) return fail(cudaErrorInvalidValue);
  const std::shared_ptr<EmulatedGraph> taken = std::exchange(s->capture, nullptr);
  capturing = nullptr, s->origin = false;
  for (EmulatedStream* other : taken->streams) other->capture = nullptr;
  *graph = nullptr;
  if (!taken->valid) return fail(cudaErrorStreamCaptureInvalidated);
  // Everything must come before what the first stream would have done next.
  std::vector<bool> reached(taken->nodes.size());
  for (size_t n : s->after) reached[n] = true;
  for (size_t n = reached.size(); n-- > 0;) {
    if (!reached[n]) return fail(cudaErrorStreamCaptureUnjoined);
    for (size_t before : taken->nodes[n].after) reached[before] = true;
  }
  *graph = new EmulatedGraph{.nodes = taken->nodes};
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* ready, cudaGraph_t graph,
                                 unsigned long long flags) {
  const auto held = hold();
  if (is_to_fail(settings().good_graphs)) return fail(cudaErrorMemoryAllocation);
  ++alive;
  *ready = new EmulatedGraph{.nodes = graph->nodes};
  if (!(flags & cudaGraphInstantiateFlagUseNodePriority)) {
    for (EmulatedGraph::Node& node : (*ready)->nodes) node.first = false;
  }
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  const auto held = hold();
  drain();
  --alive;
  delete graph;
  return cudaSuccess;
}
// In any order that its nodes allow.
void replay(const EmulatedGraph& graph) {
  static std::mt19937 rng;
  std::vector<size_t> missing, ready;
  std::vector<std::vector<size_t>> next(graph.nodes.size());
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    missing.push_back(graph.nodes[n].after.size());
    for (size_t before : graph.nodes[n].after) next[before].push_back(n);
    if (missing[n] == 0) ready.push_back(n);
  }
  while (!ready.empty()) {
    auto taken = std::min_element(ready.begin(), ready.end());
    if (settings().order == Order::backward) taken = std::max_element(ready.begin(), ready.end());
    if (settings().order == Order::shuffled) taken = ready.begin() + int64_t(rng() % ready.size());
    const size_t n = *taken;
    ready.erase(taken);
    graph.nodes[n].work();
    for (size_t later : next[n]) {
      if (--missing[later] == 0) ready.push_back(later);
    }
  }
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t s) {
  if (is_to_fail(good_launches)) return fail(cudaErrorInvalidValue);
  {
    const auto held = hold();
    for (const EmulatedGraph::Node& node : graph->nodes) work_first += node.first;
  }
  return enqueue(s, [graph] {
    ++replays;
    replay(*graph);
  });
}
