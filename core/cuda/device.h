// The GPU: memory, streams, events, graphs, and the handles of its libraries.
#pragma once
#include <array>
#include <map>

#include "core/cuda/launch.h"
#include "core/cuda/libraries.h"
#include "core/ranks/lost_ranks.h"

namespace pal {

// A GPU of those that the process sees (CUDA_VISIBLE_DEVICES chooses). Not thread-safe.
class CudaDevice final : public Accelerator {
 public:
  // By its number, counted again from the first beyond the last. UsageError, one line: no driver,
  // no GPU, too old a card or driver.
  explicit CudaDevice(int number);
  ~CudaDevice() override;
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  void use_here() override;
  std::string description() const override;
  std::string identity() const override;
  bool has_bf16() const override;
  int64_t free_bytes() const override;
  int64_t room() const override;
  int major() const { return properties_.major; }  // of its compute capability
  int multiprocessors() const { return properties_.multiProcessorCount; }
  int64_t total_bytes() const { return int64_t(properties_.totalGlobalMem); }
  std::byte* allocate(Space space, int64_t bytes, bool again) override;
  void release(Space space, std::byte* memory) noexcept override;
  void* stream(QueueId queue) override;
  void prefer(QueueId queue, bool first) override;
  Event make_event() override;
  Event make_timed_event() override;
  int64_t ns_between(const Event& from, const Event& to) override;
  void record(const Event& event, QueueId queue) override;
  void record_time(const Event& event, QueueId queue) override;
  void wait(QueueId queue, const Event& event) override;
  void wait(const Event& event) override;
  void synchronize() override;
  void copy(QueueId queue, void* to, const void* from, int64_t bytes) override;
  void fill(QueueId queue, void* to, unsigned char value, int64_t bytes) override;
  void begin_recording() override;
  Graph end_recording() override;
  void abandon_recording() noexcept override;
  void replay(const Graph& graph) override;

  // Made when a product is first prepared.
  cublasLtHandle_t blas();
  // cuDNN's handle for each queue, made when it is first wanted, by core/cuda/cudnn.h.
  std::map<QueueId, std::shared_ptr<void>>& cudnn() { return cudnn_; }
  // By the types of operands and result, what ops/libraries/cuda_mask.h has found.
  std::map<std::pair<DType, DType>, bool>& masks() { return masks_; }
  // From here on, whoever has waited for the device is told where the ranks were lost meanwhile:
  // what they exchange then ends undone. Null: nobody can be lost.
  void heed(std::shared_ptr<const LostRanks> lost) { lost_ = std::move(lost); }

 private:
  void check_wait(cudaError_t status) const;
  struct Streams {  // of a queue: what goes first has one of its own
    std::array<cudaStream_t, 2> stream{};
    bool first = false;  // the one that is used now
    Event change;
  };
  static cudaStream_t made(Streams& of, bool first);
  cudaStream_t queue(QueueId id) { return static_cast<cudaStream_t>(stream(id)); }

  int number_;
  cudaDeviceProp properties_{};
  std::map<QueueId, Streams> streams_;
  bool recording_ = false;
  bool recorded_first_ = false;  // how the compute queue stood when recording began
  cublasLtHandle_t blas_ = nullptr;
  std::map<QueueId, std::shared_ptr<void>> cudnn_;
  std::map<std::pair<DType, DType>, bool> masks_;
  std::shared_ptr<const LostRanks> lost_;
};

// The GPU of a Device that has one.
inline CudaDevice& cuda_of(const Device& device) {
  return static_cast<CudaDevice&>(*device.accelerator);
}

}  // namespace pal
