// A number that stands for data: equal data make equal numbers.
#pragma once
#include <cstdint>
#include <string_view>

namespace pal {

// FNV-1a, by numbers instead of bytes.
class Fingerprint {
 public:
  void take(int64_t number) {
    hash_ = (hash_ ^ static_cast<uint64_t>(number)) * 0x100000001B3u;
    hash_ ^= hash_ >> 32;  // high bits reach low ones, which a product alone does not do
  }
  void take(std::string_view text) {
    for (const char c : text) take(static_cast<unsigned char>(c));
  }
  uint64_t value() const { return hash_; }

 private:
  uint64_t hash_ = 0xCBF29CE484222325u;
};

}  // namespace pal
