// Sparse encodings as types: their bytes, their names, and what has none.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "core/builder.h"
#include "core/error.h"
#include "ops/encodings/ssdc.h"
#include "tests/ops/encodings/ssdc_kinds.h"

namespace pal {
namespace {

// Gist, §IV-A: csr is smaller than the tensor above 20 % zeros.
TEST(Ssdc, BreaksEvenWhereItsFormsSay) {
  const int64_t n = 1 << 20;
  auto bytes = [&](SsdcForm form, DType type, double zeros) {
    return double(ssdc_bytes({form, int64_t(double(n) * (1 - zeros))}, n, type)) /
           double(n * bits(type) / 8);
  };
  auto even_at = [&](SsdcForm form, DType type, double zeros) {
    EXPECT_GT(bytes(form, type, zeros - 0.001), 1) << int(form) << to_string(type);
    EXPECT_LT(bytes(form, type, zeros + 0.001), 1) << int(form) << to_string(type);
  };
  even_at(SsdcForm::csr, DType::f32, 0.203);
  even_at(SsdcForm::csr, DType::bf16, 0.339);
  even_at(SsdcForm::mask, DType::f32, 0.035);
  even_at(SsdcForm::mask, DType::bf16, 0.070);
  for (const DType type : kTypes) {
    EXPECT_LT(bytes(SsdcForm::mask, type, 0.874), bytes(SsdcForm::csr, type, 0.874));
    EXPECT_GT(bytes(SsdcForm::mask, type, 0.876), bytes(SsdcForm::csr, type, 0.876));
  }
  // And than the tensor in that format, whose values it stores.
  for (const auto& [format, zeros] :
       {std::pair{Dpr::fp16, 0.339}, {Dpr::fp10, 0.435}, {Dpr::fp8, 0.508}}) {
    auto part = [&, f = format](double z) {
      const auto capacity = int64_t(double(n) * (1 - z));
      return double(ssdc_bytes({SsdcForm::csr, capacity, ssdc_values(f)}, n, DType::f32)) /
             double(dpr_bytes(f, n));
    };
    EXPECT_GT(part(zeros - 0.001), 1);
    EXPECT_LT(part(zeros + 0.001), 1);
  }
  EXPECT_EQ(ssdc_bytes({SsdcForm::csr, 100}, 257, DType::f32), 8 + 400 + 100);
  EXPECT_EQ(ssdc_bytes({SsdcForm::mask, 100}, 257, DType::bf16), 8 + 64 + 200);
}

TEST(Ssdc, NamesWhatItIs) {
  const TensorSpec dense{{3, 50}, DType::bf16};
  const char* const tags[2][4] = {{"csr:123", "csr:123:fp16", "csr:123:fp10", "csr:123:fp8"},
                                  {"mask:123", "mask:123:fp16", "mask:123:fp10", "mask:123:fp8"}};
  for (const SsdcForm form : kForms) {
    for (const SsdcValues values : kValues) {
      const TensorSpec encoded = ssdc_spec(dense, {form, 123, values});
      EXPECT_EQ(encoded.layout->tag, tags[int(form)][int(values)]);
      const auto attrs = ssdc_attrs(encoded);
      ASSERT_TRUE(attrs.has_value());
      EXPECT_TRUE(attrs->fields() == (SsdcAttrs{form, 123, values}).fields());
    }
  }
  EXPECT_FALSE(ssdc_attrs(dense).has_value());
  for (const char* tag : {"ABcd16b16a", "csr", "csr:", "csr:x", "csr:1x", "csr:-", "mask:1:fp7",
                          ":1", "fp8", "csr:01"}) {
    TensorSpec other = dense;
    other.layout = std::make_shared<const BlockedLayout>(BlockedLayout{tag, 64, nullptr});
    EXPECT_FALSE(ssdc_attrs(other).has_value()) << tag;
  }
}

TEST(Ssdc, RefusesWhatItCannotStore) {
  Builder builder;
  const Val x = builder.input("x", {{10}});
  EXPECT_THROW(ssdc_encode(x, {SsdcForm::csr, 11}), ProgramError);
  EXPECT_THROW(ssdc_encode(x, {SsdcForm::csr, -1}), ProgramError);
  EXPECT_THROW(ssdc_encode(builder.input("i", {{10}, DType::i32}), {}), ProgramError);
  EXPECT_THROW(ssdc_encode(ssdc_encode(x, {}).encoded, {}), ProgramError);
  EXPECT_THROW(count_nonzeros(builder.input("b", {{10}, DType::bit})), ProgramError);
  EXPECT_THROW(ssdc_decode(x), ProgramError);
  TensorSpec wrong = ssdc_spec({{10}}, {SsdcForm::csr, 5});
  wrong.shape = {600};
  EXPECT_THROW(ssdc_decode(builder.input("w", wrong)), ProgramError);
}

}  // namespace
}  // namespace pal
