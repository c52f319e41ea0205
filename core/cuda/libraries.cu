// Opening the libraries, by name and then by place.
#include <dlfcn.h>

#include "core/accelerator.h"
#include "core/cuda/libraries.h"
#include "core/cuda/library_folders.h"

namespace pal {
namespace {

template <class F> void find(void* library, const char* name, F*& function) {
  function = reinterpret_cast<F*>(function_of(library, "cuBLASLt", name));
}

CublasLt load_cublas_lt() {
  static constexpr const char* names[] = {"libcublasLt.so.13", "libcublasLt.so.12", nullptr};
  std::string tried;
  void* library = open_library(names, "cublas", &tried);
  if (!library) {
    throw DeviceError("cuBLASLt was not found (" + tried +
                      "): install the CUDA toolkit or PyTorch's nvidia-cublas wheel, or name its "
                      "folder in PAL_CUDA_LIBRARY_PATH");
  }
  CublasLt t{};
  find(library, "cublasLtCreate", t.create);
  find(library, "cublasLtDestroy", t.destroy);
  find(library, "cublasLtGetVersion", t.version);
  find(library, "cublasLtMatmulDescCreate", t.desc_create);
  find(library, "cublasLtMatmulDescDestroy", t.desc_destroy);
  find(library, "cublasLtMatmulDescSetAttribute", t.desc_set);
  find(library, "cublasLtMatrixLayoutCreate", t.layout_create);
  find(library, "cublasLtMatrixLayoutDestroy", t.layout_destroy);
  find(library, "cublasLtMatrixLayoutSetAttribute", t.layout_set);
  find(library, "cublasLtMatmulPreferenceCreate", t.preference_create);
  find(library, "cublasLtMatmulPreferenceDestroy", t.preference_destroy);
  find(library, "cublasLtMatmulPreferenceSetAttribute", t.preference_set);
  find(library, "cublasLtMatmulAlgoGetHeuristic", t.heuristic);
  find(library, "cublasLtMatmulAlgoCheck", t.check);
  find(library, "cublasLtMatmul", t.matmul);
  return t;
}

}  // namespace

void* function_of(void* library, const char* library_name, const char* name) {
  void* function = dlsym(library, name);
  if (!function) throw DeviceError(std::string(library_name) + " is too old: it has no " + name);
  return function;
}

const CublasLt& cublas_lt() {
  static const CublasLt table = load_cublas_lt();  // stays open to the program's end
  return table;
}

}  // namespace pal
