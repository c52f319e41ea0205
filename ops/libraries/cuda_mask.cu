// A product of ones under a mask, and which of its results are left.
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "core/philox.h"
#include "ops/kernels/element_types.h"
#include "ops/libraries/cuda_mask.h"
#include "ops/libraries/cuda_product.h"
#include "ops/libraries/library_scratch.h"

namespace pal {
namespace {

constexpr int64_t kRows = 64, kRow = 128, kSum = 64;  // of the result, and terms of an element

std::vector<std::byte> ones(int64_t n, DType type) {
  std::vector<std::byte> out(size_t(n * bits(type) / 8));
  const float one = 1;
  for (int64_t i = 0; i < n; ++i) {
    if (type == DType::bf16)
      store(reinterpret_cast<bf16*>(out.data()), i, one);
    else if (type == DType::f16)
      store(reinterpret_cast<f16*>(out.data()), i, one);
    else
      reinterpret_cast<float*>(out.data())[i] = one;
  }
  return out;
}

float number(const std::vector<std::byte>& bytes, DType type, int64_t i) {
  if (type == DType::bf16) return load(reinterpret_cast<const bf16*>(bytes.data()), i);
  if (type == DType::f16) return load(reinterpret_cast<const f16*>(bytes.data()), i);
  return reinterpret_cast<const float*>(bytes.data())[i];
}

// No two rows, bytes or orders of bits are alike.
std::vector<std::byte> irregular_mask() {
  std::vector<std::byte> out;
  for (uint32_t i = 0; i < kRows * kRow / 8; ++i) {
    out.push_back(std::byte(philox({{i, 0, 0, 0}}, 1, 2).x[0] & 0xFF));
  }
  return out;
}

// Whether the library does such a product, and lets pass what the mask does: every element of the
// result is kSum or 0.
bool passes_as_written(const Device& device, DType type, DType result_type,
                       const std::vector<std::byte>& mask) {
  const ProductShape shape{.m = kRows,
                           .n = kRow,
                           .k = kSum,
                           .a = {0, kSum, 1},
                           .b = {0, kRow, 1},
                           .c = {0, kRow, 1},
                           .in = type,
                           .out = result_type};
  const CudaProduct product(device, "matmul_relu_grad", shape, {}, Epilogue::relu_grad);
  if (product.epilogue() != Epilogue::relu_grad) return false;
  const std::vector<std::byte> a = ones(kRows * kSum, type), b = ones(kSum * kRow, type);
  const TensorSpec result{{kRows, kRow}, result_type};
  std::vector<std::byte> c(size_t(result.bytes()));
  const int64_t at_b = align_up(int64_t(a.size())), at_mask = at_b + align_up(int64_t(b.size())),
                at_c = at_mask + align_up(int64_t(mask.size())),
                at_space = at_c + align_up(int64_t(c.size()));
  const std::shared_ptr<Accelerator> gpu = device.accelerator;
  const TrialMemory memory(*gpu, at_space + product.workspace(), true);
  std::byte* const at = memory.at();
  gpu->copy(kComputeQueue, at, a.data(), int64_t(a.size()));
  gpu->copy(kComputeQueue, at + at_b, b.data(), int64_t(b.size()));
  gpu->copy(kComputeQueue, at + at_mask, mask.data(), int64_t(mask.size()));
  product.run(static_cast<cudaStream_t>(gpu->stream(kComputeQueue)), at, at + at_b, nullptr,
              at + at_c, nullptr, at + at_space, at + at_mask);
  gpu->copy(kComputeQueue, c.data(), at + at_c, int64_t(c.size()));
  gpu->synchronize();
  for (int64_t i = 0; i < kRows * kRow; ++i) {
    const bool passes = (int(mask[size_t(i / 8)]) >> (i % 8) & 1) != 0;
    if (number(c, result_type, i) != (passes ? float(kSum) : 0.0f)) return false;
  }
  return true;
}

}  // namespace

bool reads_masks_as_written(const Device& device, DType type, DType result) {
  std::map<std::pair<DType, DType>, bool>& known = cuda_of(device).masks();
  if (const auto it = known.find({type, result}); it != known.end()) return it->second;
  bool same = false;
  const char* why = "reads DRELU's mask in another order than we write it, or has no such product";
  try {
    same = passes_as_written(device, type, result, irregular_mask());
  } catch (const BudgetError&) {
    why =
        "could not be asked how it reads DRELU's mask: the device has no room for a small product";
  }
  const auto is_known = [](const auto& types_and_answer) { return !types_and_answer.second; };
  if (!same && std::none_of(known.begin(), known.end(), is_known)) {
    std::fprintf(stderr,
                 "warning: cuBLASLt %s: products and relu's gradient are separate kernels "
                 "(memory.fuse_epilogues)\n",
                 why);
  }
  return known[{type, result}] = same;
}

}  // namespace pal
