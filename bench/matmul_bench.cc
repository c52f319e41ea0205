// matmul at the shapes of the LSTM NMT, in GFLOP/s: forward, data gradient (tb) and weight gradient
// (ta), with and without a sum to add to, and with the weights packed beforehand.
#include <benchmark/benchmark.h>

#include <cstring>
#include <vector>

#include "core/prepare.h"
#include "ops/products/matmul.h"
#include "ops/tensors/reorder.h"

namespace {

using namespace pal;

// 64-byte aligned floats, all of them touched.
struct Floats {
  explicit Floats(int64_t bytes) : memory(size_t(bytes) + kAlignment, std::byte{0x3c}) {
    at = memory.data() + (kAlignment - int64_t(uintptr_t(memory.data()) % kAlignment)) % kAlignment;
  }
  std::vector<std::byte> memory;
  std::byte* at;
};

// state: M, N, K, ta, tb, sum (0, 1), packed (0, 1)
void matmul(benchmark::State& state) {
  const int64_t m = state.range(0), n = state.range(1), k = state.range(2);
  const bool ta = state.range(3), tb = state.range(4), sum = state.range(5),
             packed = state.range(6);
  KernelCache cache(cpu_device());
  const Attrs attrs = MatmulAttrs{ta, tb};
  Specs in{{ta ? Shape{k, m} : Shape{m, k}},
           {tb ? Shape{n, k} : Shape{k, n}},
           sum ? TensorSpec{{m, n}} : TensorSpec{}};
  const Specs out{{{m, n}}};
  if (packed) {
    const auto plain = cache.get(matmul_op, in, out, attrs);
    const auto& preferred = plain->prepared.preferred;
    if (preferred.size() < 2 || !preferred[1]) return state.SkipWithError("packs nothing");
    in[1].layout = preferred[1];
  }
  const auto kernel = cache.get(matmul_op, in, out, attrs);
  Floats a(in[0].bytes()), b(in[1].bytes()), c(out[0].bytes()), w(kernel->prepared.workspace);
  void* const ins[] = {a.at, b.at, sum ? c.at : nullptr};
  void* const outs[] = {c.at};
  Queue queue{.workers = cache.device().threads};
  const KernelArgs args{ins,  outs, kernel->in, kernel->out, attrs, kernel->prepared.state.get(),
                        w.at, queue};
  for (auto _ : state) kernel->run(args);
  state.counters["GFLOP/s"] =
      benchmark::Counter(2e-9 * double(m) * double(n) * double(k) * double(state.iterations()),
                         benchmark::Counter::kIsRate);
}

void shapes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"M", "N", "K", "ta", "tb", "sum", "packed"});
  for (int64_t rows : {32, 64, 128}) {  // a time step's gates: x·W, dy·Wᵀ, xᵀ·dy
    for (int64_t sum : {0, 1}) {
      for (int64_t packed : {0, 1}) {
        if (packed && rows > 64) continue;  // no packed format is asked for
        bench->Args({rows, 2048, 512, 0, 0, sum, packed});
        bench->Args({rows, 512, 2048, 0, 1, sum, packed});
      }
      bench->Args({rows, 2048, 1024, 0, 0, sum, 0});
      bench->Args({512, 2048, rows, 1, 0, sum, 0});
    }
  }
  for (int64_t sum : {0, 1}) {  // the whole sequence: 30 steps of 128
    bench->Args({3840, 2048, 512, 0, 0, sum, 0});
    bench->Args({512, 2048, 3840, 1, 0, sum, 0});
    bench->Args({3840, 17192, 512, 0, 0, sum, 0});  // the vocabulary and its two gradients
    bench->Args({3840, 512, 17192, 0, 1, sum, 0});
    bench->Args({512, 17192, 3840, 1, 0, sum, 0});
  }
}
BENCHMARK(matmul)->Apply(shapes)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
