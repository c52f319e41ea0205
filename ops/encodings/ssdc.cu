// Sparse encodings on a GPU, without atomics: a block counts the nonzeros of a chunk of rows, one
// block adds the counts up, and then a block writes a chunk where it belongs. A warp has a row, 32
// elements at a time, whose mask is a ballot. The bytes are the CPU's.
#include "ops/encodings/ssdc.h"
#include "ops/kernels/cuda_elements.h"

namespace pal {
namespace {

constexpr int64_t kSsdcChunkRows = 64;
constexpr int kSsdcWarps = kThreads / kWarp;
constexpr int kSsdcSteps = int(kSsdcRow) / kWarp;  // of a warp over a row
static_assert(kSsdcChunkRows * kSsdcRow == kElementGrain && kSsdcRow % kWarp == 0);

__device__ inline bool is_stored(float x) { return float_bits(x) != 0; }
__device__ inline bool is_stored(bf16 x) { return x.bits != 0; }

// Words of an encoding, which of a bf16 tensor may begin between two words.
__device__ inline uint32_t load_word(const unsigned char* p) {
  if (reinterpret_cast<uintptr_t>(p) % 4 == 0) return *reinterpret_cast<const uint32_t*>(p);
  const uint16_t* half = reinterpret_cast<const uint16_t*>(p);
  return half[0] | uint32_t(half[1]) << 16;
}
__device__ inline void store_word(unsigned char* p, uint32_t word) {
  if (reinterpret_cast<uintptr_t>(p) % 4 == 0) {
    *reinterpret_cast<uint32_t*>(p) = word;
    return;
  }
  uint16_t* half = reinterpret_cast<uint16_t*>(p);
  half[0] = uint16_t(word), half[1] = uint16_t(word >> 16);
}

// An encoding as kernels see it: its sections, and no mask or no columns.
struct SsdcBytes {
  unsigned char *ends, *mask, *values, *columns;
  int64_t elements, rows, capacity;

  __device__ int64_t end(int64_t row) const { return int32_t(load_word(ends + 4 * row)); }
  // Within the capacity, whatever the bytes are.
  __device__ int64_t begin(int64_t row) const {
    const int64_t at = row ? end(row - 1) : 0;
    return at < 0 ? 0 : at < capacity ? at : capacity;
  }
  __device__ unsigned char* mask_word(int64_t row, int step) const {
    return mask + (row * kSsdcSteps + step) * 4;
  }
};

SsdcBytes ssdc_bytes_of(const KernelArgs& a, void* data, int64_t elements, DType type) {
  const auto& attrs = a.attrs.as<SsdcAttrs>();
  const SsdcSections at = ssdc_sections(attrs, elements, type);
  auto* bytes = static_cast<unsigned char*>(data);
  const bool masked = attrs.form == SsdcForm::mask;
  return {bytes,
          masked ? bytes + at.mask : nullptr,
          bytes + at.values,
          masked ? nullptr : bytes + at.columns,
          elements,
          at.rows,
          attrs.capacity};
}

// How values are stored. `slots` has room for those of the capacity, up to a whole word.
template <class T> struct PlainSlots {
  T* values;
  int64_t slots;
  __device__ void put(int64_t i, T value) const { values[i] = value; }
  __device__ T get(int64_t i) const { return values[i]; }
  __device__ void clear(int64_t i) const { values[i] = T{}; }
};
template <class T, Dpr F> struct RoundedSlots {
  using Code = DprCode<F>;
  Code* codes;
  int64_t slots;
  __device__ void put(int64_t i, T value) const { codes[i] = Code(dpr_code(to_float(value), F)); }
  __device__ T get(int64_t i) const { return from_float<T>(dpr_value(codes[i], F)); }
  __device__ void clear(int64_t i) const { codes[i] = 0; }
};
// Three to a word: first they stand apart, in the workspace; ssdc_pack_kernel puts them together.
template <class T> struct RoundedSlots<T, Dpr::fp10> {
  unsigned char* words;
  int64_t slots;
  uint16_t* codes;  // null where an encoding is read
  __device__ void put(int64_t i, T value) const {
    codes[i] = uint16_t(dpr_code(to_float(value), Dpr::fp10));
  }
  __device__ T get(int64_t i) const {
    const int64_t word = i / 3;
    const uint32_t code = load_word(words + 4 * word) >> 10 * (i - 3 * word) & 1023;
    return from_float<T>(dpr_value(code, Dpr::fp10));
  }
  __device__ void clear(int64_t i) const { codes[i] = 0; }
};
__global__ void ssdc_pack_kernel(unsigned char* words, int64_t count, const uint16_t* codes) {
  const int64_t w = thread_number();
  if (w >= count) return;
  const uint16_t* three = codes + 3 * w;
  store_word(words + 4 * w, three[0] | uint32_t(three[1]) << 10 | uint32_t(three[2]) << 20);
}

// Calls f(slots); `codes`: what FP10 needs to write, ssdc_codes_bytes of it.
template <class T, class F>
void by_slots(SsdcValues values, const SsdcBytes& bytes, uint16_t* codes, F f) {
  auto rounded = [&](auto format) {
    constexpr Dpr kFormat = format();
    const int64_t slots = dpr_bytes(kFormat, bytes.capacity) / 4 * dpr_per_word(kFormat);
    if constexpr (kFormat == Dpr::fp10) {
      f(RoundedSlots<T, kFormat>{bytes.values, slots, codes});
    } else {
      using Code = typename RoundedSlots<T, kFormat>::Code;
      f(RoundedSlots<T, kFormat>{reinterpret_cast<Code*>(bytes.values), slots});
    }
  };
  if (const std::optional<Dpr> format = ssdc_format(values)) return by_dpr(*format, rounded);
  f(PlainSlots<T>{reinterpret_cast<T*>(bytes.values), bytes.capacity});
}

// The lane's element of a row; zero behind the last.
template <class T> __device__ T element_of(const T* x, int64_t i, int64_t elements) {
  return i < elements ? x[i] : T{};
}

// A block for each chunk: its nonzeros, and, where `ends` is there, those of each row.
template <class T>
__global__ void ssdc_count_kernel(const T* x, int64_t elements, int64_t rows, int32_t* chunks,
                                  unsigned char* ends) {
  int32_t* sums = shared_memory<int32_t>();
  const int64_t first = int64_t(blockIdx.x) * kSsdcChunkRows;
  const int64_t last = first + kSsdcChunkRows < rows ? first + kSsdcChunkRows : rows;
  int32_t sum = 0;
  for (int64_t r = first + warp_number(); r < last; r += kSsdcWarps) {
    int32_t n = 0;
    for (int step = 0; step < kSsdcSteps; ++step) {
      const int64_t i = r * kSsdcRow + step * kWarp + lane_number();
      n += __popc(__ballot_sync(~0u, is_stored(element_of(x, i, elements))));
    }
    if (ends && lane_number() == 0) store_word(ends + 4 * r, uint32_t(n));
    sum += n;
  }
  if (lane_number() == 0) sums[warp_number()] = sum;
  __syncthreads();
  if (threadIdx.x) return;
  int32_t total = 0;
  for (int w = 0; w < kSsdcWarps; ++w) total += sums[w];
  chunks[blockIdx.x] = total;
}

// One block: where each chunk begins in place of its count, and the sum of all, with the capacity
// behind it where there is one.
__global__ void ssdc_sum_kernel(int32_t* chunks, int64_t count, int32_t* total, int64_t capacity) {
  int32_t* sums = shared_memory<int32_t>();
  const int64_t each = (count + blockDim.x - 1) / blockDim.x;
  const int64_t begin = threadIdx.x * each;
  const int64_t end = begin + each < count ? begin + each : count;
  int32_t sum = 0;
  for (int64_t c = begin; c < end; ++c) sum += chunks[c];
  sums[threadIdx.x] = sum;
  __syncthreads();
  int32_t before = 0;
  for (unsigned t = 0; t < threadIdx.x; ++t) before += sums[t];
  if (total && threadIdx.x == blockDim.x - 1) {
    total[0] = before + sum;
    if (capacity >= 0) total[1] = int32_t(capacity);
  }
  for (int64_t c = begin; c < end; ++c) {
    const int32_t n = chunks[c];
    chunks[c] = before;
    before += n;
  }
}

// A block for each chunk, whose rows' ends are counts before, and ends after.
template <class T, class S>
__global__ void ssdc_write_kernel(const T* x, SsdcBytes to, S slots, const int32_t* chunks) {
  int32_t* starts = shared_memory<int32_t>();  // of the chunk's rows
  const int64_t first = int64_t(blockIdx.x) * kSsdcChunkRows;
  const int64_t here = to.rows - first < kSsdcChunkRows ? to.rows - first : kSsdcChunkRows;
  if (threadIdx.x < here) starts[threadIdx.x + 1] = int32_t(to.end(first + threadIdx.x));
  __syncthreads();
  if (threadIdx.x == 0) {
    starts[0] = chunks[blockIdx.x];
    for (int64_t r = 0; r < here; ++r) starts[r + 1] += starts[r];
  }
  __syncthreads();
  if (threadIdx.x < here) {
    const int64_t end = starts[threadIdx.x + 1];
    store_word(to.ends + 4 * (first + threadIdx.x),
               uint32_t(end < to.capacity ? end : to.capacity));
  }
  for (int64_t r = warp_number(); r < here; r += kSsdcWarps) {
    int64_t at = starts[r];
    for (int step = 0; step < kSsdcSteps; ++step) {
      const int column = step * kWarp + lane_number();
      const T value = element_of(x, (first + r) * kSsdcRow + column, to.elements);
      const unsigned stored = __ballot_sync(~0u, is_stored(value));
      const int64_t i = at + __popc(stored & ((1u << lane_number()) - 1));
      const bool fits = (stored >> lane_number() & 1) && i < to.capacity;
      if (fits) slots.put(i, value);
      if (fits && to.columns) to.columns[i] = uint8_t(column);
      if (to.mask) {
        const unsigned kept = __ballot_sync(~0u, fits);
        if (lane_number() == 0) store_word(to.mask_word(first + r, step), kept);
      }
      at += __popc(stored);
    }
  }
}

// What lies behind the last value.
template <class S> __global__ void ssdc_clear_kernel(SsdcBytes to, S slots) {
  const int64_t i = thread_number();
  if (i >= slots.slots || i < to.end(to.rows - 1)) return;
  slots.clear(i);
  if (to.columns && i < to.capacity) to.columns[i] = 0;
}

// A warp for each row, in the two forms.
template <class T, class S> __global__ void ssdc_from_mask_kernel(T* y, SsdcBytes from, S slots) {
  const int64_t row = int64_t(blockIdx.x) * kSsdcWarps + warp_number();
  if (row >= from.rows) return;
  int64_t at = from.begin(row);
  for (int step = 0; step < kSsdcSteps; ++step) {
    const unsigned stored = load_word(from.mask_word(row, step));
    const int64_t to = row * kSsdcRow + step * kWarp + lane_number();
    const int64_t i = at + __popc(stored & ((1u << lane_number()) - 1));
    const bool there = (stored >> lane_number() & 1) && i < from.capacity;
    if (to < from.elements) y[to] = there ? slots.get(i) : T{};
    at += __popc(stored);
  }
}
template <class T, class S> __global__ void ssdc_from_csr_kernel(T* y, SsdcBytes from, S slots) {
  T* dense = shared_memory<T>() + warp_number() * kSsdcRow;
  const int64_t row = int64_t(blockIdx.x) * kSsdcWarps + warp_number();
  if (row >= from.rows) return;
  for (int64_t c = lane_number(); c < kSsdcRow; c += kWarp) dense[c] = T{};
  __syncwarp();
  const int64_t begin = from.begin(row), most = begin + kSsdcRow;
  int64_t end = from.end(row) < from.capacity ? from.end(row) : from.capacity;
  end = end < most ? end : most;
  for (int64_t i = begin + lane_number(); i < end; i += kWarp) {
    dense[from.columns[i]] = slots.get(i);
  }
  __syncwarp();
  for (int64_t c = lane_number(); c < kSsdcRow; c += kWarp) {
    const int64_t to = row * kSsdcRow + c;
    if (to < from.elements) y[to] = dense[c];
  }
}

template <class F> void by_ssdc_element(DType type, F f) {
  if (type == DType::bf16) return f(bf16{});
  f(0.0f);
}
int64_t ssdc_chunks(int64_t elements) { return blocks_of(elements, kElementGrain); }

// Chunks' counts become where they begin, in the workspace; the sum goes to `total`.
template <class T>
void launch_count(const KernelArgs& a, int32_t* total, unsigned char* ends, int64_t capacity) {
  const int64_t elements = a.in_spec[0].numel(), count = ssdc_chunks(elements);
  auto* chunks = reinterpret_cast<int32_t*>(a.workspace);
  launch(ssdc_count_kernel<T>, {count}, kThreads, kSsdcWarps * sizeof(int32_t), stream_of(a),
         a.input<T>(0), elements, blocks_of(elements, kSsdcRow), chunks, ends);
  launch(ssdc_sum_kernel, {1}, kThreads, kThreads * sizeof(int32_t), stream_of(a), chunks, count,
         total, capacity);
}

Prepared prepare_ssdc_count(const Device&, SpecSpan in, SpecSpan, const Attrs&) {
  return {.workspace = ssdc_chunks(in[0].numel()) * int64_t(sizeof(int32_t))};
}

// Chunks' counts, then FP10's codes.
int64_t ssdc_codes_at(int64_t elements) { return ssdc_chunks(elements) * int64_t(sizeof(int32_t)); }
Prepared prepare_ssdc_encode(const Device&, SpecSpan in, SpecSpan, const Attrs& attributes) {
  const auto& attrs = attributes.as<SsdcAttrs>();
  const int64_t words =
      attrs.values == SsdcValues::fp10 ? dpr_bytes(Dpr::fp10, attrs.capacity) / 4 : 0;
  return {.workspace = ssdc_codes_at(in[0].numel()) + 3 * words * int64_t(sizeof(uint16_t))};
}

void run_count_nonzeros(const KernelArgs& a) {
  by_ssdc_element(a.in_spec[0].dtype,
                  [&]<class T>(T) { launch_count<T>(a, a.output<int32_t>(0), nullptr, -1); });
}

void run_ssdc_encode(const KernelArgs& a) {
  const TensorSpec& x = a.in_spec[0];
  by_ssdc_element(x.dtype, [&]<class T>(T) {
    auto* total = a.output<int32_t>(1);
    const int64_t capacity = a.attrs.as<SsdcAttrs>().capacity;
    if (!a.out[0]) return launch_count<T>(a, total, nullptr, capacity);
    const SsdcBytes to = ssdc_bytes_of(a, a.out[0], x.numel(), x.dtype);
    launch_count<T>(a, total, to.ends, capacity);
    auto* codes = reinterpret_cast<uint16_t*>(a.workspace + ssdc_codes_at(x.numel()));
    by_slots<T>(a.attrs.as<SsdcAttrs>().values, to, codes, [&]<class S>(S slots) {
      launch(ssdc_write_kernel<T, S>, {ssdc_chunks(x.numel())}, kThreads,
             (kSsdcChunkRows + 1) * sizeof(int32_t), stream_of(a), a.input<T>(0), to, slots,
             reinterpret_cast<const int32_t*>(a.workspace));
      launch(ssdc_clear_kernel<S>, {blocks_of(slots.slots, kThreads)}, a, to, slots);
      if constexpr (std::is_same_v<S, RoundedSlots<T, Dpr::fp10>>) {
        launch(ssdc_pack_kernel, {blocks_of(slots.slots / 3, kThreads)}, a, slots.words,
               slots.slots / 3, slots.codes);
      }
    });
  });
}

void run_ssdc_decode(const KernelArgs& a) {
  const TensorSpec& y = a.out_spec[0];
  const SsdcBytes from = ssdc_bytes_of(a, a.in[0], y.numel(), y.dtype);
  const int64_t blocks = blocks_of(from.rows, kSsdcWarps);
  by_ssdc_element(y.dtype, [&]<class T>(T) {
    by_slots<T>(a.attrs.as<SsdcAttrs>().values, from, nullptr, [&]<class S>(S slots) {
      if (from.mask) {
        launch(ssdc_from_mask_kernel<T, S>, {blocks}, a, a.output<T>(0), from, slots);
      } else {
        launch(ssdc_from_csr_kernel<T, S>, {blocks}, kThreads, kSsdcWarps * kSsdcRow * sizeof(T),
               stream_of(a), a.output<T>(0), from, slots);
      }
    });
  });
}

}  // namespace

const Backend count_nonzeros_cuda{.run = run_count_nonzeros, .prepare = prepare_ssdc_count};
const Backend ssdc_encode_cuda{.run = run_ssdc_encode, .prepare = prepare_ssdc_encode};
const Backend ssdc_decode_cuda{.run = run_ssdc_decode};

}  // namespace pal
