// The GPU as the rest of the framework sees it.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "core/cuda/device.h"
#include "core/outside_plans.h"

namespace pal {
namespace {

constexpr int kOldestMajor = 7, kOldestMinor = 5;  // Turing

std::string version_text(int v) {
  return std::to_string(v / 1000) + "." + std::to_string(v % 100 / 10);
}

// One line that a user can act on.
[[noreturn]] void refuse(const std::string& why) { throw UsageError("device cuda: " + why); }

int count_gpus() {
  int driver = 0, runtime = 0, count = 0;
  check_cuda(cudaRuntimeGetVersion(&runtime));
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
    refuse("no NVIDIA driver is loaded; install one, or set device.type to cpu");
  }
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaErrorInsufficientDriver) {
    refuse("the driver is for CUDA " + version_text(driver) + ", this build needs " +
           version_text(runtime) + "; update the driver, or set device.type to cpu");
  }
  if (status == cudaErrorNoDevice || count == 0) {
    refuse("there is no GPU (or CUDA_VISIBLE_DEVICES hides it); set device.type to cpu");
  }
  if (status != cudaSuccess) {
    refuse(std::string(cudaGetErrorString(status)) + "; set device.type to cpu");
  }
  return count;
}

}  // namespace

std::shared_ptr<Accelerator> open_accelerator(int number) {
  return std::make_shared<CudaDevice>(number);
}

CudaDevice::CudaDevice(int number) : number_(number % count_gpus()) {
  use_here();
  check_cuda(cudaGetDeviceProperties(&properties_, number_));
  const int major = properties_.major, minor = properties_.minor;
  if (major < kOldestMajor || (major == kOldestMajor && minor < kOldestMinor)) {
    refuse(std::string(properties_.name) + " has compute capability " + std::to_string(major) +
           "." + std::to_string(minor) + ", " + std::to_string(kOldestMajor) + "." +
           std::to_string(kOldestMinor) + " is the least; set device.type to cpu");
  }
}

void CudaDevice::use_here() { check_cuda(cudaSetDevice(number_)); }

CudaDevice::~CudaDevice() {
  // A failure here has no one left to tell.
  cudnn_.clear();
  if (blas_) cublas_lt().destroy(blas_);
  for (auto& [id, of] : streams_) {
    for (const cudaStream_t stream : of.stream) {
      if (stream) cudaStreamDestroy(stream);
    }
  }
}

std::string CudaDevice::description() const {
  char text[400];
  std::snprintf(text, sizeof text, "%s, %.0f GiB, compute capability %d.%d", properties_.name,
                double(properties_.totalGlobalMem) / double(1 << 30), properties_.major,
                properties_.minor);
  return text;
}

std::string CudaDevice::identity() const {
  std::string text = "GPU-";
  for (const char byte : properties_.uuid.bytes) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", unsigned(uint8_t(byte)));
    text += digits;
  }
  return text;
}

bool CudaDevice::has_bf16() const { return properties_.major >= 8; }

int64_t CudaDevice::free_bytes() const {
  size_t free = 0, total = 0;
  check_cuda(cudaMemGetInfo(&free, &total));
  return int64_t(free);
}
int64_t CudaDevice::room() const {
  return std::max<int64_t>(0, free_bytes() - left_bytes(total_bytes()));
}

std::byte* CudaDevice::allocate(Space space, int64_t bytes, bool again) {
  void* memory = nullptr;
  if (space == Space::host) {
    if (cudaMallocHost(&memory, size_t(bytes)) != cudaSuccess) {
      cudaGetLastError();  // not to be met again
      throw BudgetError(
          "the machine would not pin " + std::to_string(bytes) +
          " bytes of host memory (ulimit -l?); lower the batch or memory.host_budget");
    }
    std::memset(memory, 0, size_t(bytes));
    return static_cast<std::byte*>(memory);
  }
  const int64_t free = free_bytes();
  const int64_t apart = again ? 0 : left_bytes(total_bytes());
  if (bytes > free - apart || cudaMalloc(&memory, size_t(bytes)) != cudaSuccess) {
    cudaGetLastError();
    throw BudgetError(std::string(properties_.name) + " has " + std::to_string(free) +
                      " bytes free, the arena needs " + std::to_string(bytes) + " and leaves " +
                      std::to_string(apart) +
                      " for kernels, libraries and recorded steps; lower the batch, or set "
                      "memory.budget and memory.recompute");
  }
  check_cuda(cudaMemset(memory, 0, size_t(bytes)));
  check_cuda(cudaStreamSynchronize(nullptr));  // our streams do not wait for it
  return static_cast<std::byte*>(memory);
}

void CudaDevice::release(Space space, std::byte* memory) noexcept {
  if (space == Space::host)
    cudaFreeHost(memory);
  else
    cudaFree(memory);
}

cudaStream_t CudaDevice::made(Streams& of, bool first) {
  cudaStream_t& stream = of.stream[first];
  if (!stream) {
    int least = 0, greatest = 0;
    check_cuda(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    // Not ordered with the default stream: nothing runs there.
    check_cuda(
        cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, first ? greatest : least));
  }
  return stream;
}

void* CudaDevice::stream(QueueId id) {
  Streams& of = streams_[id];
  return made(of, of.first);
}

void CudaDevice::prefer(QueueId id, bool first) {
  Streams& of = streams_[id];
  if (first == of.first) return;
  const cudaStream_t from = made(of, of.first), to = made(of, first);
  if (!of.change) of.change = make_event();
  auto* const change = static_cast<cudaEvent_t>(of.change.get());
  check_cuda(cudaEventRecord(change, from));
  check_cuda(cudaStreamWaitEvent(to, change, 0));
  of.first = first;  // from here on all is queued behind what was
}

namespace {

Accelerator::Event event_of(unsigned flags) {
  cudaEvent_t event = nullptr;
  check_cuda(cudaEventCreateWithFlags(&event, flags));
  return {event, [](void* e) { cudaEventDestroy(static_cast<cudaEvent_t>(e)); }};
}

}  // namespace

Accelerator::Event CudaDevice::make_event() { return event_of(cudaEventDisableTiming); }
Accelerator::Event CudaDevice::make_timed_event() { return event_of(cudaEventDefault); }
int64_t CudaDevice::ns_between(const Event& from, const Event& to) {
  float ms = 0;
  check_cuda(cudaEventElapsedTime(&ms, static_cast<cudaEvent_t>(from.get()),
                                  static_cast<cudaEvent_t>(to.get())));
  return int64_t(double(ms) * 1e6);
}
void CudaDevice::record(const Event& event, QueueId id) {
  check_cuda(cudaEventRecord(static_cast<cudaEvent_t>(event.get()), queue(id)));
}
void CudaDevice::record_time(const Event& event, QueueId id) {
  check_cuda(
      cudaEventRecordWithFlags(static_cast<cudaEvent_t>(event.get()), queue(id),
                               recording_ ? cudaEventRecordExternal : cudaEventRecordDefault));
}
void CudaDevice::wait(QueueId id, const Event& event) {
  check_cuda(cudaStreamWaitEvent(queue(id), static_cast<cudaEvent_t>(event.get()), 0));
}
void CudaDevice::wait(const Event& event) {
  check_wait(cudaEventSynchronize(static_cast<cudaEvent_t>(event.get())));
}
// What was lost says more than what the device made of it.
void CudaDevice::check_wait(cudaError_t status) const {
  if (lost_ && lost_->is_set()) throw DeviceError(lost_->why());
  check_cuda(status);
}
// Other jobs' streams go on.
void CudaDevice::synchronize() {
  for (auto& [id, of] : streams_) {
    for (const cudaStream_t stream : of.stream) {
      if (stream) check_wait(cudaStreamSynchronize(stream));
    }
  }
}

void CudaDevice::copy(QueueId id, void* to, const void* from, int64_t bytes) {
  if (bytes == 0 || to == from) return;
  check_cuda(cudaMemcpyAsync(to, from, size_t(bytes), cudaMemcpyDefault, queue(id)));
}
void CudaDevice::fill(QueueId id, void* to, unsigned char value, int64_t bytes) {
  if (bytes) check_cuda(cudaMemsetAsync(to, value, size_t(bytes), queue(id)));
}

void CudaDevice::begin_recording() {
  Streams& compute = streams_[kComputeQueue];
  made(compute, false), made(compute, true);  // nothing is made while it records
  if (!compute.change) compute.change = make_event();
  recorded_first_ = compute.first;
  check_cuda(cudaStreamBeginCapture(queue(kComputeQueue), cudaStreamCaptureModeThreadLocal));
  recording_ = true;
}
Accelerator::Graph CudaDevice::end_recording() {
  try {
    prefer(kComputeQueue, recorded_first_);  // it ends where it began
  } catch (...) {
    abandon_recording();
    throw;
  }
  recording_ = false;
  cudaGraph_t graph = nullptr;
  check_cuda(cudaStreamEndCapture(queue(kComputeQueue), &graph));
  cudaGraphExec_t ready = nullptr;
  const cudaError_t status =
      cudaGraphInstantiate(&ready, graph, cudaGraphInstantiateFlagUseNodePriority);
  cudaGraphDestroy(graph);
  if (status != cudaSuccess) return cudaGetLastError(), nullptr;
  return {ready, [](void* g) { cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(g)); }};
}
void CudaDevice::abandon_recording() noexcept {
  recording_ = false;
  streams_[kComputeQueue].first = recorded_first_;
  cudaGraph_t graph = nullptr;
  if (cudaStreamEndCapture(queue(kComputeQueue), &graph) == cudaSuccess && graph) {
    cudaGraphDestroy(graph);
  }
  cudaGetLastError();
}
void CudaDevice::replay(const Graph& graph) {
  check_cuda(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph.get()), queue(kComputeQueue)));
}

cublasLtHandle_t CudaDevice::blas() {
  if (!blas_) check_blas(cublas_lt().create(&blas_));
  return blas_;
}

}  // namespace pal
