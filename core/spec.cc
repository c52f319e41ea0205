// Shapes, element types and tensor specs: sizes, comparison, printing.
#include "core/spec.h"

#include <algorithm>
#include <functional>

#include "core/error.h"

namespace pal {

Shape::Shape(std::initializer_list<int64_t> extents)
    : Shape(std::span<const int64_t>(extents.begin(), extents.size())) {}

Shape::Shape(std::span<const int64_t> extents) {
  for (int64_t extent : extents) append(extent);
}

int64_t Shape::numel() const {
  int64_t n = 1;
  for (int64_t extent : *this) n *= extent;
  return n;
}

void Shape::append(int64_t extent) {
  if (rank_ == kMaxRank) throw ProgramError("a shape has at most 8 axes, got " + to_string(*this));
  if (extent < 0) throw ProgramError("a shape has no negative extents");
  extent_[rank_++] = extent;
}

Shape Shape::without(int axis) const {
  Shape out;
  for (int i = 0; i < rank_; ++i) {
    if (i != axis) out.append(extent_[i]);
  }
  return out;
}

Shape Shape::with_front(int64_t extent) const {
  Shape out{extent};
  for (int64_t e : *this) out.append(e);
  return out;
}

bool Shape::operator==(const Shape& other) const {
  return rank_ == other.rank_ && std::equal(begin(), end(), other.begin());
}

const char* to_string(DType type) {
  switch (type) {
    case DType::f32: return "f32";
    case DType::bf16: return "bf16";
    case DType::f16: return "f16";
    case DType::i32: return "i32";
    case DType::u8: return "u8";
    case DType::u4: return "u4";
    case DType::bit: return "bit";
  }
  return "?";
}

int bits(DType type) {
  switch (type) {
    case DType::f32:
    case DType::i32: return 32;
    case DType::bf16:
    case DType::f16: return 16;
    case DType::u8: return 8;
    case DType::u4: return 4;
    case DType::bit: return 1;
  }
  return 0;
}

int64_t TensorSpec::bytes() const {
  return layout ? layout->bytes : (numel() * bits(dtype) + 7) / 8;
}

bool TensorSpec::operator==(const TensorSpec& other) const {
  if (dtype != other.dtype || !(shape == other.shape)) return false;
  if (!layout || !other.layout) return layout == other.layout;
  return layout == other.layout || layout->tag == other.layout->tag;
}

std::string to_string(const Shape& shape) {
  std::string out = "[";
  for (int i = 0; i < shape.rank(); ++i) out += (i ? "," : "") + std::to_string(shape[i]);
  return out + "]";
}

std::string to_string(const TensorSpec& spec) {
  return to_string(spec.dtype) + to_string(spec.shape) +
         (spec.layout ? ":" + spec.layout->tag : "");
}

size_t hash_of(const TensorSpec& spec) {
  size_t h = static_cast<size_t>(spec.dtype);
  for (int64_t extent : spec.shape) h = hash_combine(h, static_cast<size_t>(extent));
  return spec.layout ? hash_combine(h, std::hash<std::string>{}(spec.layout->tag)) : h;
}

}  // namespace pal
