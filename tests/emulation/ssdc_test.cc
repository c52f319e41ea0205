// Sparse encodings on the emulated GPU: the CPU's bytes for what the operators' examples, whose
// elements are drawn alike, cannot have: rows of any density, and encodings that an encoder wrote.
#include "ops/encodings/ssdc.h"

#include <gtest/gtest.h>

#include <random>

#include "core/accelerator.h"
#include "core/builder.h"
#include "tests/emulation/emulation.h"
#include "tests/support/eval.h"

namespace pal::test {
namespace {

using emulation::Order;
using Bytes = std::vector<std::byte>;

struct SsdcCase {
  TensorSpec dense;
  SsdcAttrs attrs;
  Bytes x;
};

// Encoding, count and decoded tensor.
std::vector<Bytes> outputs_of(const SsdcCase& c, const Device& device) {
  Builder builder;
  const Val x = builder.input("x", c.dense);
  const Ssdc node = ssdc_encode(x, c.attrs);
  builder.output("encoded", node.encoded);
  builder.output("count", node.count);
  builder.output("alone", count_nonzeros(x));
  builder.output("decoded", ssdc_decode(node.encoded));
  KernelCache cache(device);
  Evaluator eval(builder.take(), {.cache = &cache});
  eval.set_bytes(eval.find("x"), c.x);
  eval.run();
  std::vector<Bytes> out;
  for (const char* name : {"encoded", "count", "alone", "decoded"}) {
    out.push_back(eval.bytes(eval.find(name)));
  }
  return out;
}

SsdcCase draw_case(int64_t size, DType type, SsdcForm form, SsdcValues values, double density,
                   double room) {
  SsdcCase c{.dense = {{size}, type}};
  c.x.resize(size_t(c.dense.bytes()));
  const size_t bytes = size_t(bits(type) / 8);
  std::mt19937_64 rng{uint64_t(size)};
  int64_t nonzeros = 0;
  for (size_t i = 0; i < size_t(size); ++i) {
    // Stretches without any nonzero, too.
    if (i / 700 % 3 == 1 || double(rng() >> 11) >= density * 0x1p53) continue;
    const bool minus_zero = i % 5 == 0;
    for (size_t k = 0; k < bytes; ++k) {
      c.x[i * bytes + k] = minus_zero ? std::byte{0} : std::byte(rng() | 1);
    }
    if (minus_zero) c.x[i * bytes + bytes - 1] = std::byte{0x80};
    ++nonzeros;
  }
  c.attrs = {form, std::min(size, int64_t(double(nonzeros) * room)), values};
  return c;
}

void expect_bytes_of_the_cpu(const SsdcCase& c, const Device& gpu) {
  const auto wanted = outputs_of(c, cpu_device(2));
  for (const Order order : {Order::forward, Order::shuffled}) {
    emulation::settings().order = order;
    EXPECT_TRUE(outputs_of(c, gpu) == wanted)
        << to_string(ssdc_spec(c.dense, c.attrs)) << ", order " << int(order);
    emulation::settings() = {};
  }
}

TEST(SsdcOnGpu, GivesTheBytesOfTheCpu) {
  emulation::settings() = {};
  std::shared_ptr<Accelerator> accelerator;
  try {
    accelerator = cuda_device().accelerator;
  } catch (const std::exception&) {
    GTEST_SKIP() << "there is no GPU";
  }
  const Device gpu{.kind = DeviceKind::cuda, .accelerator = accelerator};
  for (const DType type : {DType::f32, DType::bf16}) {
    for (const SsdcForm form : {SsdcForm::csr, SsdcForm::mask}) {
      for (const double room : {0.4, 1.0, 1.3}) {
        for (const int64_t size : {1, 257, 16387 + 256}) {
          expect_bytes_of_the_cpu(draw_case(size, type, form, SsdcValues::plain, 0.6, room), gpu);
        }
        for (const SsdcValues values : {SsdcValues::fp16, SsdcValues::fp10, SsdcValues::fp8}) {
          expect_bytes_of_the_cpu(draw_case(4003, type, form, values, 0.6, room), gpu);
        }
      }
    }
  }
}

// The block that adds up the chunks' counts has fewer threads than there are chunks.
TEST(SsdcOnGpu, OfManyChunksGivesTheBytesOfTheCpu) {
  emulation::settings() = {};
  Device gpu;
  try {
    gpu = cuda_device();
  } catch (const std::exception&) {
    GTEST_SKIP() << "there is no GPU";
  }
  const SsdcCase c =
      draw_case(257 * 16384 + 1, DType::bf16, SsdcForm::mask, SsdcValues::plain, 0.1, 1);
  const auto encoded = [&](const Device& device) {
    Builder builder;
    builder.output("encoded", ssdc_encode(builder.input("x", c.dense), c.attrs).encoded);
    KernelCache cache(device);
    Evaluator eval(builder.take(), {.cache = &cache});
    eval.set_bytes(eval.find("x"), c.x);
    eval.run();
    return eval.bytes(eval.find("encoded"));
  };
  EXPECT_TRUE(encoded(gpu) == encoded(cpu_device(2)));
}

}  // namespace
}  // namespace pal::test
