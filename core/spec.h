// What a tensor is: its shape, the type of its elements, and how they lie in memory.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>

namespace pal {

// Extents, outermost first; at most eight. Images are NHWC, sequences are time-major (T, B, ...).
class Shape {
 public:
  static constexpr int kMaxRank = 8;
  Shape() = default;
  Shape(std::initializer_list<int64_t> extents);
  explicit Shape(std::span<const int64_t> extents);

  int rank() const { return rank_; }
  int64_t operator[](int i) const { return extent_[i]; }
  int64_t& operator[](int i) { return extent_[i]; }
  int64_t back() const { return extent_[rank_ - 1]; }
  const int64_t* begin() const { return extent_.data(); }
  const int64_t* end() const { return extent_.data() + rank_; }
  int64_t numel() const;

  void append(int64_t extent);
  Shape without(int axis) const;           // the shape with one axis dropped
  Shape with_front(int64_t extent) const;  // the shape with one axis put before the others
  bool operator==(const Shape& other) const;

 private:
  std::array<int64_t, kMaxRank> extent_{};
  int rank_ = 0;
};

enum class DType : uint8_t { f32, bf16, f16, i32, u8, u4, bit };

const char* to_string(DType type);
int bits(DType type);

// A memory format that only the library which chose it can read: named for comparing and printing,
// with a size of its own (padding included) and the library's descriptor inside.
struct BlockedLayout {
  std::string tag;
  int64_t bytes;
  std::shared_ptr<const void> descriptor;
};
using Layout = std::shared_ptr<const BlockedLayout>;  // null: plain, row-major

struct TensorSpec {
  Shape shape;
  DType dtype = DType::f32;
  Layout layout = nullptr;

  int64_t numel() const { return shape.numel(); }
  int64_t bytes() const;  // of bits 8 elements to a byte, of u4 2; rounded up
  bool operator==(const TensorSpec& other) const;
};

// "f32[100,128,512]", "f32[64,64,3,3]:ABcd16b16a"
std::string to_string(const TensorSpec& spec);
std::string to_string(const Shape& shape);
size_t hash_of(const TensorSpec& spec);

// Every storage begins on a boundary of this many bytes.
constexpr int64_t kAlignment = 64;
inline int64_t align_up(int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

inline size_t hash_combine(size_t seed, size_t value) {
  return seed ^ (value + 0x9e3779b97f4a7c15ull + (seed << 12) + (seed >> 4));
}

}  // namespace pal
