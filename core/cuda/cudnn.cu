// What cuDNN answered, as errors; the device's handle.
#include "core/accelerator.h"
#include "core/cuda/cudnn.h"
#include "core/cuda/device.h"

namespace pal {

std::string text_of(cudnnStatus_t status) {
  return std::string(cudnn_library()->error_string(status)) + " (" + std::to_string(int(status)) +
         ")";
}

std::string cudnn_version() {
  const Cudnn* library = cudnn_library();
  if (!library) return "";
  return cudnn_version_text(library->version());
}

std::string cudnn_version_text(size_t code) {
  return std::to_string(code / 10000) + "." + std::to_string(code / 100 % 100) + "." +
         std::to_string(code % 100);
}

void check_cudnn(cudnnStatus_t status, const char* file, int line) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  const std::string path = file;
  throw DeviceError(path.substr(path.find_last_of('/') + 1) + ":" + std::to_string(line) +
                    ": cuDNN: " + text_of(status));
}

void check_taken(cudnnStatus_t status, const char* work, const char* file, int line) {
  if (is_refusal(status)) {
    throw DeviceError("cuDNN " + cudnn_version() + " said that it takes this " + work +
                      ", and does not; device.cudnn: false does without");
  }
  check_cudnn(status, file, line);
}

cudnnHandle_t cudnn_of(const Device& device) { return cudnn_of(cuda_of(device), kComputeQueue); }
cudnnHandle_t cudnn_of(CudaDevice& device, QueueId queue) {
  const Cudnn* library = cudnn_library();
  if (!library) return nullptr;
  std::shared_ptr<void>& handle = device.cudnn()[queue];
  if (!handle) {
    cudnnHandle_t made = nullptr;
    const cudnnStatus_t status = library->create(&made);
    if (is_refusal(status)) return nullptr;
    if (status != CUDNN_STATUS_SUCCESS) {
      throw DeviceError("cuDNN " + cudnn_version() + " was found and does not start: " +
                        text_of(status) + "; device.cudnn: false does without");
    }
    handle = {made, [library](void* h) { library->destroy(static_cast<cudnnHandle_t>(h)); }};
  }
  return static_cast<cudnnHandle_t>(handle.get());
}

}  // namespace pal
