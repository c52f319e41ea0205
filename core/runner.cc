// The runner: acquire, start the kernel, release. Queues are threads that wait for each other.
#include "core/runner.h"

#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iomanip>
#include <limits>
#include <string>
#include <system_error>
#include <utility>

#include "core/clock.h"
#include "core/error.h"
#include "core/order.h"

namespace pal {
namespace {

int64_t now_ns() {
  using std::chrono::nanoseconds;
  return std::chrono::duration_cast<nanoseconds>(Clock::now().time_since_epoch()).count();
}

constexpr int64_t kAll = std::numeric_limits<int64_t>::max();

// Inside a JSON string. Scopes are names that model code chose.
std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out;
}

// A thread that mostly waits for other ranks, and that these wait for: where the system lets it, it
// runs as soon as it wakes, also where every core computes.
void wake_soon() {
  constexpr int kNice = -10;
  setpriority(PRIO_PROCESS, 0, kNice);  // of this thread, on Linux; refused to most users
}

}  // namespace

Runner::Runner(const Program& program, ByNode<std::shared_ptr<const Kernel>> kernels,
               const Storages& storages, Memory& memory, const Device& device, RunOptions options)
    : program_(program),
      kernels_(std::move(kernels)),
      storages_(storages),
      memory_(memory),
      accelerator_(device.accelerator) {
  if (kernels_.size() != program.nodes.size()) {
    throw ProgramError("the runner needs one kernel a node");
  }
  resolve();
  size_t widest = 0;
  for (const Call& c : calls_) widest = std::max(widest, size_t(c.ins) + c.outs);
  const int queues = queue_count(program);
  for (int q = 0; q < queues; ++q) {
    auto lane = std::make_unique<Lane>();
    lane->queue = {QueueId(q), q == kComputeQueue ? device.threads : 1};
    lane->address.assign(storages.list.size(), nullptr);
    lane->pointers.assign(widest, nullptr);
    for (NodeId n : program.nodes.ids()) {
      if (program.node(n).queue == q) lane->nodes.push_back(n);
    }
    lanes_.push_back(std::move(lane));
  }
  awaited_.resize(program.nodes.size(), 0);
  for (const Node& node : program.nodes) {
    for (const NodeId w : node.waits) awaited_[w] |= program.node(w).queue != node.queue;
  }
  set_options(options);
  if (accelerator_) {
    make_marks();
    return;
  }
  try {
    start_lanes();
  } catch (const std::system_error& refused) {
    stop_lanes();
    throw Error(kExitFailed, "the step has " + std::to_string(queues) +
                                 " queues, each with a thread, and the machine refuses one (" +
                                 refused.what() +
                                 "): allow the process more threads or addresses (ulimit -u, -v)");
  }
}

void Runner::start_lanes() {
  for (size_t q = 1; q < lanes_.size(); ++q) {
    if (lanes_[q]->nodes.empty()) continue;
    lanes_[q]->thread = std::thread([this, q] {
      if (program_.node(lanes_[q]->nodes[0]).op->collective) wake_soon();
      for (uint64_t seen = 0;;) {
        generation_.wait(seen);
        seen = generation_.load();
        if (stop_) return;
        run_lane(*lanes_[q]);
      }
    });
  }
}

Runner::~Runner() { stop_lanes(); }

void Runner::stop_lanes() {
  stop_ = true;
  ++generation_;
  generation_.notify_all();
  for (auto& lane : lanes_) {
    if (lane->thread.joinable()) lane->thread.join();
  }
}

void Runner::resolve() {
  for (NodeId n : program_.nodes.ids()) {
    const Node& node = program_.node(n);
    Call call{.operand = uint32_t(operands_.size()),
              .storage = uint32_t(node_storages_.size()),
              .ins = uint16_t(node.in.size()),
              .outs = uint16_t(node.out.size()),
              .storages = 0,
              .workspace = storages_.workspace[n]};
    auto touch = [&](StorageId s) {
      if (s == kNone) return;
      auto first = node_storages_.begin() + call.storage;
      auto at = std::find(first, node_storages_.end(), s);
      if (at == node_storages_.end()) node_storages_.push_back(s), ++call.storages;
    };
    for (auto* side : {&node.in, &node.out}) {
      for (ValueId v : *side) {
        const StorageId s = v == kNone ? StorageId() : storages_.of[v];
        touch(s);
        operands_.push_back({s, v == kNone ? 0 : storages_.offset[v]});
      }
    }
    touch(call.workspace);
    calls_.push_back(call);
  }
}

void Runner::find_ends() {
  // By storage and queue, the last node that touches it.
  ByStorage<std::vector<NodeId>> touches(storages_.list.size(),
                                         std::vector<NodeId>(lanes_.size(), kNone));
  for (NodeId n : program_.nodes.ids()) {
    const Call& call = calls_[n];
    for (uint32_t i = 0; i < call.storages; ++i) {
      touches[node_storages_[call.storage + i]][program_.node(n).queue] = n;
    }
  }
  ends_.resize(program_.nodes.size());
  const Order order(program_);
  for (StorageId s : touches.ids()) {
    const Storage& storage = storages_[s];
    if (!storage.is_transient() || storage.output) continue;
    // Whoever takes the bytes waits for all of them, and so for the one that comes after the rest.
    const auto& nodes = touches[s];
    const auto last = std::find_if(nodes.begin(), nodes.end(), [&](NodeId n) {
      return n != kNone && std::all_of(nodes.begin(), nodes.end(), [&](NodeId m) {
               return m == n || m == kNone || order.before(m, n);
             });
    });
    if (last != nodes.end()) ends_[*last].push_back(s);
  }
}

void Runner::set_options(RunOptions options) {
  options_ = options;
  forget_recording();
  if (options_.poison && ends_.empty()) find_ends();
  if (options_.trace) spans_.resize(program_.nodes.size());
}

void Runner::run() {
  if (accelerator_) return run_on_accelerator();
  memory_.begin_step();
  failed_ = false, error_ = nullptr;
  for (auto& lane : lanes_) lane->done.store(0);
  if (lanes_.size() > 1) {
    ++generation_;
    generation_.notify_all();
  }
  run_lane(*lanes_[0]);
  for (size_t q = 1; q < lanes_.size(); ++q) {
    if (lanes_[q]->nodes.empty()) continue;
    for (int64_t done; (done = lanes_[q]->done.load()) != kAll;) lanes_[q]->done.wait(done);
  }
  memory_.end_step();
  if (error_) std::rethrow_exception(error_);
}

void Runner::fail(std::exception_ptr error) {
  if (!failed_.exchange(true)) error_ = std::move(error);
}

void Runner::run_lane(Lane& lane) {
  // Who waits does so for one node: the others wake nobody.
  auto report = [&](int64_t done, bool awaited) {
    lane.done.store(done, std::memory_order_release);
    if (awaited) lane.done.notify_all();
  };
  try {
    for (NodeId n : lane.nodes) {
      for (NodeId w : program_.node(n).waits) {
        auto& other = lanes_[program_.node(w).queue]->done;
        for (int64_t done; (done = other.load(std::memory_order_acquire)) <= w;) other.wait(done);
      }
      if (failed_) break;
      execute(n, lane);
      report(int64_t(n) + 1, awaited_[n]);
    }
  } catch (...) {
    fail(std::current_exception());
  }
  report(kAll, lanes_.size() > 1);  // also after a failure, so that nobody waits for ever
}

void Runner::execute(NodeId n, Lane& lane) {
  const Call& call = calls_[n];
  memory_.before_node(n, lane.queue.id);
  start(n, lane);
  memory_.after_node(n, lane.queue.id);
  for (int i = 0; i < call.storages; ++i) {
    memory_.release(node_storages_[call.storage + i], lane.queue.id);
  }
}

void Runner::start(NodeId n, Lane& lane) {
  if (accelerator_) {
    accelerator_->prefer(lane.queue.id, memory_.goes_first(n));
    lane.queue.stream = accelerator_->stream(lane.queue.id);
  }
  const Call& call = calls_[n];
  const StorageId* storages = node_storages_.data() + call.storage;
  for (int i = 0; i < call.storages; ++i) {
    lane.address[storages[i]] = memory_.acquire(storages[i], lane.queue.id);
  }
  const size_t count = size_t(call.ins) + call.outs;
  for (size_t i = 0; i < count; ++i) {
    const Operand& operand = operands_[call.operand + i];
    lane.pointers[i] =
        operand.storage == kNone ? nullptr : lane.address[operand.storage] + operand.offset;
  }
  const Kernel& kernel = *kernels_[n];
  const KernelArgs args{
      .in = {lane.pointers.data(), call.ins},
      .out = {lane.pointers.data() + call.ins, call.outs},
      .in_spec = kernel.in,
      .out_spec = kernel.out,
      .attrs = program_.node(n).attrs,
      .state = kernel.prepared.state.get(),
      .workspace = call.workspace == kNone ? nullptr : lane.address[call.workspace],
      .queue = lane.queue};
  const bool timed = accelerator_ && options_.trace;
  const int64_t begin = options_.trace ? now_ns() : 0;
  try {
    if (timed) accelerator_->record_time(timed_[n].begin, lane.queue.id);
    kernel.start(args);
    if (timed) accelerator_->record_time(timed_[n].end, lane.queue.id);
  } catch (const RecordingRefused&) {
    throw;
  } catch (const DeviceError& error) {
    throw DeviceError("[" + std::string(program_.node(n).op->name) + "] " + error.what() +
                      at_node(n));
  }
  if (options_.trace && !timed) spans_[n] = {begin, now_ns()};
  if (options_.check_finite) check(n, lane);
  if (options_.poison) poison_ended(n, lane);
}

void Runner::poison_ended(NodeId n, Lane& lane) {
  for (StorageId s : ends_[n]) {
    std::byte* begin = lane.address[s];
    if (accelerator_)
      accelerator_->fill(lane.queue.id, begin, 0xFF, storages_[s].bytes);
    else
      std::memset(begin, 0xFF, size_t(storages_[s].bytes));
  }
}

void Runner::check(NodeId n, const Lane& lane) const {
  const Node& node = program_.node(n);
  for (size_t i = 0; i < node.out.size(); ++i) {
    if (node.out[i] == kNone) continue;
    const TensorSpec& spec = program_.value(node.out[i]).spec;
    if (spec.dtype != DType::f32 || spec.layout) continue;
    const float* x = static_cast<const float*>(lane.pointers[node.in.size() + i]);
    std::vector<float> fetched;
    if (accelerator_) {
      fetched.resize(size_t(spec.numel()));
      accelerator_->copy(lane.queue.id, fetched.data(), x, spec.bytes());
      accelerator_->synchronize();
      x = fetched.data();
    }
    for (int64_t e = 0, size = spec.numel(); e < size; ++e) {
      if (std::isfinite(x[e])) continue;
      throw ProgramError("[" + std::string(node.op->name) + "] made " +
                         (std::isnan(x[e]) ? "a NaN" : "an infinity") + " in output " +
                         std::to_string(i) + " " + to_string(spec) + " at element " +
                         std::to_string(e) + at_node(n));
    }
  }
}

std::string Runner::at_node(NodeId n) const {
  const Node& node = program_.node(n);
  const std::string where = program_.scope_of(node);
  return ", at node " + std::to_string(n) + " (" + to_string(node.phase) +
         (where.empty() ? "" : ", " + where) + ")";
}

std::byte* Runner::data(ValueId v) {
  return memory_.outside_step(storages_.of[v]) + storages_.offset[v];
}

std::vector<int64_t> Runner::node_times() const {
  std::vector<int64_t> times;
  for (const Span& span : spans_) times.push_back(span.end - span.begin);
  return times;
}

void Runner::write_chrome_trace(const std::string& path) const {
  if (spans_.empty()) throw ProgramError("there is no trace: set RunOptions::trace, then run");
  std::ofstream out(path);
  out << std::fixed << std::setprecision(3) << "[";  // microseconds, to the nanosecond
  const int64_t origin = std::min_element(spans_.begin(), spans_.end(), [](Span a, Span b) {
                           return a.begin < b.begin;
                         })->begin;
  for (NodeId n = 0; n < NodeId(spans_.size()); ++n) {
    const Node& node = program_.node(n);
    out << (n ? ",\n" : "\n") << "{\"name\":\"" << node.op->name << "\",\"cat\":\""
        << to_string(node.phase) << "\",\"ph\":\"X\",\"pid\":0,\"tid\":" << int(node.queue)
        << ",\"ts\":" << double(spans_[n].begin - origin) / 1e3
        << ",\"dur\":" << double(spans_[n].end - spans_[n].begin) / 1e3
        << ",\"args\":{\"node\":" << n << ",\"scope\":\"" << escaped(program_.scope_of(node))
        << "\"}}";
  }
  out << "\n]\n";
  if (!out.flush()) throw Error(kExitFailed, path + ": the trace could not be written");
}

}  // namespace pal
