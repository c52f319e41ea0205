// cuBLASLt, found when first wanted (cuDNN: core/cuda/cudnn.h): beside the program, in the
// machine's toolkit, or in PyTorch's wheels. Nothing is linked, so a CUDA build starts where it is
// missing. Its header says what the functions take; the table holds those that are used.
#pragma once
#include <cublasLt.h>

#include <string>

#include "core/accelerator.h"

namespace pal {

struct CublasLt {
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtDestroy) destroy;
  decltype(&cublasLtGetVersion) version;
  decltype(&cublasLtMatmulDescCreate) desc_create;
  decltype(&cublasLtMatmulDescDestroy) desc_destroy;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set;
  decltype(&cublasLtMatrixLayoutCreate) layout_create;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy;
  decltype(&cublasLtMatrixLayoutSetAttribute) layout_set;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic;
  decltype(&cublasLtMatmulAlgoCheck) check;
  decltype(&cublasLtMatmul) matmul;
};

// The library's functions. DeviceError that names where it was looked for, and what would help.
const CublasLt& cublas_lt();

// DeviceError "matmul.cu:12: cuBLASLt: status 15" unless the call succeeded.
inline void check_blas(cublasStatus_t status, const char* file = __builtin_FILE(),
                       int line = __builtin_LINE()) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  const std::string path = file;
  throw DeviceError(path.substr(path.find_last_of('/') + 1) + ":" + std::to_string(line) +
                    ": cuBLASLt: status " + std::to_string(int(status)));
}

// Its function of that name. DeviceError "cuBLASLt is too old: it has no cublasLtCreate".
void* function_of(void* library, const char* library_name, const char* name);

// What a library made, and its function that destroys it.
template <class H, class Status> struct LibraryObject {
  H get = nullptr;
  Status (*destroy)(H) = nullptr;
  LibraryObject() = default;
  LibraryObject(const LibraryObject&) = delete;
  LibraryObject& operator=(const LibraryObject&) = delete;
  ~LibraryObject() {
    if (get) destroy(get);
  }
};

}  // namespace pal
