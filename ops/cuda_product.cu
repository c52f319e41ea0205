// cuBLASLt's descriptors and algorithms; what it is told of the operands is ops/lt_product.h's.
#include "ops/cuda_product.h"
#include "ops/lt_product.h"

namespace pal {

template <class H>
using LtHandle = LibraryObject<H, cublasStatus_t>;

namespace {

constexpr uint64_t kMostWorkspace = 8 << 20;  // of it the algorithm's own need is reserved
constexpr int64_t kBoundary = 16;             // bytes

cudaDataType data_type(DType type) {
  return type == DType::bf16 ? CUDA_R_16BF : type == DType::f16 ? CUDA_R_16F : CUDA_R_32F;
}

void make_layout(LtHandle<cublasLtMatrixLayout_t>& layout, const LtMatrix& m, DType type,
                 int64_t batch) {
  const CublasLt& lt = cublas_lt();
  layout.destroy = lt.layout_destroy;
  check_blas(lt.layout_create(&layout.get, data_type(type), uint64_t(m.rows), uint64_t(m.columns),
                              m.leading));
  const int32_t count = int32_t(batch);
  check_blas(lt.layout_set(layout.get, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count));
  check_blas(lt.layout_set(layout.get, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &m.batch,
                           sizeof m.batch));
}

template <class T>
void set(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t which, T value,
         const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  check_blas(cublas_lt().desc_set(desc, which, &value, sizeof value), file, line);
}
template <class T>
void set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t which, T value,
         const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  check_blas(cublas_lt().preference_set(preference, which, &value, sizeof value), file, line);
}

}  // namespace

struct CudaProduct::Parts {
  LtHandle<cublasLtMatmulDesc_t> product;
  LtHandle<cublasLtMatrixLayout_t> left, right, result;
  cublasLtMatmulAlgo_t aligned{}, any{};
  int64_t workspace = 0;
  cublasLtHandle_t blas = nullptr;
  bool bias = false;

  // The best algorithm by the library's own judgement for operands on such boundaries.
  cublasLtMatmulAlgo_t choose(uint32_t boundary, const char* op) {
    const CublasLt& lt = cublas_lt();
    LtHandle<cublasLtMatmulPreference_t> preference;
    preference.destroy = lt.preference_destroy;
    check_blas(lt.preference_create(&preference.get));
    set(preference.get, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMostWorkspace);
    set(preference.get, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        uint32_t(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    for (auto which :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      set(preference.get, which, boundary);
    }
    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    const cublasStatus_t status = lt.heuristic(blas, product.get, left.get, right.get, result.get,
                                               result.get, preference.get, 1, &found, &count);
    if (status != CUBLAS_STATUS_SUCCESS || count == 0) {
      throw DeviceError("[" + std::string(op) +
                        "] cuBLASLt has no algorithm for this product (status " +
                        std::to_string(int(status)) + ")");
    }
    if (int64_t(found.workspaceSize) > workspace) workspace = int64_t(found.workspaceSize);
    return found.algo;
  }
};

CudaProduct::CudaProduct(const Device& device, const char* op, const ProductShape& shape)
    : parts_(std::make_unique<Parts>()) {
  const CublasLt& lt = cublas_lt();
  const LtProduct p = lt_product(shape);
  Parts& s = *parts_;
  s.blas = cuda_of(device).blas();
  s.bias = shape.bias;
  s.product.destroy = lt.desc_destroy;
  const cublasComputeType_t compute = device.tf32 && shape.in == DType::f32
                                          ? CUBLAS_COMPUTE_32F_FAST_TF32
                                          : CUBLAS_COMPUTE_32F;
  check_blas(lt.desc_create(&s.product.get, compute, CUDA_R_32F));
  set(s.product.get, CUBLASLT_MATMUL_DESC_TRANSA, p.left.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(s.product.get, CUBLASLT_MATMUL_DESC_TRANSB, p.right.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (s.bias) set(s.product.get, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
  make_layout(s.left, p.left, shape.in, p.batch);
  make_layout(s.right, p.right, shape.in, p.batch);
  make_layout(s.result, p.result, shape.out, p.batch);
  s.aligned = s.choose(kBoundary, op);
  s.any = s.choose(shape.in == DType::f32 && shape.out == DType::f32 ? 4 : 2, op);
}
CudaProduct::~CudaProduct() = default;

int64_t CudaProduct::workspace() const { return align_up(parts_->workspace); }

void CudaProduct::run(cudaStream_t stream, const void* a, const void* b, const void* sum, void* c,
                      const void* bias, std::byte* workspace) const {
  const Parts& s = *parts_;
  if (s.bias) set(s.product.get, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  const float one = 1, beta = sum ? 1 : 0;
  if (!sum) sum = c;
  const bool aligned = (reinterpret_cast<uintptr_t>(a) | reinterpret_cast<uintptr_t>(b) |
                        reinterpret_cast<uintptr_t>(sum) | reinterpret_cast<uintptr_t>(c)) %
                           kBoundary ==
                       0;
  // Transposed, as the library sees it: the second operand comes first.
  check_blas(cublas_lt().matmul(s.blas, s.product.get, &one, b, s.left.get, a, s.right.get, &beta,
                                sum, s.result.get, c, s.result.get, aligned ? &s.aligned : &s.any,
                                workspace, size_t(s.workspace), stream));
}

}  // namespace pal
