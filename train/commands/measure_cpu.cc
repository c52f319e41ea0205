// Micro-benchmarks of the kernels as the runner calls them.
#include "train/commands/measure_cpu.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>

#include "core/builder.h"
#include "core/clock.h"
#include "core/parallel.h"
#include "core/prepare.h"
#include "memory/run/program_set.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/add.h"
#include "ops/products/matmul.h"
#include "train/config/wording.h"

namespace pal {
namespace {

constexpr const char* kBusy =
    "  All threads were slower than one: the machine does other work. Measure again when it is "
    "idle.";

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + long(values.size() / 2), values.end());
  return values[values.size() / 2];
}

// Seconds that one call takes, in each of several stretches of calls, a 16th of `seconds` each
// unless `calls` says how many; after two calls for nothing.
std::vector<double> stretches_of(const std::function<void()>& call, double seconds, int calls = 0) {
  call();
  const auto first = Clock::now();
  call();
  if (calls == 0) calls = std::max(1, int(seconds / 16 / std::max(1e-9, seconds_since(first))));
  std::vector<double> times;
  for (const auto start = Clock::now(); seconds_since(start) < seconds || times.size() < 3;) {
    const auto begin = Clock::now();
    for (int i = 0; i < calls; ++i) call();
    times.push_back(seconds_since(begin) / calls);
  }
  return times;
}
double seconds_of(const std::function<void()>& call, double seconds) {
  return median(stretches_of(call, seconds));
}
double least_seconds_of(const std::function<void()>& call, double seconds) {
  const std::vector<double> times = stretches_of(call, seconds, 1);
  return *std::min_element(times.begin(), times.end());
}

// Bytes on a boundary of kAlignment, all of them touched; as floats they are small numbers.
class Bytes {
 public:
  explicit Bytes(int64_t bytes) : memory_(size_t(bytes + kAlignment), std::byte{0x3c}) {}
  std::byte* data() {
    const auto past = int64_t(uintptr_t(memory_.data()) % size_t(kAlignment));
    return memory_.data() + (kAlignment - past);
  }

 private:
  std::vector<std::byte> memory_;
};

// Seconds of one run of an operator.
double time_kernel(const OpDef& op, const Specs& in, const Attrs& attrs, const Device& device,
                   double seconds, decltype(seconds_of)* time = seconds_of) {
  KernelCache cache(device);
  const Specs out = infer_specs(op, in, attrs);
  const auto kernel = cache.get(op, in, out, attrs);
  std::vector<Bytes> memory;
  std::vector<void*> ins, outs;
  memory.reserve(in.size() + out.size() + 1);
  auto make = [&](int64_t bytes) { return memory.emplace_back(bytes).data(); };
  // An operand without extents is an absent one.
  for (const TensorSpec& s : in) ins.push_back(s.shape.rank() ? make(s.bytes()) : nullptr);
  for (const TensorSpec& s : out) outs.push_back(make(s.bytes()));
  std::byte* workspace = make(kernel->prepared.workspace);
  Queue queue{.workers = device.threads};
  const KernelArgs args{
      ins, outs, kernel->in, kernel->out, attrs, kernel->prepared.state.get(), workspace, queue};
  return time([&] { kernel->run(args); }, seconds);
}

// Seconds that a node costs whose work is next to nothing.
double time_node(const Device& device, double seconds) {
  constexpr int kNodes = 2000;
  Builder b;
  const Val x = b.input("x", {Shape{16}});
  Val y = x;
  for (int i = 0; i < kNodes; ++i) y = add(y, x);
  b.output("y", y);
  ProgramSet programs(CompileOptions{}, device);
  Executable& chain = programs.add("chain", b.take());
  std::memset(chain.input("x"), 0, 16 * sizeof(float));
  return seconds_of([&] { chain.run(); }, seconds) / kNodes;
}

// Seconds of a loop in which each thread has one chunk of elements: the least of short stretches,
// as whatever else the machine does makes threads wait for each other.
double time_chunks(const Device& device, double seconds) {
  const Specs in(2, TensorSpec{Shape{kElementGrain * device.threads}});
  return time_kernel(add_op, in, {}, device, seconds, least_seconds_of);
}

std::string model_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) {
      return line.substr(colon + 2);
    }
  }
  return "this machine's processor";
}

// Main memory's rate is that of the longest stream. A cache is told by streams that are clearly
// faster, nearer to the best than to main memory.
void fit_streams(CpuMeasurement& m) {
  DeviceProfile& p = m.profile;
  p.memory = m.streams.back().bytes_per_s;
  double best = 0;
  for (const auto& s : m.streams) best = std::max(best, s.bytes_per_s);
  std::vector<double> cached;
  for (const auto& s : m.streams) {
    if (s.bytes_per_s < std::sqrt(best * p.memory)) break;
    cached.push_back(s.bytes_per_s);
    p.cache_bytes = s.bytes;
  }
  if (cached.empty() || cached.size() == m.streams.size() || best < 1.5 * p.memory) {
    p.cache_bytes = 0;
  } else {
    p.cache = median(cached);
  }
}

// With all threads of `device`.
CpuMeasurement measure_threads(const Device& device, double seconds) {
  CpuMeasurement m;
  DeviceProfile& p = m.profile;
  p.measured = true;
  p.name = model_name() + ", " + std::to_string(device.threads) +
           (device.threads == 1 ? " thread" : " threads");
  p.units = device.threads;
  p.capacity = int64_t(sysconf(_SC_PHYS_PAGES)) * int64_t(sysconf(_SC_PAGE_SIZE));
  p.launch = time_node(device, seconds);

  // Gates of a time step at two sizes, a weight gradient, and products as large as layers get.
  constexpr int64_t kShapes[][3] = {{64, 1024, 256}, {128, 2048, 512},   {512, 2048, 128},
                                    {512, 512, 512}, {1024, 1024, 1024}, {2048, 2048, 512}};
  std::vector<double> rates;
  for (const auto& [rows, columns, inner] : kShapes) {
    const Specs in{TensorSpec{Shape{rows, inner}}, TensorSpec{Shape{inner, columns}}, TensorSpec{}};
    const double flops = 2.0 * double(rows) * double(columns) * double(inner);
    rates.push_back(flops / time_kernel(matmul_op, in, MatmulAttrs{}, device, seconds));
    m.products.push_back({rows, columns, inner, rates.back()});
  }
  p.f32 = *std::max_element(rates.begin(), rates.end());
  p.matmul_efficiency = median(rates) / p.f32;

  for (int64_t bytes = 3 << 18; bytes <= 192 << 20; bytes *= 4) {
    const Specs in(2, TensorSpec{Shape{bytes / 12}});
    const double took = time_kernel(add_op, in, {}, device, seconds) - p.launch;
    m.streams.push_back({bytes, double(bytes) / std::max(took, 1e-9)});
  }
  fit_streams(m);

  const Specs x{TensorSpec{Shape{1 << 17}}};  // in cache: arithmetic is what takes the time
  const Specs y = infer_specs(tanh_op, x, {});
  p.vector = cost_of(tanh_op, x, y, {}).flops / time_kernel(tanh_op, x, {}, device, seconds);
  return m;
}

}  // namespace

CpuMeasurement measure_cpu(const Device& device, double seconds) {
  CpuMeasurement m = measure_threads(device, seconds);
  m.profile.piece = double(kElementGrain);
  if (device.threads == 1) return m;
  Device one = device;
  one.threads = 1;
  DeviceProfile& p = m.profile;
  const DeviceProfile thread = measure_threads(one, seconds).profile;
  p.thread_f32 = thread.f32, p.thread_vector = thread.vector, p.thread_memory = thread.memory;
  p.thread_cache = thread.cache > 0 ? thread.cache : thread.memory;
  if (p.cache == 0) p.thread_cache = 0;
  p.fork = std::max(0.0, time_chunks(device, seconds) - time_chunks(one, seconds));
  m.busy = p.f32 < thread.f32 || p.vector < thread.vector;
  return m;
}

std::vector<std::string> describe(const CpuMeasurement& m) {
  std::vector<std::string> lines{
      "Measured on this machine by pal bench --profile: " + m.profile.name + "."};
  for (const auto& p : m.products) {
    lines.push_back(printed("  matmul (%lld,%lld)x(%lld,%lld): %.0f Gflop/s",
                            static_cast<long long>(p.m), static_cast<long long>(p.k),
                            static_cast<long long>(p.k), static_cast<long long>(p.n),
                            p.flops_per_s * 1e-9));
  }
  for (const auto& s : m.streams) {
    lines.push_back(printed("  add, %.2f MiB touched: %.1f GB/s", double(s.bytes) / (1 << 20),
                            s.bytes_per_s * 1e-9));
  }
  if (m.busy) lines.push_back(kBusy);
  return lines;
}

}  // namespace pal
