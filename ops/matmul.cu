// matmul and batched_matmul through cuBLASLt: bias as an epilogue, the sum so far as its C. The
// algorithm is chosen when the step is compiled, for operands on boundaries of 16 bytes and for
// any; schemes that add up partial sums in place are left out, so a product gives the same bits
// each time. Sums are f32; f32 operands are multiplied as such (no TF32).
#include "core/cuda_device.h"
#include "ops/batched_matmul.h"
#include "ops/cuda.h"
#include "ops/cuda_elements.h"
#include "ops/lt_product.h"
#include "ops/matmul.h"

namespace pal {
namespace {

constexpr size_t kMostWorkspace = size_t(8) << 20;  // of it the algorithm's own need is reserved
constexpr int64_t kBoundary = 16;                   // bytes

bool present(SpecSpan in, size_t i) { return i < in.size() && in[i].shape.rank() > 0; }

cudaDataType data_type(DType type) {
  return type == DType::bf16 ? CUDA_R_16BF : type == DType::f16 ? CUDA_R_16F : CUDA_R_32F;
}

// cuBLASLt's descriptors; each is destroyed by the table's function.
template <class H>
struct Handle {
  H get = nullptr;
  cublasStatus_t (*destroy)(H) = nullptr;
  Handle() = default;
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() {
    if (get) destroy(get);
  }
};

struct LtState {
  Handle<cublasLtMatmulDesc_t> product;
  Handle<cublasLtMatrixLayout_t> left, right, result;
  cublasLtMatmulAlgo_t aligned{}, any{};
  int64_t workspace = 0;
  cublasLtHandle_t blas = nullptr;
  bool bias = false;
  // Operands of types that the library does not combine go through f32 copies, behind its
  // workspace.
  bool copy_a = false, copy_b = false, copy_out = false;
  int64_t a_at = 0, b_at = 0, out_at = 0;
};

void make_layout(Handle<cublasLtMatrixLayout_t>& layout, const LtMatrix& m, DType type,
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

// The best algorithm by the library's own judgement for operands on such boundaries.
cublasLtMatmulAlgo_t choose(LtState& s, uint32_t boundary, const char* op) {
  const CublasLt& lt = cublas_lt();
  Handle<cublasLtMatmulPreference_t> preference;
  preference.destroy = lt.preference_destroy;
  check_blas(lt.preference_create(&preference.get));
  set(preference.get, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t(kMostWorkspace));
  set(preference.get, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      uint32_t(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  for (auto which :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    set(preference.get, which, boundary);
  }
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  const cublasStatus_t status =
      lt.heuristic(s.blas, s.product.get, s.left.get, s.right.get, s.result.get, s.result.get,
                   preference.get, 1, &found, &count);
  if (status != CUBLAS_STATUS_SUCCESS || count == 0) {
    throw DeviceError("[" + std::string(op) +
                      "] cuBLASLt has no algorithm for this product (status " +
                      std::to_string(int(status)) + ")");
  }
  if (int64_t(found.workspaceSize) > s.workspace) s.workspace = int64_t(found.workspaceSize);
  return found.algo;
}

Prepared prepare_product(const Device& device, const char* op, const ProductShape& shape, DType a,
                         DType b, DType out) {
  const CublasLt& lt = cublas_lt();
  auto state = std::make_shared<LtState>();
  LtState& s = *state;
  // bf16 or f16, both alike, into that type or f32; or all f32.
  const bool halves = a == b && a != DType::f32 && (out == a || out == DType::f32) && !shape.bias;
  s.copy_a = !halves && a != DType::f32;
  s.copy_b = !halves && b != DType::f32;
  s.copy_out = !halves && out != DType::f32;
  const DType in_type = halves ? a : DType::f32, out_type = halves ? out : DType::f32;
  const LtProduct p = lt_product(shape);
  s.blas = cuda_of(device).blas();
  s.bias = shape.bias;
  s.product.destroy = lt.desc_destroy;
  check_blas(lt.desc_create(&s.product.get, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  set(s.product.get, CUBLASLT_MATMUL_DESC_TRANSA, p.left.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(s.product.get, CUBLASLT_MATMUL_DESC_TRANSB, p.right.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (s.bias) set(s.product.get, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
  make_layout(s.left, p.left, in_type, p.batch);
  make_layout(s.right, p.right, in_type, p.batch);
  make_layout(s.result, p.result, out_type, p.batch);
  s.aligned = choose(s, kBoundary, op);
  s.any = choose(s, in_type == DType::f32 && out_type == DType::f32 ? 4 : 2, op);
  int64_t bytes = align_up(s.workspace);
  auto reserve = [&](bool needed, int64_t elements) {
    const int64_t at = bytes;
    if (needed) bytes += align_up(elements * int64_t(sizeof(float)));
    return at;
  };
  s.a_at = reserve(s.copy_a, shape.m * shape.k), s.b_at = reserve(s.copy_b, shape.k * shape.n);
  s.out_at = reserve(s.copy_out, shape.m * shape.n);
  return {.state = std::move(state), .workspace = bytes};
}

struct Convert {
  PAL_HD float operator()(float x) const { return x; }
};
void convert(const KernelArgs& a, void* to, DType to_type, const void* from, DType from_type,
             int64_t n) {
  const Operands<1> operands{
      .in = {stored(from, {{n}, from_type})}, .out = stored(to, {{n}, to_type}), .n = n};
  launch(map_kernel<1, Convert>, grid_of_groups(groups_of(n)), kThreads, 0, stream_of(a), operands,
         Convert{});
}

void run_product(const KernelArgs& a) {
  if (!a.out[0]) return;
  const LtState& s = *static_cast<const LtState*>(a.state);
  const void *left = a.in[1], *right = a.in[0];
  const void* sum = present(a.in_spec, 2) ? a.in[2] : nullptr;
  void* out = a.out[0];
  if (s.copy_b) {
    left = a.workspace + s.b_at;
    convert(a, a.workspace + s.b_at, DType::f32, a.in[1], a.in_spec[1].dtype, a.in_spec[1].numel());
  }
  if (s.copy_a) {
    right = a.workspace + s.a_at;
    convert(a, a.workspace + s.a_at, DType::f32, a.in[0], a.in_spec[0].dtype, a.in_spec[0].numel());
  }
  const int64_t results = a.out_spec[0].numel();
  if (s.copy_out) {
    out = a.workspace + s.out_at;
    if (sum) convert(a, out, DType::f32, sum, a.out_spec[0].dtype, results), sum = out;
  }
  if (s.bias) {
    set(s.product.get, CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(a.in[3]));
  }
  const float one = 1, beta = sum ? 1 : 0;
  const void* c = sum ? sum : out;
  const bool aligned = (reinterpret_cast<uintptr_t>(left) | reinterpret_cast<uintptr_t>(right) |
                        reinterpret_cast<uintptr_t>(c) | reinterpret_cast<uintptr_t>(out)) %
                           kBoundary ==
                       0;
  check_blas(cublas_lt().matmul(s.blas, s.product.get, &one, left, s.left.get, right, s.right.get,
                                &beta, c, s.result.get, out, s.result.get,
                                aligned ? &s.aligned : &s.any, a.workspace, size_t(s.workspace),
                                stream_of(a)));
  if (s.copy_out) convert(a, a.out[0], a.out_spec[0].dtype, out, DType::f32, results);
}

Prepared prepare_matmul(const Device& device, SpecSpan in, SpecSpan out, const Attrs& attrs) {
  return prepare_product(device, "matmul", matmul_product(in, attrs.as<MatmulAttrs>()), in[0].dtype,
                         in[1].dtype, out[0].dtype);
}
Prepared prepare_batched(const Device& device, SpecSpan in, SpecSpan out, const Attrs& attrs) {
  return prepare_product(device, "batched_matmul",
                         batched_matmul_product(in, attrs.as<BatchedMatmulAttrs>()), in[0].dtype,
                         in[1].dtype, out[0].dtype);
}

}  // namespace

const Backend batched_matmul_cuda{.run = run_product, .prepare = prepare_batched};
const Backend matmul_cuda{.run = run_product, .prepare = prepare_matmul};

}  // namespace pal
