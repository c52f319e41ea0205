// One matrix product through cuBLASLt, prepared once and run many times: the kernel below matmul
// and batched_matmul, as ops/libraries/matmul_product.h is on the CPU.
#pragma once
#include "core/boundary.h"
#include "core/cuda/device.h"
#include "ops/libraries/lt_product.h"

namespace pal {

// On which bytes operands, result and bias begin at least: row_boundary of their specs.
struct ProductBoundaries {
  int64_t a = kWidestBoundary, b = kWidestBoundary, c = kWidestBoundary, bias = kWidestBoundary;
};

// One algorithm, chosen when the step is compiled: the same wherever the operands are placed, and
// with an epilogue as without. Schemes that add up partial sums in place are left out, so a product
// gives the same bits each time. Sums are f32; f32 operands are multiplied as such unless the
// device is set to TF32.
class CudaProduct {
 public:
  // shape.in, shape.out: f32 both; or bf16 or f16 in, and the same or f32 out. `op` for errors.
  CudaProduct(const Device& device, const char* op, const ProductShape& shape,
              const ProductBoundaries& boundaries, Epilogue epilogue = Epilogue::none);
  ~CudaProduct();

  // What was asked for, or none where the library has no algorithm that does it.
  Epilogue epilogue() const;
  int64_t workspace() const;
  // "cuBLASLt, timed": by whose code, and how its algorithm was chosen.
  const std::string& by() const;
  // c = a b (+ sum) (+ bias, where the shape has one), through the epilogue. sum: null, c itself,
  // or elsewhere. mask: of relu_grad, on a boundary of kMaskBoundary bytes.
  void run(cudaStream_t stream, const void* a, const void* b, const void* sum, void* c,
           const void* bias, std::byte* workspace, const void* mask = nullptr) const;

  static constexpr int64_t kMaskBoundary = 16;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace pal
