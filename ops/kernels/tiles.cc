// Tiles of any storage type as f32, copies, and the inference that elementwise operators share.
#include "ops/kernels/tiles.h"

#include <cmath>
#include <cstring>

#include "ops/kernels/vectors.h"

namespace pal {
namespace {

template <class T> const float* converted(const void* data, int64_t i, int64_t n, float* buffer) {
  const T* p = static_cast<const T*>(data) + i;
  for (int64_t j = 0; j < n; ++j) buffer[j] = to_float(p[j]);
  return buffer;
}

template <class T> void convert(void* data, int64_t i, int64_t n, const float* tile) {
  T* p = static_cast<T*>(data) + i;
  for (int64_t j = 0; j < n; ++j) p[j] = from_float<T>(tile[j]);
}

constexpr int64_t kBits = 32;  // at a time: whole vectors

// n is a multiple of kBits.
void pack_bits(const float* tile, int64_t n, uint8_t* to) {
  const auto zero = vectors::all(0.0f);
  for (int64_t j = 0; j < n; j += kBits) {
    uint32_t word = 0;
    for (int64_t b = 0; b < kBits; b += vectors::kWidth) {
      word |= vectors::bits_of(vectors::is_less(zero, vectors::load_floats(tile + j + b))) << b;
    }
    for (int64_t b = 0; b < kBits / 8; ++b) to[j / 8 + b] = uint8_t(word >> (8 * b));
  }
}

constexpr int64_t kCopyGrain = 4 * kElementGrain;  // bytes

}  // namespace

const float* load_tile(const void* data, DType type, int64_t i, int64_t n, float* buffer,
                       float inside, float outside) {
  switch (type) {
    case DType::f32: return static_cast<const float*>(data) + i;
    case DType::bf16: return converted<bf16>(data, i, n, buffer);
    case DType::f16: return converted<f16>(data, i, n, buffer);
    default: break;
  }
  const uint8_t* p = static_cast<const uint8_t*>(data) + i / 8;
  int64_t j = 0;
  const auto yes = vectors::all(inside), no = vectors::all(outside);
  for (; j + kBits <= n; j += kBits) {
    const uint8_t* four = p + j / 8;
    const uint32_t word = uint32_t(four[0]) | uint32_t(four[1]) << 8 | uint32_t(four[2]) << 16 |
                          uint32_t(four[3]) << 24;
    for (int64_t b = 0; b < kBits; b += vectors::kWidth) {
      vectors::store_floats(buffer + j + b, vectors::choose(vectors::mask_of(word >> b), yes, no));
    }
  }
  for (; j < n; ++j) buffer[j] = load_bit(p, j) ? inside : outside;
  return buffer;
}

void store_tile(void* data, DType type, int64_t i, int64_t n, const float* tile) {
  switch (type) {
    case DType::f32:
      if (static_cast<float*>(data) + i != tile) {
        std::memcpy(static_cast<float*>(data) + i, tile, size_t(n) * 4);
      }
      return;
    case DType::bf16: return convert<bf16>(data, i, n, tile);
    case DType::f16: return convert<f16>(data, i, n, tile);
    default: break;
  }
  uint8_t* p = static_cast<uint8_t*>(data) + i / 8;
  int64_t j = 0;
  j = n / kBits * kBits;
  pack_bits(tile, j, p);
  if (j == n) return;
  float rest[kBits] = {};  // of the last byte, the bits that are no element are zero
  std::copy(tile + j, tile + n, rest);
  uint8_t last[kBits / 8];
  pack_bits(rest, kBits, last);
  std::copy_n(last, (n - j + 7) / 8, p + j / 8);
}

BitMeaning bits_of_interval(float lo, float hi) {
  const bool below = std::isinf(lo), above = std::isinf(hi);  // unbounded
  const float inside = below && above ? 0
                       : below        ? hi - std::max(1.0f, std::fabs(hi))
                       : above        ? lo + std::max(1.0f, std::fabs(lo))
                                      : 0.5f * lo + 0.5f * hi;
  return {inside, lo};
}

void convert_operand(const KernelArgs& a, size_t operand, size_t output) {
  const TensorSpec &from = a.in_spec[operand], &to = a.out_spec[output];
  void* const out = a.out[output];
  if (from.dtype == to.dtype) return copy_bytes(a.queue, out, a.in[operand], to.bytes());
  parallel_chunks(a.queue, to.numel(), kElementGrain, [&](int64_t begin, int64_t end) {
    alignas(64) float buffer[kTile];
    for (int64_t i = begin; i < end; i += kTile) {
      const int64_t n = std::min(kTile, end - i);
      store_tile(out, to.dtype, i, n, load_tile(a.in[operand], from.dtype, i, n, buffer));
    }
  });
}

void require_operands(SpecSpan in, size_t least, size_t most) {
  require(in.size() >= least && in.size() <= most, "takes ",
          (least < most ? std::to_string(least) + " to " : std::string()), most, " operands, not ",
          in.size());
}

bool is_float(DType type) {
  return type == DType::f32 || type == DType::bf16 || type == DType::f16;
}

Specs infer_like_first(SpecSpan in, size_t operands, bool predicate_last) {
  require_operands(in, operands, operands);
  require(is_float(in[0].dtype), in[0], ": not a floating-point type");
  for (size_t k = 1; k < operands; ++k) {
    const bool predicate = predicate_last && k + 1 == operands;
    require(in[k].shape == in[0].shape, in[0], ", ", in[k], ": shapes differ");
    require(in[k].dtype == in[0].dtype ||
                (predicate && (is_float(in[k].dtype) || in[k].dtype == DType::bit)),
            in[0], ", ", in[k], ": types differ");
  }
  return {{in[0].shape, in[0].dtype}};
}

Cost streaming_cost(double flops, SpecSpan in, SpecSpan out) {
  Cost cost{flops, 0};
  for (auto& spec : in) cost.bytes += spec.shape.rank() > 0 ? double(spec.bytes()) : 0;
  for (auto& spec : out) cost.bytes += double(spec.bytes());
  return cost;
}

int64_t leading_numel(const Shape& shape, int axes) {
  int64_t n = 1;
  for (int i = 0; i < axes; ++i) n *= shape[i];
  return n;
}

int64_t trailing_numel(const Shape& shape, int from) {
  int64_t n = 1;
  for (int i = from; i < shape.rank(); ++i) n *= shape[i];
  return n;
}

void copy_bytes(const Queue& queue, void* to, const void* from, int64_t bytes) {
  if (to == from || bytes == 0) return;
  parallel_chunks(queue, bytes, kCopyGrain, [&](int64_t begin, int64_t end) {
    std::memcpy(static_cast<char*>(to) + begin, static_cast<const char*>(from) + begin,
                size_t(end - begin));
  });
}

void zero_bytes(const Queue& queue, void* to, int64_t bytes) {
  parallel_chunks(queue, bytes, kCopyGrain, [&](int64_t begin, int64_t end) {
    std::memset(static_cast<char*>(to) + begin, 0, size_t(end - begin));
  });
}

void copy_rows(const Queue& queue, void* to, int64_t to_stride, const void* from,
               int64_t from_stride, int64_t rows, int64_t bytes) {
  if (bytes == 0) return;
  const int64_t grain = (kCopyGrain + bytes - 1) / bytes;
  parallel_chunks(queue, rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      std::memcpy(static_cast<char*>(to) + r * to_stride,
                  static_cast<const char*>(from) + r * from_stride, size_t(bytes));
    }
  });
}

}  // namespace pal
