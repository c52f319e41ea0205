// One matrix product, or one per batch element, prepared once and run many times: the kernel below
// matmul and batched_matmul. The bits of a result depend neither on the number of threads nor on
// where the operands lie: see the notes in the .cc.
#pragma once
#include <array>
#include <memory>

#include "core/device.h"
#include "core/spec.h"

namespace pal {

struct ProductShape {
  int64_t batch = 1, m = 0, n = 0, k = 0;
  // Distances in elements: batch, row, column of op(a) (m, k), op(b) (k, n) and c (m, n).
  std::array<int64_t, 3> a{}, b{}, c{};
  DType in = DType::f32, out = DType::f32;  // in: of a and b, f32 or (where has_bf16) bf16
  bool accumulate = false;                  // c += instead of c =
  bool bias = false;                        // f32 (n), added to every row
  Layout b_layout = nullptr;                // how b is packed, batch 1 only; b's strides are unread
  bool b_transposed = false;                // the packed value's axes are (n, k)
};

class Product {
 public:
  Product(const Device& device, const ProductShape& shape);
  ~Product();

  int64_t workspace() const;
  void run(const void* a, const void* b, void* c, const void* bias, std::byte* workspace,
           const Queue& queue) const;

  static bool has_bf16();  // whether this processor multiplies bf16 itself
  // The packed format that the kernel would like b in, null when it reads any as well.
  static Layout packed_b(const Device& device, const ProductShape& shape);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace pal
