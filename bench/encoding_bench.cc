// Encoders and decoders beside memcpy, with the same threads: bytes read and written in a second,
// and their part of memcpy's. Each row's kinds take turns, and the best of their times counts, so a
// row compares within itself; what else the machine does shows in all of them. Times are the
// processor's with one thread, else the clock's. Last, relu in place
// and to_bits of its result beside the one operator that does both.
//
//   bench_encoding_bench [THREADS]    1 unless told
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

#include "bench/run_bench.h"
#include "core/parallel.h"
#include "core/prepare.h"
#include "ops/elementwise/activations.h"
#include "ops/encodings/dpr.h"
#include "ops/tensors/casts.h"
#include "ops/tensors/clip_bits.h"

namespace {

using namespace pal;

struct Timed {
  double bytes;  // read and written
  std::function<void()> run;
  double seconds = 1e30;
};

void time_by_turns(std::vector<Timed>& all, int rounds, int threads) {
  for (int round = 0; round < rounds; ++round) {
    for (Timed& one : all) {
      const double begin = seconds_now(threads);
      one.run();
      one.seconds = std::min(one.seconds, seconds_now(threads) - begin);
    }
  }
}

// One node of an operator, from bytes to bytes.
std::function<void()> node_of(KernelCache& cache, const OpDef& op, const Attrs& attrs,
                              const TensorSpec& from, std::byte* in,
                              const std::vector<std::byte*>& out, Queue& queue) {
  const auto kernel = cache.get(op, Specs{from}, infer_specs(op, Specs{from}, attrs), attrs);
  return [=, &queue, outputs = std::vector<void*>(out.begin(), out.end())] {
    void* const input = in;
    kernel->start({.in = {&input, 1},
                   .out = outputs,
                   .in_spec = kernel->in,
                   .out_spec = kernel->out,
                   .attrs = attrs,
                   .state = nullptr,
                   .workspace = nullptr,
                   .queue = queue});
  };
}

void bench_dpr(DType type, int64_t elements, int threads) {
  Queue queue{.workers = threads};
  KernelCache cache(cpu_device(threads));
  const TensorSpec plain{{elements}, type};
  std::vector<std::byte> memory(size_t(3 * (plain.bytes() + kAlignment)));
  auto* x = reinterpret_cast<std::byte*>(align_up(reinterpret_cast<intptr_t>(memory.data())));
  std::byte *packed = x + align_up(plain.bytes()), *y = packed + align_up(plain.bytes());
  for (int64_t i = 0; i < elements; ++i) {
    const float value = float(i * 7919 % 2001 - 1000) / 97;
    if (type == DType::bf16)
      store(reinterpret_cast<bf16*>(x), i, value);
    else
      store(reinterpret_cast<float*>(x), i, value);
  }
  // A whole part for each thread: where parts are large, memcpy writes past the caches.
  const int64_t part = (plain.bytes() + threads - 1) / threads;
  std::vector<Timed> all{{2.0 * double(plain.bytes()), [=, &queue] {
                            parallel_chunks(queue, plain.bytes(), part, [=](int64_t a, int64_t b) {
                              std::memcpy(y + a, x + a, size_t(b - a));
                            });
                          }}};
  for (const Dpr format : kDprFormats) {
    const TensorSpec encoded{plain.shape, type, dpr_layout(format, elements)};
    const double bytes = double(plain.bytes() + encoded.bytes());
    const Attrs attrs = DprAttrs{format};
    all.push_back({bytes, node_of(cache, dpr_encode_op, attrs, plain, x, {packed}, queue)});
    all.push_back({bytes, node_of(cache, dpr_decode_op, attrs, encoded, packed, {y}, queue)});
  }
  time_by_turns(all, int(std::clamp<int64_t>((int64_t(1) << 28) / elements, 15, 200)), threads);
  const double memcpys = all[0].bytes / all[0].seconds;
  std::printf("%8lld %-5s %7.1f", static_cast<long long>(elements), to_string(type), memcpys / 1e9);
  for (size_t k = 1; k < all.size(); ++k)
    std::printf(" %7.2f", all[k].bytes / all[k].seconds / memcpys);
  std::printf("\n");
}

void bench_bits(DType type, int64_t elements, int threads) {
  Queue queue{.workers = threads};
  KernelCache cache(cpu_device(threads));
  const TensorSpec map{{elements}, type};
  const int64_t bits = TensorSpec{map.shape, DType::bit}.bytes();
  std::vector<std::byte> memory(size_t(map.bytes() + bits + 3 * kAlignment));
  auto* x = reinterpret_cast<std::byte*>(align_up(reinterpret_cast<intptr_t>(memory.data())));
  std::byte* kept = x + align_up(map.bytes());
  const double once = 2.0 * double(map.bytes());
  std::vector<Timed> all{
      {once, node_of(cache, relu_op, {}, map, x, {x}, queue)},
      {once / 2 + double(bits), node_of(cache, to_bits_op, BitsAttrs{}, map, x, {kept}, queue)},
      {once + double(bits),
       node_of(cache, clip_bits_op, IntervalAttrs{}, map, x, {x, kept}, queue)}};
  const auto relu = all[0].run, to_bits = all[1].run;
  all.push_back({1.5 * once + double(bits), [=] { relu(), to_bits(); }});
  time_by_turns(all, int(std::clamp<int64_t>((int64_t(1) << 28) / elements, 15, 200)), threads);
  std::printf("%8lld %-5s %7.3f %7.3f %7.3f %7.3f %10.2f\n", static_cast<long long>(elements),
              to_string(type), all[0].seconds * 1e3, all[1].seconds * 1e3, all[3].seconds * 1e3,
              all[2].seconds * 1e3, all[2].seconds / all[3].seconds);
}

int run(int argc, char** argv) {
  const int threads = argc > 1 ? std::max(1, std::atoi(argv[1])) : 1;
  std::printf("threads %d; memcpy in GB/s, the others as a part of it\n", threads);
  std::printf("%8s %-5s %7s %15s %15s %15s\n", "elements", "type", "memcpy", "fp16 enc, dec",
              "fp10 enc, dec", "fp8 enc, dec");
  for (const DType type : {DType::f32, DType::bf16})
    for (const int64_t elements : {int64_t(1) << 20, int64_t(1) << 24})
      bench_dpr(type, elements, threads);
  std::printf("%8s %-5s %7s %7s %7s %7s %10s\n", "elements", "type", "relu", "to_bits", "both",
              "fused", "of both; ms");
  for (const DType type : {DType::f32, DType::bf16})
    for (const int64_t elements : {int64_t(1) << 20, int64_t(1) << 24})
      bench_bits(type, elements, threads);
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return pal::run_bench("encoding_bench", run, argc, argv); }
