// cuBLASLt's descriptors and algorithms; what it is told of the operands is
// ops/libraries/lt_product.h's.
#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/algorithm_choices.h"
#include "ops/libraries/cuda_product.h"
#include "ops/libraries/fastest_call.h"
#include "ops/libraries/library_scratch.h"

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

// All that an algorithm's time may follow from.
std::string key_of(const CudaDevice& device, const ProductShape& s, const LtProduct& p,
                   const ProductBoundaries& b, cublasComputeType_t compute) {
  std::string key = "cuBLASLt " + std::to_string(cublas_lt().version()) + ", " +
                    device.description() + ", " + to_string(s.in) + " to " + to_string(s.out);
  const auto add = [&](const char* name, std::initializer_list<int64_t> numbers) {
    key.append(", ").append(name);
    for (const int64_t n : numbers) key.append(" ").append(std::to_string(n));
  };
  add("compute", {int64_t(compute)});
  add("extents", {s.m, s.n, s.k, p.batch});
  add("transposed", {p.left.transposed, p.right.transposed});
  add("leading", {p.left.leading, p.right.leading, p.result.leading});
  add("stride", {p.left.batch, p.right.batch, p.result.batch});
  add("boundaries", {b.a, b.b, b.c, s.bias ? b.bias : 0});
  return key;
}

// An algorithm as text; the library lets it be written out, and read by the same version.
std::string text_of(const cublasLtMatmulAlgo_t& algorithm) {
  std::string text;
  for (const uint64_t word : algorithm.data) {
    char digits[17];
    std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(word));
    text += digits;
  }
  return text;
}
bool read_algorithm(const std::string& text, cublasLtMatmulAlgo_t& to) {
  if (text.size() != 16 * std::size(to.data)) return false;
  const char* at = text.data();
  for (uint64_t& word : to.data) {
    const auto [end, error] = std::from_chars(at, at + 16, word, 16);
    if (error != std::errc() || end != at + 16) return false;
    at = end;
  }
  return true;
}

std::string text_of(const ProductShape& s) {
  const auto matrix = [](int64_t rows, int64_t columns) {
    return "(" + std::to_string(rows) + ", " + std::to_string(columns) + ")";
  };
  return (s.batch > 1 ? std::to_string(s.batch) + " times " : "") + matrix(s.m, s.k) + " by " +
         matrix(s.k, s.n) + ", " + to_string(s.in) + " to " + to_string(s.out);
}

// What the heuristics say of an algorithm. (nvcc 13.0 fails at a vector of the library's own.)
struct LtCandidate {
  cublasLtMatmulAlgo_t algo;
  size_t workspace;
};
constexpr int kCandidates = 8;

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
  std::string what;  // "(64, 128) by (128, 32), bf16 to f32"
  std::string by = "cuBLASLt, its first guess";

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

  // What does the product (with its bias), the best first by the library's own judgement.
  std::vector<LtCandidate> candidates(uint64_t most, int count, const char* op) const {
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
    std::array<cublasLtMatmulHeuristicResult_t, kCandidates> found{};
    const cublasStatus_t status =
        lt.heuristic(blas, product.get, left.get, right.get, result.get, result.get, preference.get,
                     std::min(count, kCandidates), found.data(), &count);
    std::vector<LtCandidate> out;
    for (int i = 0; status == CUBLAS_STATUS_SUCCESS && i < count; ++i) {
      const cublasLtMatmulHeuristicResult_t& each = found[size_t(i)];
      if (each.state == CUBLAS_STATUS_SUCCESS) out.push_back({each.algo, each.workspaceSize});
    }
    if (out.empty()) {
      throw DeviceError("[" + std::string(op) + "] cuBLASLt has no algorithm for " + what +
                        " (status " + std::to_string(int(status)) + ")");
    }
    return out;
  }

  // Whether it does the product as it is described now, in so much workspace.
  bool take(const cublasLtMatmulAlgo_t& wanted, uint64_t most) {
    cublasLtMatmulHeuristicResult_t found{};
    const cublasStatus_t status = cublas_lt().check(blas, product.get, left.get, right.get,
                                                    result.get, result.get, &wanted, &found);
    if (status != CUBLAS_STATUS_SUCCESS || found.workspaceSize > most) return false;
    algorithm = wanted, workspace = std::max(workspace, int64_t(found.workspaceSize));
    return true;
  }

  // The one that was chosen before; else, of those that the library thinks best, the fastest.
  void choose(const Device& device, const ProductShape& shape, const LtProduct& p, uint64_t most,
              const std::string& key, const char* op) {
    AlgorithmChoices* const choices = device.algorithms.get();
    cublasLtMatmulAlgo_t kept{};
    if (choices) {
      const std::optional<std::string> known = choices->find(key);
      if (known && read_algorithm(*known, kept) && take(kept, most)) {
        by = "cuBLASLt, as chosen before";
        return;
      }
    }
    const auto found = candidates(most, choices ? kCandidates : 1, op);
    const bool several = found.size() > 1;
    std::optional<size_t> fastest;
    if (several && choices->may_measure()) fastest = fastest_of(found, cuda_of(device), shape, p);
    if (fastest) by = "cuBLASLt, timed";
    const cublasLtMatmulAlgo_t& chosen = found[fastest.value_or(0)].algo;
    if (several) {
      const std::string known = choices->keep(key, text_of(chosen), fastest.has_value());
      if (read_algorithm(known, kept) && take(kept, most)) return;
    }
    if (!take(chosen, most)) {
      throw DeviceError("[" + std::string(op) +
                        "] cuBLASLt refuses the algorithm that it names for " + what);
    }
  }

  // Nothing where the device has no room for operands to try it with, or none of them runs.
  std::optional<size_t> fastest_of(const std::vector<LtCandidate>& found, CudaDevice& device,
                                   const ProductShape& shape, const LtProduct& p) {
    const int64_t in = bits(shape.in) / 8, out = bits(shape.out) / 8;
    int64_t bytes = 0, most = 0;
    for (const auto& each : found) most = std::max(most, int64_t(each.workspace));
    const auto room = [&](int64_t wanted) {
      return std::exchange(bytes, bytes + align_up(wanted));
    };
    const int64_t a = room(span_of(p.right, p.batch) * in), b = room(span_of(p.left, p.batch) * in),
                  c = room(span_of(p.result, p.batch) * out), row = room(shape.n * out),
                  scratch = room(library_workspace(most));
    const auto memory = trial_memory_if_room(device, bytes);
    if (!memory) return {};
    std::byte* const base = memory->at();
    fill_with_numbers(device, base, bytes);
    const std::optional<size_t> fastest = fastest_call(device, found.size(), [&](size_t i) {
      algorithm = found[i].algo, workspace = int64_t(found[i].workspace);
      start(cudaStream_t(device.stream(kComputeQueue)), base + a, base + b, nullptr, base + c,
            base + row, base + scratch, nullptr);
    });
    device.synchronize();
    workspace = 0;
    expect_bias();
    return fastest;
  }

  void start(cudaStream_t stream, const void* a, const void* b, const void* sum, void* c,
             const void* bias, std::byte* scratch, const void* mask) const;
};

CudaProduct::CudaProduct(const Device& device, const char* op, const ProductShape& shape,
                         const ProductBoundaries& boundaries, Epilogue epilogue)
    : parts_(std::make_unique<Parts>()) {
  const CublasLt& lt = cublas_lt();
  const LtProduct p = lt_product(shape);
  Parts& s = *parts_;
  s.blas = cuda_of(device).blas();
  s.bias = shape.bias, s.boundaries = boundaries;
  s.what = text_of(shape);
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
  s.choose(device, shape, p, most, key_of(cuda_of(device), shape, p, boundaries, compute), op);
  if (epilogue == Epilogue::none) return;
  // The same algorithm, so that the sums are those of the product without it.
  s.make_epilogue(epilogue, shape.n);
  if (!s.take(s.algorithm, most)) s.make_epilogue(Epilogue::none, shape.n);
}
CudaProduct::~CudaProduct() = default;

const std::string& CudaProduct::by() const { return parts_->by; }
Epilogue CudaProduct::epilogue() const { return parts_->epilogue; }
int64_t CudaProduct::workspace() const { return align_up(library_workspace(parts_->workspace)); }

void CudaProduct::run(cudaStream_t stream, const void* a, const void* b, const void* sum, void* c,
                      const void* bias, std::byte* workspace, const void* mask) const {
  parts_->start(stream, a, b, sum, c, bias, workspace, mask);
}

void CudaProduct::Parts::start(cudaStream_t stream, const void* a, const void* b, const void* sum,
                               void* c, const void* bias_row, std::byte* scratch,
                               const void* mask) const {
  if (bias) set(product.get, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias_row);
  if (epilogue == Epilogue::relu_grad) {
    set(product.get, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, mask);
  }
  const float one = 1, beta = sum ? 1 : 0;
  if (!sum) sum = c;
  const auto expect = [&](const char* which, const void* p, int64_t boundary) {
    if (reinterpret_cast<uintptr_t>(p) % uintptr_t(boundary) == 0) return;
    throw DeviceError("cuda_product.cu: of " + what + ", the " + which + " is not on " +
                      std::to_string(boundary) + " bytes, as its rows are");
  };
  expect("first operand", a, boundaries.a), expect("second operand", b, boundaries.b);
  expect("sum", sum, boundaries.c), expect("result", c, boundaries.c);
  if (bias) expect("bias", bias_row, boundaries.bias);
  // Transposed, as the library sees it: the second operand comes first.
  check_blas(cublas_lt().matmul(blas, product.get, &one, b, left.get, a, right.get, &beta, sum,
                                result.get, c, result.get, &algorithm,
                                library_scratch(scratch, workspace), size_t(workspace), stream));
}

}  // namespace pal
