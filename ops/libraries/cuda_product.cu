// cuBLASLt's descriptors and algorithms; what it is told of the operands is
// ops/libraries/lt_product.h's.
#include <algorithm>

#include "ops/libraries/cuda_product.h"

namespace pal {

template <class H> using LtHandle = LibraryObject<H, cublasStatus_t>;

namespace {

// What an algorithm may ask for; its own need is reserved. NVIDIA's advice for Hopper, whose
// algorithms divide sums among blocks more often, and for earlier cards.
uint64_t most_workspace(const CudaDevice& device) {
  return uint64_t(device.major() >= 9 ? 32 : 8) << 20;
}

cudaDataType cuda_type(DType type) {
  return type == DType::bf16 ? CUDA_R_16BF : type == DType::f16 ? CUDA_R_16F : CUDA_R_32F;
}

void make_layout(LtHandle<cublasLtMatrixLayout_t>& layout, const LtMatrix& m, DType type,
                 int64_t batch) {
  const CublasLt& lt = cublas_lt();
  layout.destroy = lt.layout_destroy;
  check_blas(lt.layout_create(&layout.get, cuda_type(type), uint64_t(m.rows), uint64_t(m.columns),
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

int32_t code_of(Epilogue epilogue, bool bias) {
  switch (epilogue) {
    case Epilogue::relu: return bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    case Epilogue::relu_grad: return CUBLASLT_EPILOGUE_DRELU;  // of a product without bias
    default: return bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
  }
}

}  // namespace

struct CudaProduct::Parts {
  LtHandle<cublasLtMatmulDesc_t> product;
  LtHandle<cublasLtMatrixLayout_t> left, right, result;
  cublasLtMatmulAlgo_t algorithm{};
  ProductBoundaries boundaries;
  int64_t workspace = 0;
  cublasLtHandle_t blas = nullptr;
  bool bias = false;
  Epilogue epilogue = Epilogue::none;

  void make_epilogue(Epilogue wanted, int64_t row) {
    epilogue = wanted;
    set(product.get, CUBLASLT_MATMUL_DESC_EPILOGUE, code_of(wanted, bias));
    if (epilogue != Epilogue::relu_grad) return;
    set(product.get, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, lt_mask_leading(row));
    // Not read before a product runs, but asked for its boundary.
    set(product.get, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, address(kMaskBoundary));
  }

  void expect_bias() const {
    if (bias) set(product.get, CUBLASLT_MATMUL_DESC_BIAS_POINTER, address(boundaries.bias));
  }
  static const void* address(int64_t boundary) {
    return reinterpret_cast<const void*>(uintptr_t(boundary));
  }

  // The best algorithm for the product (with its bias) by the library's own judgement.
  void choose(uint64_t most, const char* op) {
    const CublasLt& lt = cublas_lt();
    LtHandle<cublasLtMatmulPreference_t> preference;
    preference.destroy = lt.preference_destroy;
    check_blas(lt.preference_create(&preference.get));
    set(preference.get, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, most);
    set(preference.get, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        uint32_t(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    // Transposed, as the library sees it: the second operand comes first.
    set(preference.get, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, uint32_t(boundaries.b));
    set(preference.get, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, uint32_t(boundaries.a));
    set(preference.get, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, uint32_t(boundaries.c));
    set(preference.get, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, uint32_t(boundaries.c));
    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    const cublasStatus_t status = lt.heuristic(blas, product.get, left.get, right.get, result.get,
                                               result.get, preference.get, 1, &found, &count);
    if (status != CUBLAS_STATUS_SUCCESS || count == 0) {
      throw DeviceError("[" + std::string(op) +
                        "] cuBLASLt has no algorithm for this product (status " +
                        std::to_string(int(status)) + ")");
    }
    algorithm = found.algo, workspace = int64_t(found.workspaceSize);
  }

  // Whether the same algorithm does the epilogue too, so that its sums are the product's.
  bool takes_epilogue(uint64_t most) {
    cublasLtMatmulHeuristicResult_t found{};
    const cublasStatus_t status = cublas_lt().check(blas, product.get, left.get, right.get,
                                                    result.get, result.get, &algorithm, &found);
    if (status != CUBLAS_STATUS_SUCCESS || found.workspaceSize > most) return false;
    workspace = std::max(workspace, int64_t(found.workspaceSize));
    return true;
  }
};

CudaProduct::CudaProduct(const Device& device, const char* op, const ProductShape& shape,
                         const ProductBoundaries& boundaries, Epilogue epilogue)
    : parts_(std::make_unique<Parts>()) {
  const CublasLt& lt = cublas_lt();
  const LtProduct p = lt_product(shape);
  Parts& s = *parts_;
  s.blas = cuda_of(device).blas();
  s.bias = shape.bias, s.boundaries = boundaries;
  s.product.destroy = lt.desc_destroy;
  const cublasComputeType_t compute =
      device.tf32 && shape.in == DType::f32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  check_blas(lt.desc_create(&s.product.get, compute, CUDA_R_32F));
  set(s.product.get, CUBLASLT_MATMUL_DESC_TRANSA, p.left.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(s.product.get, CUBLASLT_MATMUL_DESC_TRANSB, p.right.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  make_layout(s.left, p.left, shape.in, p.batch);
  make_layout(s.right, p.right, shape.in, p.batch);
  make_layout(s.result, p.result, shape.out, p.batch);
  const uint64_t most = most_workspace(cuda_of(device));
  s.make_epilogue(Epilogue::none, shape.n);
  s.expect_bias();
  s.choose(most, op);
  if (epilogue == Epilogue::none) return;
  s.make_epilogue(epilogue, shape.n);
  if (!s.takes_epilogue(most)) s.make_epilogue(Epilogue::none, shape.n);
}
CudaProduct::~CudaProduct() = default;

Epilogue CudaProduct::epilogue() const { return parts_->epilogue; }
int64_t CudaProduct::workspace() const { return align_up(parts_->workspace); }

void CudaProduct::run(cudaStream_t stream, const void* a, const void* b, const void* sum, void* c,
                      const void* bias, std::byte* workspace, const void* mask) const {
  const Parts& s = *parts_;
  if (s.bias) set(s.product.get, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  if (s.epilogue == Epilogue::relu_grad) {
    set(s.product.get, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, mask);
  }
  const float one = 1, beta = sum ? 1 : 0;
  if (!sum) sum = c;
  const auto off = [](const void* p, int64_t boundary) {
    return reinterpret_cast<uintptr_t>(p) % uintptr_t(boundary) != 0;
  };
  if (off(a, s.boundaries.a) || off(b, s.boundaries.b) || off(sum, s.boundaries.c) ||
      off(c, s.boundaries.c) || (s.bias && off(bias, s.boundaries.bias))) {
    throw DeviceError("cuda_product.cu: an operand does not begin where its rows do");
  }
  // Transposed, as the library sees it: the second operand comes first.
  check_blas(cublas_lt().matmul(s.blas, s.product.get, &one, b, s.left.get, a, s.right.get, &beta,
                                sum, s.result.get, c, s.result.get, &s.algorithm, workspace,
                                size_t(s.workspace), stream));
}

}  // namespace pal
