// Sparse encodings: their bytes against a plain reference, exact round trips, cuts at the capacity.
#include "ops/encodings/ssdc.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <random>

#include "core/builder.h"
#include "core/error.h"
#include "core/prepare.h"
#include "ops/encodings/ssdc_rows.h"
#include "tests/ops/encodings/ssdc_kinds.h"
#include "tests/support/eval.h"

namespace pal {
namespace {

using Bytes = std::vector<std::byte>;
using Codes = std::vector<uint32_t>;  // the bits of each element

// No multiples of 2, 3, 8 or 256 but for one; one element; one more and one less than a row.
constexpr int64_t kSizes[] = {1, 7, 255, 256, 257, 1031, 3 * 256 + 65, 16387, 70001};

size_t element_size(DType type) { return size_t(bits(type) / 8); }

Bytes as_bytes(const Codes& codes, DType type) {
  Bytes out(codes.size() * element_size(type));
  for (size_t i = 0; i < codes.size(); ++i) {
    std::memcpy(out.data() + i * element_size(type), &codes[i], element_size(type));
  }
  return out;
}

Codes draw(int64_t n, DType type, double density, uint64_t seed = 1) {
  std::mt19937_64 rng(seed);
  Codes out(static_cast<size_t>(n));
  for (uint32_t& code : out) {
    const bool stored = double(rng() >> 11) < density * 0x1p53;
    const auto bit = uint32_t(rng());
    if (stored) code = std::max(1u, type == DType::bf16 ? bit & 0xffffu : bit);
  }
  return out;
}

int64_t nonzeros(const Codes& x) { return int64_t(x.size()) - std::count(x.begin(), x.end(), 0u); }

// x with all nonzeros behind the first `capacity` set to zero.
Codes cut(Codes x, int64_t capacity) {
  for (uint32_t& code : x) {
    if (code && capacity-- <= 0) code = 0;
  }
  return x;
}

template <class T> void append(Bytes& to, T value, size_t size = sizeof(T)) {
  const auto* p = reinterpret_cast<const std::byte*>(&value);
  to.insert(to.end(), p, p + size);
}

// Of rounded values.
Dpr format_of(SsdcValues values) { return Dpr(int(values) - 1); }

// A section of so many rounded values: in words, three, two or four to each.
Bytes rounded_values(const Codes& x, DType type, const SsdcAttrs& attrs) {
  const Dpr format = format_of(attrs.values);
  const size_t per_word = size_t(dpr_per_word(format));
  Codes words((size_t(attrs.capacity) + per_word - 1) / per_word);
  size_t i = 0;
  for (const uint32_t code : x) {
    if (!code) continue;
    const float value = std::bit_cast<float>(type == DType::bf16 ? code << 16 : code);
    words[i / per_word] |= dpr_code(value, format) << (i % per_word * size_t(dpr_bits(format)));
    ++i;
  }
  return as_bytes(words, DType::f32);
}
// What decoding gives of x.
Codes as_stored(Codes x, DType type, SsdcValues values) {
  if (values == SsdcValues::plain) return x;
  for (uint32_t& code : x) {
    const float value = std::bit_cast<float>(type == DType::bf16 ? code << 16 : code);
    const float rounded = dpr_value(dpr_code(value, format_of(values)), format_of(values));
    if (code && type == DType::f32) code = std::bit_cast<uint32_t>(rounded);
    if (code && type == DType::bf16) code = from_float<bf16>(rounded).bits;
  }
  return x;
}

// The bytes as ops/encodings/ssdc_layout.h states them.
Bytes reference(const Codes& all, DType type, const SsdcAttrs& attrs) {
  const Codes x = cut(all, attrs.capacity);
  Bytes ends, mask((x.size() + 255) / 256 * 32), values, columns, out;
  int32_t count = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i]) {
      append(values, x[i], element_size(type));
      append(columns, uint8_t(i % 256));
      mask[i / 8] |= std::byte(1 << i % 8);
      ++count;
    }
    if (i % 256 == 255 || i + 1 == x.size()) append(ends, count);
  }
  values.resize(size_t(attrs.capacity) * element_size(type));
  if (attrs.values != SsdcValues::plain) values = rounded_values(x, type, attrs);
  columns.resize(size_t(attrs.capacity));
  for (const Bytes* part : {&ends, attrs.form == SsdcForm::mask ? &mask : nullptr, &values,
                            attrs.form == SsdcForm::csr ? &columns : nullptr}) {
    if (part) out.insert(out.end(), part->begin(), part->end());
  }
  return out;
}

struct Result {
  Bytes encoded, decoded;
  int64_t count;
};

// Guards stand around every buffer, and everything is filled with NaNs before.
Result evaluate(const Codes& x, DType type, const SsdcAttrs& attrs, int threads = 1) {
  Builder builder;
  const Ssdc node = ssdc_encode(builder.input("x", {{int64_t(x.size())}, type}), attrs);
  builder.output("encoded", node.encoded);
  builder.output("count", node.count);
  builder.output("decoded", ssdc_decode(node.encoded));
  test::Evaluator eval(builder.take(), {.threads = threads});
  eval.set_bytes(eval.find("x"), as_bytes(x, type));
  eval.run();
  return {eval.bytes(eval.find("encoded")), eval.bytes(eval.find("decoded")),
          *eval.as<int32_t>(eval.find("count"))};
}

void expect_right(const Codes& x, DType type, const SsdcAttrs& attrs, int threads = 1) {
  const Result got = evaluate(x, type, attrs, threads);
  EXPECT_EQ(got.count, nonzeros(x));
  const Bytes wanted = reference(x, type, attrs);
  EXPECT_EQ(int64_t(wanted.size()), ssdc_bytes(attrs, int64_t(x.size()), type));
  EXPECT_TRUE(got.encoded == wanted) << "encoded";
  const Codes stored = as_stored(cut(x, attrs.capacity), type, attrs.values);
  EXPECT_TRUE(got.decoded == as_bytes(stored, type)) << "decoded";
}

TEST(Ssdc, ReturnsEveryBitAtAnyDensityAndSize) {
  for (const DType type : kTypes) {
    for (const SsdcForm form : kForms) {
      for (const int64_t size : kSizes) {
        for (const double density : {0.0, 0.01, 0.1, 0.3, 0.5, 0.9, 0.99, 1.0}) {
          SCOPED_TRACE(testing::Message() << to_string(type) << " form " << int(form) << ", "
                                          << size << " elements, density " << density);
          const Codes x = draw(size, type, density);
          expect_right(x, type, {form, nonzeros(x)});  // exactly as many as fit
          expect_right(x, type, {form, size});         // and with room for all
        }
      }
    }
  }
}

TEST(Ssdc, RoundsValuesInEitherForm) {
  for (const DType type : kTypes) {
    for (const SsdcForm form : kForms) {
      for (const SsdcValues values : kValues) {
        for (const int64_t size : kSizes) {
          for (const double density : {0.0, 0.01, 0.5, 1.0}) {
            SCOPED_TRACE(testing::Message()
                         << to_string(type) << " form " << int(form) << ", values " << int(values)
                         << ", " << size << " elements, density " << density);
            Codes x = draw(size, type, density, 2);
            for (size_t i = 0; i < x.size(); i += 2) {  // of a size that the formats have
              if (x[i])
                x[i] = type == DType::bf16 ? 0x3d00 + x[i] % 0x500 : 0x3d000000 + x[i] % 0x5000000;
            }
            for (const int64_t capacity : {nonzeros(x), size, nonzeros(x) * 2 / 3}) {
              expect_right(x, type, {form, capacity, values});
            }
          }
        }
      }
    }
  }
}

TEST(Ssdc, OnlyTheBitsOfPlusZeroAreZero) {
  const Codes special = {0x80000000, 0,          0x00000001, 0x80000001, 0x007fffff, 0x00800000,
                         0,          0x7f800000, 0xff800000, 0x7fc00000, 0x7f800001, 0xffc12345,
                         0x00010000, 0x7fffffff, 0,          0xffffffff, 0x0000ffff, 0x3f800000};
  for (const SsdcForm form : kForms) {
    for (const DType type : kTypes) {
      Codes x;
      for (int copies = 0; copies < 37; ++copies) {
        for (const uint32_t code : special) {
          x.push_back(type == DType::f32 ? code : code >> 16 ? code >> 16 : code & 0xffff);
        }
      }
      EXPECT_EQ(nonzeros(x), 37 * 15);
      expect_right(x, type, {form, nonzeros(x)});
    }
  }
}

TEST(Ssdc, KeepsWhatFitsAndTellsTheCount) {
  for (const DType type : kTypes) {
    for (const SsdcForm form : kForms) {
      for (const int64_t size : {int64_t(1), int64_t(300), int64_t(3 * 256 + 65), int64_t(70001)}) {
        const Codes x = draw(size, type, 0.6, 3);
        const int64_t count = nonzeros(x);
        for (const int64_t capacity : {int64_t(0), int64_t(1), count / 9, count / 2, count - 1}) {
          if (capacity < 0) continue;
          SCOPED_TRACE(testing::Message() << to_string(type) << " form " << int(form) << ", "
                                          << size << " elements, capacity " << capacity);
          expect_right(x, type, {form, capacity});
          EXPECT_TRUE(capacity >= count || evaluate(x, type, {form, capacity}).count > capacity);
        }
      }
    }
  }
}

TEST(Ssdc, HasTheSameBytesForAnyThreads) {
  // More than a block of three workers, whose rows differ in density.
  const int64_t size = 1024 * 256 * 7 / 2 + 77;
  for (const DType type : kTypes) {
    Codes x = draw(size, type, 0.3, 5);
    for (int64_t i = size / 3; i < size / 2; ++i) x[size_t(i)] = 0;
    for (int64_t i = size / 2; i < size * 3 / 5; ++i) x[size_t(i)] |= 1;
    for (const SsdcForm form : kForms) {
      for (const SsdcValues values : {SsdcValues::plain, SsdcValues::fp10}) {
        for (const int64_t capacity : {nonzeros(x), nonzeros(x) * 2 / 3}) {
          for (const int threads : {1, 2, 3}) {
            expect_right(x, type, {form, capacity, values}, threads);
          }
        }
      }
    }
  }
}

// A program that decodes bytes which no encoder wrote.
Bytes decode(const Bytes& encoded, int64_t size, DType type, const SsdcAttrs& attrs, int threads) {
  Builder builder;
  const TensorSpec spec = ssdc_spec({{size}, type}, attrs);
  builder.output("decoded", ssdc_decode(builder.input("encoded", spec)));
  test::Evaluator eval(builder.take(), {.threads = threads});
  eval.set_bytes(eval.find("encoded"), encoded);
  eval.run();
  return eval.bytes(eval.find("decoded"));
}

TEST(Ssdc, DecodesAnyBytesWithinBounds) {
  std::mt19937_64 rng(11);
  auto check = [&](int64_t size, DType type, const SsdcAttrs& attrs) {
    Bytes encoded(size_t(ssdc_bytes(attrs, size, type)));
    const int32_t ends[] = {0, -1, std::numeric_limits<int32_t>::max(),
                            std::numeric_limits<int32_t>::min(), int32_t(attrs.capacity)};
    for (int kind = 0; kind < 5; ++kind) {
      for (std::byte& byte : encoded) byte = std::byte(rng());
      for (int64_t row = 0; kind && row < (size + 255) / 256; ++row) {
        std::memcpy(encoded.data() + row * 4, &ends[kind], 4);
      }
      const Bytes one = decode(encoded, size, type, attrs, 1);
      EXPECT_TRUE(one == decode(encoded, size, type, attrs, 3));
      EXPECT_TRUE(attrs.capacity > 0 || one == Bytes(one.size()));
    }
  };
  for (const DType type : kTypes) {
    for (const SsdcForm form : kForms) {
      for (const SsdcValues values : kValues) {
        for (const int64_t size : {1, 257, 40003}) {
          for (const int64_t capacity : {int64_t(0), int64_t(1), size / 3, size}) {
            check(size, type, {form, capacity, values});
          }
        }
      }
    }
  }
}

// Memory whose end is the end of what may be touched.
class PageEnd {
 public:
  explicit PageEnd(int64_t bytes) : size_((size_t(bytes) / kPage + 2) * kPage) {
    base_ = static_cast<std::byte*>(
        mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(base_ + size_ - kPage, kPage, PROT_NONE);
    data_ = base_ + size_ - kPage - bytes;
  }
  PageEnd(const PageEnd&) = delete;
  PageEnd& operator=(const PageEnd&) = delete;
  ~PageEnd() { munmap(base_, size_); }
  std::byte* data() const { return data_; }

 private:
  static constexpr size_t kPage = 65536;
  size_t size_;
  std::byte *base_, *data_;
};

void run_kernel(const OpDef& op, const TensorSpec& operand, const Attrs& attrs,
                std::vector<void*> in, std::vector<void*> out) {
  KernelCache cache(cpu_device(1));
  const Specs specs{operand};
  const auto kernel = cache.get(op, specs, infer_specs(op, specs, attrs), attrs);
  std::vector<std::byte> workspace(size_t(kernel->prepared.workspace));
  Queue queue;
  kernel->start({in, out, kernel->in, kernel->out, attrs, nullptr, workspace.data(), queue});
}

TEST(Ssdc, TouchesNothingBehindItsBuffers) {
  for (const DType type : kTypes) {
    for (const SsdcForm form : kForms) {
      for (const SsdcValues values : kValues) {
        for (const int64_t size : {4, 260, 1040, 5004}) {
          const Codes codes = draw(size, type, 0.9, 9);
          for (const int64_t capacity : {nonzeros(codes) / 8 * 4, size}) {
            const SsdcAttrs attrs{form, capacity, values};
            const TensorSpec dense{{size}, type};
            const Bytes bytes = as_bytes(codes, type);
            PageEnd x(dense.bytes()), encoded(ssdc_bytes(attrs, size, type)), count(8);
            std::memcpy(x.data(), bytes.data(), bytes.size());
            run_kernel(ssdc_encode_op, dense, attrs, {x.data()}, {encoded.data(), count.data()});
            PageEnd y(dense.bytes());
            run_kernel(ssdc_decode_op, ssdc_spec(dense, attrs), attrs, {encoded.data()},
                       {y.data()});
            EXPECT_TRUE(capacity < nonzeros(codes) || values != SsdcValues::plain ||
                        std::memcmp(y.data(), x.data(), bytes.size()) == 0);
          }
        }
      }
    }
  }
}

TEST(Ssdc, CountsAlone) {
  for (const DType type : kTypes) {
    for (const int64_t size : kSizes) {
      const Codes x = draw(size, type, 0.4, 7);
      Builder builder;
      builder.output("count", count_nonzeros(builder.input("x", {{size}, type})));
      test::Evaluator eval(builder.take(), {.threads = 2});
      eval.set_bytes(eval.find("x"), as_bytes(x, type));
      eval.run();
      EXPECT_EQ(*eval.as<int32_t>(eval.find("count")), nonzeros(x));
    }
  }
}

// The instructions of AVX-512 where this is compiled for them, and the loops for any processor.
template <class T> void compare_with_portable(DType type) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const Bytes bytes = as_bytes(draw(ssdc::kWord, type, double(seed % 11) / 10, seed), type);
    T x[ssdc::kWord], some[2 * ssdc::kWord] = {}, same[2 * ssdc::kWord] = {};
    std::memcpy(x, bytes.data(), sizeof x);
    const uint64_t mask = ssdc::mask_of_word(x);
    EXPECT_EQ(mask, ssdc::portable::mask_of_word(x));
    const size_t n = size_t(std::popcount(mask));
    ssdc::compress_word(x, mask, some);
    ssdc::portable::compress_word(x, mask, same);
    EXPECT_EQ(std::memcmp(some, same, n * sizeof(T)), 0);
    T back[ssdc::kWord], back_too[ssdc::kWord];
    ssdc::expand_word(some, mask, back);
    ssdc::portable::expand_word(same, mask, back_too);
    EXPECT_EQ(std::memcmp(back, x, sizeof x), 0);
    EXPECT_EQ(std::memcmp(back_too, x, sizeof x), 0);
    uint8_t columns[2 * ssdc::kWord] = {}, columns_too[2 * ssdc::kWord] = {};
    ssdc::columns_of_word(mask, 128, columns);
    ssdc::portable::columns_of_word(mask, 128, columns_too);
    EXPECT_EQ(std::memcmp(columns, columns_too, n), 0);
  }
}
template <class T> void compare_rows_with_portable(DType type) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const Codes codes = draw(kSsdcRow, type, seed < 11 ? double(seed) / 10 : 0.4, seed);
    const Bytes bytes = as_bytes(codes, type);
    T x[kSsdcRow], y[kSsdcRow], z[kSsdcRow];
    std::memcpy(x, bytes.data(), sizeof x);
    // Guards behind what may be read of the columns.
    PageEnd columns(nonzeros(codes));
    ssdc::RowBuffer<T> values{};
    auto* to = reinterpret_cast<uint8_t*>(columns.data());
    int64_t n = 0;
    for (size_t i = 0; i < codes.size(); ++i) {
      if (codes[i]) values.at[n] = x[i], to[n++] = uint8_t(i);
    }
    ssdc::place_row(values.at, to, n, y);
    ssdc::portable::place_row(values.at, to, n, z);
    EXPECT_EQ(std::memcmp(y, x, sizeof x), 0);
    EXPECT_EQ(std::memcmp(z, x, sizeof x), 0);
  }
}
TEST(Ssdc, PortableLoopsGiveTheSameBits) {
  compare_rows_with_portable<float>(DType::f32);
  compare_rows_with_portable<bf16>(DType::bf16);
  compare_with_portable<float>(DType::f32);
  compare_with_portable<bf16>(DType::bf16);
}

}  // namespace
}  // namespace pal
