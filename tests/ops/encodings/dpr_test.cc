// The precision formats against their definition in double precision: of an f32 the nearest of the
// values that a format has, found by distance. All 2^32 patterns where PAL_TEST_ALL_FLOATS is set
// (some minutes), else one in 997 of them, every exponent, and every border between two values.
#include "ops/encodings/dpr.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "core/builder.h"
#include "core/error.h"
#include "core/names.h"
#include "core/print.h"
#include "ops/encodings/dpr_words.h"
#include "tests/support/eval.h"

namespace pal {
namespace {

using Floats = std::vector<float>;
constexpr float kInf = std::numeric_limits<float>::infinity();

// A format as Gist's section IV-A has it; written without the constants of ops/encodings/dpr.h.
struct Definition {
  int exponent_bits, mantissa_bits, bias, bits;
  std::vector<double> values;  // 0 and the positive ones, by code; no denormals, no infinity

  Definition(int exponent, int mantissa, int bias_)
      : exponent_bits(exponent),
        mantissa_bits(mantissa),
        bias(bias_),
        bits(1 + exponent + mantissa) {
    const int steps = 1 << mantissa;
    for (int e = 1; e < (1 << exponent) - 1; ++e) {
      for (int m = 0; m < steps; ++m) values.push_back(std::ldexp(1 + double(m) / steps, e - bias));
    }
    values.insert(values.begin(), 0);
  }
  uint32_t code_of_value(size_t k) const {  // the exponent-0 codes but for 0 are no values
    return k == 0 ? 0 : uint32_t(k) - 1 + (1u << mantissa_bits);
  }
  uint32_t nan_code() const {  // all ones in the exponent, the first bit of the mantissa
    return ((1u << exponent_bits) - 1) << mantissa_bits | 1u << (mantissa_bits - 1);
  }
  // The value nearest to a magnitude, from value `k` upwards; of two at one distance that with the
  // even mantissa, and of the smallest and 0 that is 0.
  size_t nearest(double magnitude, size_t k = 0) const {
    for (; k + 1 < values.size(); ++k) {
      const double below = std::fabs(magnitude - values[k]);
      const double above = std::fabs(values[k + 1] - magnitude);
      const bool odd = k > 0 && (code_of_value(k) & 1);
      if (!(above < below || (above == below && odd))) break;
    }
    return k;
  }
};

const Definition& definition_of(Dpr format) {
  static const Definition all[] = {{5, 10, 15}, {5, 4, 15}, {4, 3, 7}};
  return all[size_t(format)];
}
constexpr Dpr kFormats[] = {Dpr::fp16, Dpr::fp10, Dpr::fp8};

// The codes of f32s in ascending order of their magnitudes, or in any.
class Reference {
 public:
  explicit Reference(Dpr format) : definition_(definition_of(format)) {}
  uint32_t operator()(float x) {
    const uint32_t sign = std::signbit(x) ? 1u << (definition_.bits - 1) : 0;
    if (std::isnan(x)) return sign | definition_.nan_code();
    const double magnitude = std::fabs(double(x));
    const auto& values = definition_.values;
    if (!(at_ < values.size() && magnitude >= values[at_])) {
      at_ = size_t(std::upper_bound(values.begin(), values.end(), magnitude) - values.begin()) - 1;
    }
    if (magnitude >= values.back()) return sign | definition_.code_of_value(values.size() - 1);
    // The nearest may be above for one x and below for a smaller one: keep the one below.
    while (at_ + 1 < values.size() && values[at_ + 1] <= magnitude) ++at_;
    return sign | definition_.code_of_value(definition_.nearest(magnitude, at_));
  }

 private:
  const Definition& definition_;
  size_t at_ = 0;  // the value at or below the last magnitude
};

double value_of(Dpr format, uint32_t code) {
  const Definition& d = definition_of(format);
  const bool negative = code >> (d.bits - 1) & 1;
  const uint32_t magnitude = code & ((1u << (d.bits - 1)) - 1);
  const uint32_t exponent = magnitude >> d.mantissa_bits;
  const double value = exponent == 0 ? 0
                       : exponent == (1u << d.exponent_bits) - 1
                           ? std::numeric_limits<double>::quiet_NaN()
                           : d.values[magnitude - (1u << d.mantissa_bits) + 1];
  return negative ? -value : value;
}

// The program encode, decode of one operand, and its bytes.
struct RoundTrip {
  test::Evaluator eval;
  ValueId x, packed, y;
  static RoundTrip of(TensorSpec spec, Dpr format, int threads) {
    Builder builder;
    Val x = builder.input("x", std::move(spec));
    Val packed = dpr_encode(x, format), y = dpr_decode(packed);
    builder.output("packed", packed), builder.output("y", y);
    return {test::Evaluator(builder.take(), {.threads = threads}), x.id, packed.id, y.id};
  }
};

// The codes of packed elements, one after the other.
class Codes {
 public:
  Codes(std::span<const std::byte> packed, Dpr format)
      : words_(packed.data()),
        bits_(definition_of(format).bits),
        per_word_(format == Dpr::fp16   ? 2
                  : format == Dpr::fp10 ? 3
                                        : 4) {}
  uint32_t next() {
    if (left_ == 0) std::memcpy(&word_, words_, 4), words_ += 4, left_ = per_word_;
    const uint32_t code = word_ & ((1u << bits_) - 1);
    word_ >>= bits_, --left_;
    return code;
  }

 private:
  const std::byte* words_;
  int bits_, per_word_, left_ = 0;  // left: codes in the word
  uint32_t word_ = 0;
};

std::string hex(uint32_t u) {
  char text[16];
  std::snprintf(text, sizeof text, "0x%08x", u);
  return text;
}

// What is wrong with the codes and values that a round trip gave for x, and with the functions of
// one element; empty: nothing.
std::string first_error(Dpr format, std::span<const float> x, std::span<const std::byte> packed,
                        std::span<const float> y) {
  Reference reference(format);
  Codes codes(packed, format);
  for (size_t i = 0; i < x.size(); ++i) {
    const uint32_t want = reference(x[i]), got = codes.next(), alone = dpr_code(x[i], format);
    const auto what = [&] { return name_of(format) + " of " + hex(float_bits(x[i])); };
    if (got != want || alone != want)
      return what() + " is " + hex(want) + ", not " + hex(got) + " or " + hex(alone);
    const float back = dpr_value(want, format);
    if (float_bits(y[i]) != float_bits(back)) return what() + ": decoded otherwise in a tensor";
    if (std::isnan(x[i]) ? !std::isnan(back) || std::signbit(back) != std::signbit(x[i])
                         : float_bits(back) != float_bits(float(value_of(format, want)))) {
      return what() + " decodes to " + hex(float_bits(back));
    }
  }
  return "";
}

std::string round_trip_error(Dpr format, const Floats& x, int threads = 1) {
  RoundTrip trip = RoundTrip::of({{int64_t(x.size())}}, format, threads);
  std::memcpy(trip.eval.data(trip.x).data(), x.data(), x.size() * sizeof(float));
  trip.eval.run();
  const auto packed = trip.eval.bytes(trip.packed), y = trip.eval.bytes(trip.y);
  Floats values(x.size());
  std::memcpy(values.data(), y.data(), y.size());
  return first_error(format, x, packed, values);
}

// With both signs, and the f32s beside them.
void add_around(Floats& x, float value) {
  for (const float sign : {1.0f, -1.0f}) {
    x.push_back(sign * value);
    x.push_back(sign * std::nextafter(value, kInf));
    x.push_back(sign * std::nextafter(value, -kInf));
  }
}

TEST(Dpr, TheDefinitionHasTheIssuesLimits) {
  const double greatest[] = {65504, 63488, 240}, smallest[] = {0x1p-14, 0x1p-14, 0x1p-6};
  for (const Dpr format : kFormats) {
    EXPECT_EQ(definition_of(format).values.back(), greatest[size_t(format)]);
    EXPECT_EQ(definition_of(format).values[1], smallest[size_t(format)]);
  }
  EXPECT_EQ(Reference(Dpr::fp8)(1), 0x38u);
  EXPECT_EQ(Reference(Dpr::fp8)(-1.0625f), 0xb8u);  // a tie, to even
  EXPECT_EQ(Reference(Dpr::fp8)(1.1875f), 0x3au);   // and upwards
  EXPECT_EQ(Reference(Dpr::fp10)(1), 0xf0u);
  EXPECT_EQ(Reference(Dpr::fp16)(-2), 0xc000u);
}

TEST(Dpr, EveryBorderBetweenTwoValues) {
  for (const Dpr format : kFormats) {
    const auto& values = definition_of(format).values;
    Floats x;
    for (size_t k = 0; k < values.size(); ++k) {
      add_around(x, float(values[k]));
      if (k + 1 < values.size()) add_around(x, float((values[k] + values[k + 1]) / 2));
    }
    const double step = values.back() - values[values.size() - 2];
    for (const double beyond : {values.back() + step / 2, values.back() + step, 2 * values.back(),
                                double(std::numeric_limits<float>::max())}) {
      add_around(x, float(beyond));
    }
    EXPECT_EQ(round_trip_error(format, x), "");
  }
}

TEST(Dpr, EveryExponentAndSpecialValues) {
  Floats x;
  for (uint32_t high = 0; high < 1u << 13; ++high) {  // sign, exponent, four bits
    for (const uint32_t low : {0u, 1u, 0x3ffffu, 0x40000u, 0x40001u, 0x5a5a5u, 0x7ffffu}) {
      x.push_back(bits_float(high << 19 | low));
    }
  }
  for (const uint32_t special :
       {0u, 0x80000000u, 1u, 0x80000001u, 0x007fffffu, 0x807fffffu, 0x7f7fffffu, 0xff7fffffu,
        0x7f800000u, 0xff800000u, 0x7f800001u, 0xff800001u, 0x7fffffffu, 0xffffffffu}) {
    x.push_back(bits_float(special));
  }
  for (const Dpr format : kFormats) {
    for (const int threads : {1, 2}) EXPECT_EQ(round_trip_error(format, x, threads), "");
  }
}

// Many patterns at a time, in the tensor's kernels as in the functions of one element.
TEST(Dpr, EveryPattern) {
  const uint64_t step = std::getenv("PAL_TEST_ALL_FLOATS") ? 1 : 997;
  const uint64_t patterns = ((uint64_t(1) << 32) - 1) / step + 1, part = 1 << 20;
  for (const Dpr format : kFormats) {
    std::vector<std::thread> workers;
    std::vector<std::string> errors(2);
    for (uint64_t worker = 0; worker < errors.size(); ++worker) {
      workers.emplace_back([&, worker] {
        RoundTrip trip = RoundTrip::of({{int64_t(part)}}, format, 1);
        float* x = trip.eval.as<float>(trip.x);
        const float* y = trip.eval.as<float>(trip.y);
        for (uint64_t at = worker * part; at < patterns; at += errors.size() * part) {
          for (uint64_t i = 0; i < part; ++i) {
            const auto u = uint32_t(std::min(at + i, patterns - 1) * step);
            std::memcpy(x + i, &u, sizeof u);
          }
          trip.eval.run_quietly();
          errors[worker] = first_error(format, {x, part}, trip.eval.data(trip.packed), {y, part});
          if (!errors[worker].empty()) return;
        }
      });
    }
    for (std::thread& worker : workers) worker.join();
    for (const std::string& error : errors) EXPECT_EQ(error, "");
  }
}

// Also of exponent 0, which is 0 whatever the mantissa, and of the greatest one, which is NaN.
TEST(Dpr, EveryCodeDecodesToItsDefinitionAndEncodesToItself) {
  for (const Dpr format : kFormats) {
    const Definition& d = definition_of(format);
    size_t themselves = 0;
    for (uint32_t code = 0; code < 1u << d.bits; ++code) {
      const double want = value_of(format, code);
      const float got = dpr_value(code, format);
      EXPECT_EQ(std::signbit(got), (code >> (d.bits - 1)) == 1) << name_of(format) << " " << code;
      if (std::isnan(want)) {
        EXPECT_TRUE(std::isnan(got)) << name_of(format) << " " << code;
      } else {
        EXPECT_EQ(got, float(want)) << name_of(format) << " " << code;
      }
      const uint32_t magnitude = code & ~(1u << (d.bits - 1));
      const uint32_t exponent = magnitude >> d.mantissa_bits;
      const bool has_value = (exponent > 0 && exponent < (1u << d.exponent_bits) - 1) ||
                             magnitude == 0 || magnitude == d.nan_code();
      EXPECT_EQ(dpr_code(got, format) == code, has_value) << name_of(format) << " " << code;
      themselves += has_value;
    }
    EXPECT_EQ(themselves, 2 * d.values.size() + 2);
  }
}

// bf16 has kernels of its own: each of its values, and each code.
TEST(Dpr, Bf16IsRoundedAsItsF32) {
  for (const Dpr format : kFormats) {
    constexpr int64_t kAll = 65536;
    RoundTrip trip = RoundTrip::of({{kAll}, DType::bf16}, format, 2);
    auto* x = trip.eval.as<uint16_t>(trip.x);
    for (int64_t i = 0; i < kAll; ++i) x[i] = uint16_t(i);
    trip.eval.run();
    const auto packed = trip.eval.bytes(trip.packed);
    const auto* y = trip.eval.as<uint16_t>(trip.y);
    Reference reference(format);
    Codes codes(packed, format);
    for (int64_t i = 0; i < kAll; ++i) {
      const uint32_t want = reference(bits_float(uint32_t(i) << 16));
      ASSERT_EQ(codes.next(), want) << name_of(format) << " of bf16 " << i;
      const bf16 back = from_float<bf16>(dpr_value(want, format));
      ASSERT_EQ(y[i], back.bits) << name_of(format) << " of bf16 " << i;
    }
  }
}

TEST(Dpr, EveryCodeDecodesToBf16) {
  for (const Dpr format : kFormats) {
    const uint32_t codes = 1u << definition_of(format).bits;
    Builder builder;
    const Layout layout = dpr_layout(format, int64_t(codes));
    Val packed = builder.input("packed", {{int64_t(codes)}, DType::bf16, layout});
    builder.output("y", dpr_decode(packed));
    test::Evaluator eval(builder.take());
    auto* words = eval.as<uint32_t>(packed.id);
    const int per_word = dpr_per_word(format), bits = dpr_bits(format);
    for (uint32_t w = 0; w < uint32_t(layout->bytes / 4); ++w) words[w] = 0;
    for (uint32_t c = 0; c < codes; ++c)
      words[c / uint32_t(per_word)] |= c << (c % uint32_t(per_word) * uint32_t(bits));
    eval.run();
    const auto* y = eval.as<uint16_t>(eval.find("y"));
    for (uint32_t c = 0; c < codes; ++c)
      ASSERT_EQ(y[c], from_float<bf16>(dpr_value(c, format)).bits) << name_of(format) << " " << c;
  }
}

// Sizes about words, steps of the loops, and chunks; bits that are no element are zero.
TEST(Dpr, EverySizeAndAnyThreadsGiveTheSameBytes) {
  for (const Dpr format : kFormats) {
    for (const DType type : {DType::f32, DType::bf16}) {
      for (const int64_t n :
           {1, 2, 3, 4, 5, 7, 11, 13, 191, 193, 255, 257, 769, 12287, 12289, 49999}) {
        Floats x(static_cast<size_t>(n));
        for (size_t i = 0; i < x.size(); ++i) {
          x[i] = -1.75f + float(i % 97);
          if (type == DType::bf16) x[i] = to_float(from_float<bf16>(x[i]));
        }
        std::vector<std::byte> first;
        for (const int threads : {1, 2, 3}) {
          RoundTrip trip = RoundTrip::of({{n}, type}, format, threads);
          trip.eval.set(trip.x, x);
          trip.eval.run();  // onto bytes of ones
          const auto packed = trip.eval.bytes(trip.packed);
          if (first.empty()) first = packed;
          EXPECT_TRUE(packed == first) << n << " with " << threads << " threads";
        }
        std::vector<std::byte> want(size_t(dpr_bytes(format, n)));
        const int64_t per_word = format == Dpr::fp16 ? 2 : format == Dpr::fp10 ? 3 : 4;
        ASSERT_EQ(int64_t(want.size()), (n + per_word - 1) / per_word * 4);
        for (int64_t i = 0; i < n; ++i) {
          const uint32_t code = dpr_code(x[size_t(i)], format);
          uint32_t word;
          std::memcpy(&word, &want[size_t(i / per_word * 4)], 4);
          word |= code << (i % per_word * definition_of(format).bits);
          std::memcpy(&want[size_t(i / per_word * 4)], &word, 4);
        }
        EXPECT_TRUE(first == want) << name_of(format) << " of " << n;
        if (type != DType::f32) continue;
        std::vector<std::byte> packed(want.size());
        dpr_pack(format, x.data(), n, packed.data());
        EXPECT_TRUE(packed == want) << name_of(format) << " of " << n;
        Floats back(x.size());
        dpr_unpack(format, packed.data(), n, back.data());
        for (size_t i = 0; i < x.size(); ++i)
          ASSERT_EQ(back[i], dpr_value(dpr_code(x[i], format), format)) << i;
      }
    }
  }
}

TEST(Dpr, SpecsAndPrint) {
  Builder builder;
  Val x = builder.input("x", {{5, 7}, DType::bf16});
  Val packed = dpr_encode(x, Dpr::fp10);
  EXPECT_EQ(to_string(packed.spec()), "bf16[5,7]:fp10");
  EXPECT_EQ(packed.spec().bytes(), 48);
  Val y = dpr_decode(packed);
  EXPECT_EQ(y.spec(), x.spec());
  builder.output("y", y);
  const Program program = builder.take();
  EXPECT_NE(print_node(program, 0).find("dpr_encode(%0) bits=10 : bf16[5,7]:fp10"),
            std::string::npos)
      << print_node(program, 0);
}

TEST(Dpr, RefusesWhatItCannotTake) {
  Builder builder;
  auto refused = [](auto f, const std::string& why) {
    try {
      f();
      ADD_FAILURE() << "not refused: " << why;
    } catch (const ProgramError& error) {
      EXPECT_NE(std::string(error.what()).find(why), std::string::npos) << error.what();
    }
  };
  Val x = builder.input("x", {{6}});
  Val packed = dpr_encode(x, Dpr::fp8);
  refused([&] { dpr_encode(packed, Dpr::fp8); }, "[dpr_encode] f32[6]:fp8: not plain");
  refused([&] { dpr_decode(x); }, "[dpr_decode] f32[6]: not encoded");
  refused([&] { dpr_encode(builder.input("none", {{0, 3}}), Dpr::fp8); }, "has no elements");
  refused([&] { dpr_encode(builder.input("i", {{6}, DType::u8}), Dpr::fp8); }, "not f32 or bf16");
  refused([&] { builder.emit1(dpr_decode_op, {packed}, DprAttrs{Dpr::fp10}); },
          "not encoded as fp10");
  Val other = builder.input("other", {{9}, DType::f32, dpr_layout(Dpr::fp8, 6)});
  refused([&] { dpr_decode(other); }, "not encoded as fp8");
}

// In vectors where this is compiled for them, and a word at a time.
TEST(Dpr, PacksThreeToAWordInVectorsAsOneByOne) {
  constexpr int64_t kMost = dpr_words::kMost, kRoom = kMost + dpr_words::kBehind;
  std::vector<uint16_t> codes(kRoom), back(kRoom), back_too(kRoom);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = uint16_t(i * 7919 % 1024);
  for (int64_t n = 0; n <= kMost; n += 3) {
    std::vector<std::byte> words(size_t(n / 3 * 4)), words_too(words.size());
    dpr_words::pack(codes.data(), n, words.data());
    dpr_words::portable::pack(codes.data(), n, words_too.data());
    ASSERT_EQ(words, words_too) << n;
    for (std::byte& byte : words) byte |= std::byte{0x80};  // the idle bits too
    dpr_words::unpack(words.data(), n, back.data());
    dpr_words::portable::unpack(words.data(), n, back_too.data());
    ASSERT_TRUE(std::equal(back.begin(), back.begin() + n, back_too.begin())) << n;
  }
}

}  // namespace
}  // namespace pal
