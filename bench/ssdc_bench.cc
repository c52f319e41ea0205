// Sparse encodings beside memcpy: bytes of the dense and the encoded tensor over the time that one
// encoding or decoding takes, as a part of memcpy's bytes read and written, with the same threads
// in the same run. The sides take turns; the best of several times counts: the processor's with one
// thread, else the clock's.
//
//   bench_ssdc_bench [ELEMENTS [THREADS]]     default: 2^24 elements, all threads
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "bench/run_bench.h"
#include "core/prepare.h"
#include "ops/encodings/ssdc.h"
#include "ops/kernels/tiles.h"

namespace pal {
namespace {

constexpr int kRounds = 15;

double seconds_of(int threads, auto&& f) {
  const double start = seconds_now(threads);
  f();
  return seconds_now(threads) - start;
}

// A node's kernel with its bytes, started again and again.
struct Call {
  std::shared_ptr<const Kernel> kernel;
  Attrs attrs;
  std::vector<void*> in, out;
  std::vector<std::byte> workspace;
  Queue queue;

  Call(KernelCache& cache, const OpDef& op, TensorSpec operand, const SsdcAttrs& a, int threads)
      : attrs(a), queue{.workers = threads} {
    const Specs specs{std::move(operand)};
    kernel = cache.get(op, specs, infer_specs(op, specs, attrs), attrs);
    workspace.resize(size_t(kernel->prepared.workspace));
  }
  void run() {
    kernel->start({in, out, kernel->in, kernel->out, attrs, nullptr, workspace.data(), queue});
  }
};

void measure(DType type, int64_t elements, SsdcForm form, double density, int threads) {
  const TensorSpec dense{{elements}, type};
  std::vector<std::byte> x(size_t(dense.bytes())), y(x.size());
  std::mt19937_64 rng(1);
  const auto least = uint64_t(density * 4294967296.0);
  const size_t size = size_t(bits(type) / 8);
  int64_t nonzeros = 0;
  for (int64_t i = 0; i < elements; ++i) {
    const bool stored = (rng() >> 32) < least;
    if (stored) std::memset(x.data() + size_t(i) * size, 0x3f, size);
    nonzeros += stored;
  }
  const SsdcAttrs attrs{form, nonzeros};
  KernelCache cache(cpu_device(threads));
  Call encode(cache, ssdc_encode_op, dense, attrs, threads);
  Call decode(cache, ssdc_decode_op, encode.kernel->out[0], attrs, threads);
  std::vector<std::byte> encoded(size_t(encode.kernel->out[0].bytes()));
  std::array<int32_t, 2> count{};  // and the capacity
  encode.in = {x.data()}, encode.out = {encoded.data(), count.data()};
  decode.in = {encoded.data()}, decode.out = {y.data()};
  double copy_time = 1e9, encode_time = 1e9, decode_time = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    copy_time = std::min(copy_time, seconds_of(threads, [&] {
                           copy_bytes(encode.queue, y.data(), x.data(), dense.bytes());
                         }));
    encode_time = std::min(encode_time, seconds_of(threads, [&] { encode.run(); }));
    decode_time = std::min(decode_time, seconds_of(threads, [&] { decode.run(); }));
  }
  if (x != y || count[0] != nonzeros) std::printf("WRONG: ");
  const double copied = 2 * double(dense.bytes()) / copy_time;
  const double moved = double(x.size() + encoded.size());
  std::printf("%-5s %-5s %8.1f %10.2f %12.1f %10.2f %10.2f\n", to_string(type),
              form == SsdcForm::csr ? "csr" : "mask", density,
              double(encoded.size()) / double(x.size()), copied / 1e9, moved / encode_time / copied,
              moved / decode_time / copied);
}

int run(int argc, char** argv) {
  const int64_t elements = argc > 1 ? std::atoll(argv[1]) : int64_t(1) << 24;
  const int threads = cpu_device(argc > 2 ? std::atoi(argv[2]) : 0).threads;
  std::printf("%lld elements, %d threads; encode and decode as a part of memcpy's bytes/s\n",
              static_cast<long long>(elements), threads);
  std::printf("type  form   density   encoded  memcpy GB/s     encode     decode\n");
  for (const DType type : {DType::f32, DType::bf16}) {
    for (const SsdcForm form : {SsdcForm::csr, SsdcForm::mask}) {
      for (const double density : {0.1, 0.3, 0.5, 0.9}) {
        measure(type, elements, form, density, threads);
      }
    }
  }
  return 0;
}

}  // namespace
}  // namespace pal

int main(int argc, char** argv) { return pal::run_bench("ssdc_bench", pal::run, argc, argv); }
