// cuBLASLt's products, read off their descriptors as its manual says: column-major matrices with a
// leading dimension, D = alpha op(A) op(B) + beta C + bias, the bias one number a row of D, through
// relu (which makes 0 of a NaN, as the library's does), or 0 where the auxiliary matrix has no bit:
// of element (i, j) bit i + j ld, the lowest of a byte first (or the highest, when told so). It
// refuses what the manual forbids, and checks that algorithms fit the addresses they are given.
#include <cublasLt.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <vector>

#include "core/cuda/libraries.h"
#include "tests/emulation/counting.h"
#include "tests/emulation/emulation.h"
#include "tests/emulation/library_elements.h"
#include "tests/emulation/memory.h"
#include "tests/emulation/runtime.h"

struct EmulatedBlas {};
struct EmulatedProduct {
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  int32_t transpose_a = 0, transpose_b = 0, epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  const uint8_t* aux = nullptr;
  int64_t aux_leading = 0;

  bool has_bias() const { return epilogue & CUBLASLT_EPILOGUE_BIAS; }
  bool masks() const { return epilogue == CUBLASLT_EPILOGUE_DRELU; }
};
struct EmulatedLayout {
  cudaDataType type;
  int64_t rows, columns, leading;
  int32_t batch = 1;
  int64_t stride = 0;
};
struct EmulatedPreference {
  uint64_t workspace = 0;
  uint32_t boundary[4] = {256, 256, 256, 256};
};

namespace {

constexpr uint64_t kMagic = 0x1A17;  // an algorithm that was chosen here
constexpr size_t kTouched = 128;     // of a workspace: the end of it is left as it was
size_t wanted_workspace() { return size_t(pal::emulation::settings().blas_workspace); }

pal::DType element_type(cudaDataType type) {
  return type == CUDA_R_16BF  ? pal::DType::bf16
         : type == CUDA_R_16F ? pal::DType::f16
                              : pal::DType::f32;
}
float load_element(const void* p, cudaDataType type, int64_t i) {
  return pal::emulation::load_element(p, element_type(type), i);
}
void store_element(void* p, cudaDataType type, int64_t i, float x) {
  pal::emulation::store_element(p, element_type(type), i, x);
}
// An operand's element as it is multiplied.
double factor(const EmulatedProduct& product, float x) {
  return product.compute == CUBLAS_COMPUTE_32F_FAST_TF32 ? pal::emulation::tf32_factor(x)
                                                         : double(x);
}
template <class T> cublasStatus_t take(T& to, const void* from, size_t bytes) {
  if (bytes != sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(static_cast<void*>(&to), from, bytes);
  return CUBLAS_STATUS_SUCCESS;
}
bool fits(const EmulatedLayout& m) { return m.rows > 0 && m.columns > 0 && m.leading >= m.rows; }

// Whether there is an algorithm for the epilogue of a product over `inner`: one that masks needs
// whole groups of 128 bits a column, and more than one term a sum.
bool supports(const EmulatedProduct& p, const EmulatedLayout& d, int64_t inner) {
  if (p.epilogue == CUBLASLT_EPILOGUE_DEFAULT || p.epilogue == CUBLASLT_EPILOGUE_BIAS) return true;
  if (!pal::emulation::settings().epilogues) return false;
  if (!p.masks()) return (p.epilogue & ~CUBLASLT_EPILOGUE_BIAS) == CUBLASLT_EPILOGUE_RELU;
  return p.aux && p.aux_leading % 128 == 0 && p.aux_leading >= d.rows && d.batch == 1 && inner > 1;
}
// The largest boundary, of those that matter, that an address lies on.
uint64_t boundary_of(const void* p) {
  const auto address = reinterpret_cast<uintptr_t>(p);
  return address ? std::min<uint64_t>(address & -address, 16) : 16;
}
float through_epilogue(const EmulatedProduct& p, cudaDataType type, float value, int64_t i,
                       int64_t j) {
  if (p.has_bias()) value += load_element(p.bias, type, i);  // of the result's type
  if (p.epilogue & CUBLASLT_EPILOGUE_RELU) return value > 0 ? value : 0;
  if (!p.masks()) return value;
  const int64_t bit = i + j * p.aux_leading;
  return pal::load_bit(p.aux, pal::emulation::settings().masks_as_told ? bit : bit ^ 7) ? value : 0;
}

double bytes_of(const EmulatedLayout& m) {
  return double(m.rows) * double(m.columns) * double(m.batch) * (m.type == CUDA_R_32F ? 4 : 2);
}
void count(const EmulatedProduct& p, const EmulatedLayout& a, const EmulatedLayout& b,
           const EmulatedLayout& c, const EmulatedLayout& d, bool adds) {
  double read = bytes_of(a) + bytes_of(b) + (adds ? bytes_of(c) : 0);
  if (p.has_bias()) read += bytes_of(d) / double(d.columns) / double(d.batch);
  if (p.masks()) read += double(p.aux_leading) / 8 * double(d.columns);
  const auto inner = double(p.transpose_a ? a.rows : a.columns);
  pal::emulation::count_library("cuBLASLt", read, bytes_of(d),
                                2 * inner * double(d.rows) * double(d.columns) * double(d.batch));
}

// Extents of op(matrix).
int64_t rows_of(const EmulatedLayout& m, int transpose) { return transpose ? m.columns : m.rows; }
int64_t columns_of(const EmulatedLayout& m, int transpose) {
  return transpose ? m.rows : m.columns;
}

}  // namespace

cublasStatus_t cublasLtCreate(cublasLtHandle_t* h) {
  *h = new EmulatedBlas;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t h) {
  delete h;
  return CUBLAS_STATUS_SUCCESS;
}
size_t cublasLtGetVersion() { return 130000; }
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* d, cublasComputeType_t compute,
                                        cudaDataType_t) {
  *d = new EmulatedProduct{.compute = compute};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d) {
  delete d;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d,
                                              cublasLtMatmulDescAttributes_t which,
                                              const void* value, size_t bytes) {
  switch (which) {
    case CUBLASLT_MATMUL_DESC_TRANSA: return take(d->transpose_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB: return take(d->transpose_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return take(d->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return take(d->bias, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER: return take(d->aux, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD: return take(d->aux_leading, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* l, cudaDataType type,
                                          uint64_t rows, uint64_t columns, int64_t leading) {
  *l = new EmulatedLayout{type, int64_t(rows), int64_t(columns), leading};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l) {
  delete l;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t l,
                                                cublasLtMatrixLayoutAttribute_t which,
                                                const void* value, size_t bytes) {
  return which == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT ? take(l->batch, value, bytes)
                                                     : take(l->stride, value, bytes);
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* p) {
  *p = new EmulatedPreference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p) {
  delete p;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t p,
                                                    cublasLtMatmulPreferenceAttributes_t which,
                                                    const void* value, size_t bytes) {
  if (which == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) return take(p->workspace, value, bytes);
  const int i = int(which) - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
  uint32_t ignored = 0;
  return take(i >= 0 ? p->boundary[i] : ignored, value, bytes);
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t p, int wanted,
                                              cublasLtMatmulHeuristicResult_t* found, int* count) {
  *count = 0;
  const bool extents = columns_of(*a, desc->transpose_a) == rows_of(*b, desc->transpose_b) &&
                       rows_of(*a, desc->transpose_a) == d->rows &&
                       columns_of(*b, desc->transpose_b) == d->columns && c->rows == d->rows &&
                       c->columns == d->columns && fits(*a) && fits(*b) && fits(*c) && fits(*d);
  const bool batches = a->batch == d->batch && b->batch == d->batch && c->batch == d->batch;
  const bool types =
      a->type == b->type && c->type == d->type && (d->type == a->type || d->type == CUDA_R_32F);
  if (!extents || !batches || !types || wanted < 1 || p->workspace < wanted_workspace() ||
      !supports(*desc, *d, columns_of(*a, desc->transpose_a))) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  for (const uint32_t boundary : p->boundary) {
    if (boundary < pal::emulation::settings().blas_boundary) return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  // Sums are divided into so many, by what the operands' boundaries and the epilogue allow.
  uint64_t parts = desc->epilogue & ~CUBLASLT_EPILOGUE_BIAS & ~CUBLASLT_EPILOGUE_DEFAULT ? 3 : 2;
  for (const uint32_t boundary : p->boundary) parts += uint64_t(std::countr_zero(boundary));
  *count = std::min(wanted, int(pal::emulation::settings().blas_ms.size()));
  for (int i = 0; i < *count; ++i) {
    found[i] = {.algo = {{kMagic, p->boundary[0], p->boundary[1], p->boundary[2], p->boundary[3],
                          boundary_of(desc->bias), parts + uint64_t(i), uint64_t(i)}},
                .workspaceSize = wanted_workspace()};
  }
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t desc,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t,
                                       cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* algo,
                                       cublasLtMatmulHeuristicResult_t* found) {
  if (algo->data[0] != kMagic || !supports(*desc, *d, columns_of(*a, desc->transpose_a))) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  *found = {.algo = *algo, .workspaceSize = wanted_workspace()};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t la, const void* b,
                              cublasLtMatrixLayout_t lb, const void* beta, const void* c,
                              cublasLtMatrixLayout_t lc, void* d, cublasLtMatrixLayout_t ld,
                              const cublasLtMatmulAlgo_t* algo, void* workspace, size_t bytes,
                              cudaStream_t stream) {
  const void* const operands[] = {a, b, c, d};
  for (int i = 0; i < 4; ++i) {
    if (algo->data[0] != kMagic || reinterpret_cast<uintptr_t>(operands[i]) % algo->data[i + 1]) {
      return CUBLAS_STATUS_NOT_SUPPORTED;
    }
  }
  const std::vector<int64_t>& times = pal::emulation::settings().blas_ms;
  if (!pal::emulation::settings().libraries_recorded && pal::emulation::is_spoiled()) {
    return CUBLAS_STATUS_EXECUTION_FAILED;
  }
  const int64_t ms = algo->data[7] < times.size() ? times[algo->data[7]] : 0;
  if (ms < 0) return CUBLAS_STATUS_NOT_SUPPORTED;
  const void* const given[] = {a,
                               b,
                               c,
                               d,
                               desc->has_bias() ? desc->bias : nullptr,
                               desc->masks() ? desc->aux : nullptr,
                               workspace};
  for (const void* p : given) pal::emulation::require_reachable(p, "what cuBLASLt is given");
  const size_t wanted = wanted_workspace();
  if ((wanted && !workspace) || bytes < wanted) return CUBLAS_STATUS_INVALID_VALUE;
  // Of no boundary that the manual names: 13.4 refuses others.
  if (reinterpret_cast<uintptr_t>(workspace) % 256) return CUBLAS_STATUS_INVALID_VALUE;
  if (desc->has_bias() && (!desc->bias || boundary_of(desc->bias) < algo->data[5])) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (desc->masks() && (!desc->aux || boundary_of(desc->aux) < 16)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  // As the library does, what the descriptors say is read now and the operands later.
  const float by = *static_cast<const float*>(alpha), plus = *static_cast<const float*>(beta);
  const EmulatedProduct product = *desc;
  const EmulatedLayout A = *la, B = *lb, C = *lc, D = *ld;
  const int64_t parts = pal::emulation::varied_sums ? int64_t(algo->data[6]) : 1;
  return pal::emulation::enqueue(
             stream,
             [=] {
               if (pal::emulation::counting()) return count(product, A, B, C, D, plus != 0);
               pal::emulation::advance(ms);
               if (wanted) std::memset(workspace, 0xFF, std::min(wanted, kTouched));  // its own
               const int64_t inner = columns_of(A, product.transpose_a);
               for (int64_t batch = 0; batch < D.batch; ++batch) {
                 for (int64_t j = 0; j < D.columns; ++j) {
                   for (int64_t i = 0; i < D.rows; ++i) {
                     double total = 0;
                     for (int64_t part = 0; part < parts; ++part) {
                       double sum = 0;
                       for (int64_t k = part; k < inner; k += parts) {
                         const int64_t at_a =
                             product.transpose_a ? k + i * A.leading : i + k * A.leading;
                         const int64_t at_b =
                             product.transpose_b ? j + k * B.leading : k + j * B.leading;
                         sum += factor(product, load_element(a, A.type, batch * A.stride + at_a)) *
                                factor(product, load_element(b, B.type, batch * B.stride + at_b));
                       }
                       total += double(float(sum));
                     }
                     float value = by * float(total);
                     if (plus != 0) {
                       value +=
                           plus * load_element(c, C.type, batch * C.stride + i + j * C.leading);
                     }
                     store_element(d, D.type, batch * D.stride + i + j * D.leading,
                                   through_epilogue(product, D.type, value, i, j));
                   }
                 }
               }
             }) == cudaSuccess
             ? CUBLAS_STATUS_SUCCESS
             : CUBLAS_STATUS_INVALID_VALUE;
}

const pal::CublasLt& pal::cublas_lt() {
  static const CublasLt table{.create = cublasLtCreate,
                              .destroy = cublasLtDestroy,
                              .version = cublasLtGetVersion,
                              .desc_create = cublasLtMatmulDescCreate,
                              .desc_destroy = cublasLtMatmulDescDestroy,
                              .desc_set = cublasLtMatmulDescSetAttribute,
                              .layout_create = cublasLtMatrixLayoutCreate,
                              .layout_destroy = cublasLtMatrixLayoutDestroy,
                              .layout_set = cublasLtMatrixLayoutSetAttribute,
                              .preference_create = cublasLtMatmulPreferenceCreate,
                              .preference_destroy = cublasLtMatmulPreferenceDestroy,
                              .preference_set = cublasLtMatmulPreferenceSetAttribute,
                              .heuristic = cublasLtMatmulAlgoGetHeuristic,
                              .check = cublasLtMatmulAlgoCheck,
                              .matmul = cublasLtMatmul};
  return table;
}
