// ssdc_encode: x -> its nonzeros, and how many there are. ssdc_decode: back. Encoding takes two
// passes: the nonzeros of every row that lies before another worker's are counted, the counts are
// added up, then every row is written where it belongs. The number of threads changes no byte.
#include "ops/encodings/ssdc.h"

#include <limits>
#include <utility>

#include "core/builder.h"
#include "ops/encodings/ssdc_rows.h"
#include "ops/encodings/ssdc_values.h"
#include "ops/kernels/tiles.h"

namespace pal {
namespace {

using namespace ssdc;  // NOLINT: the kernels' own names

constexpr int64_t kChunkRows = 64;  // of a worker at a time
constexpr int64_t kAhead = 2048;    // bytes that are fetched before they are read
static_assert(kChunkRows * kSsdcRow == kElementGrain);

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t rows_of(int64_t elements) { return ceil_div(elements, kSsdcRow); }

template <class F> void by_element(DType type, F f) {
  if (type == DType::bf16) return f(bf16{});
  f(0.0f);
}

// Fetches what lies kAhead behind so many bytes, which will be read (or written) soon; of values
// that are not plain, something else.
template <int write> void fetch_ahead(const void* from, int64_t bytes) {
  const char* ahead = static_cast<const char*>(from) + kAhead;
  for (int64_t byte = 0; byte < bytes; byte += 64) __builtin_prefetch(ahead + byte, write);
}

// A dense tensor as whole rows.
template <class T> struct DenseRows {
  const T* x;
  int64_t elements;

  // Row r where it lies, or in the buffer with zeros behind it.
  const T* row(int64_t r, RowBuffer<T>& buffer) const {
    const int64_t n = elements - r * kSsdcRow;
    fetch_ahead<0>(x + r * kSsdcRow, kSsdcRow * int64_t(sizeof(T)));
    if (n >= kSsdcRow) return x + r * kSsdcRow;
    std::memset(static_cast<void*>(buffer.at), 0, sizeof buffer.at);
    std::memcpy(buffer.at, x + r * kSsdcRow, size_t(n) * sizeof(T));
    return buffer.at;
  }
};

// An encoding's bytes, wherever they begin.
struct Encoding {
  std::byte* data;
  SsdcForm form;
  int64_t capacity;
  SsdcSections at;

  int64_t end(int64_t row) const {
    int32_t value;
    std::memcpy(&value, data + row * 4, sizeof value);
    return value;
  }
  void set_end(int64_t row, int64_t value) const {
    const int32_t narrow = int32_t(value);
    std::memcpy(data + row * 4, &narrow, sizeof narrow);
  }
  // Within the capacity, whatever the bytes are.
  int64_t begin(int64_t row) const {
    return row ? std::clamp<int64_t>(end(row - 1), 0, capacity) : 0;
  }
  std::byte* mask(int64_t row) const { return data + at.mask + row * int64_t(sizeof(RowMask)); }
  std::byte* values() const { return data + at.values; }
  uint8_t* columns(int64_t i) const { return reinterpret_cast<uint8_t*>(data + at.columns + i); }
};

Encoding encoding_of(const KernelArgs& a, void* data, int64_t elements, DType type) {
  const auto& attrs = a.attrs.as<SsdcAttrs>();
  return {static_cast<std::byte*>(data), attrs.form, attrs.capacity,
          ssdc_sections(attrs, elements, type)};
}

// The nonzeros of x, chunk by chunk in the workspace.
template <class T> int64_t count_all(const KernelArgs& a) {
  const DenseRows<T> dense{a.input<T>(0), a.in_spec[0].numel()};
  const int64_t rows = rows_of(dense.elements);
  int32_t* counts = reinterpret_cast<int32_t*>(a.workspace);
  parallel_chunks(a.queue, rows, kChunkRows, [&](int64_t first, int64_t last) {
    RowBuffer<T> buffer;
    int64_t n = 0;
    for (int64_t r = first; r < last; ++r) n += count(mask_of_row(dense.row(r, buffer)));
    counts[first / kChunkRows] = int32_t(n);
  });
  int64_t total = 0;
  for (int64_t c = 0; c < ceil_div(rows, kChunkRows); ++c) total += counts[c];
  return total;
}

struct Written {
  Edges edges;
  int64_t nonzeros;
};

// Rows [first, last), whose values begin at `at` and may lie up to `end`. The rows' own ends stand
// already, or are set.
template <bool kSetEnds, class T, class V>
Written write_rows(const DenseRows<T>& dense, const Encoding& to, int64_t first, int64_t last,
                   int64_t at, int64_t end) {
  RowBuffer<T> buffer, stored;
  alignas(64) uint8_t columns[kSsdcRow + kWord];
  typename V::Writer writer(to.values(), at, end);
  int64_t nonzeros = 0;
  for (int64_t r = first; r < last; ++r) {
    T* values = writer.place(stored);
    RowMask mask = take_row(dense.row(r, buffer), values);
    const int64_t all = count(mask);
    const int64_t n = kSetEnds ? std::min(all, to.capacity - at) : to.end(r) - at;
    if (n < all) keep_first(mask, n);
    writer.put(values, n);
    fetch_ahead<1>(values, n * int64_t(sizeof(T)));
    if (to.form == SsdcForm::csr) fetch_ahead<1>(to.columns(at), n);
    if (to.form == SsdcForm::mask) {
      std::memcpy(to.mask(r), mask.data(), sizeof mask);
    } else if (at + kSsdcRow + kWord <= end) {
      columns_of_row(mask, to.columns(at));
    } else {
      columns_of_row(mask, columns);
      std::memcpy(to.columns(at), columns, size_t(n));
    }
    at += n, nonzeros += all;
    if (kSetEnds) to.set_end(r, at);
  }
  return {writer.finish(), nonzeros};
}

// The encoding of x, a part for each worker: the nonzeros of all parts but the last are counted,
// and then all parts are written. Returns the number of nonzeros.
template <class T, class V> int64_t encode(const KernelArgs& a) {
  const DenseRows<T> dense{a.input<T>(0), a.in_spec[0].numel()};
  const Encoding to = encoding_of(a, a.out[0], dense.elements, a.in_spec[0].dtype);
  const int64_t rows = to.at.rows, each = ceil_div(rows, std::max(1, a.queue.workers));
  const int64_t size = std::max<int64_t>(1, ceil_div(each, kChunkRows)) * kChunkRows;
  const int64_t parts = ceil_div(rows, size), counted = std::max<int64_t>(0, parts - 1) * size;
  parallel_chunks(a.queue, counted, kChunkRows, [&](int64_t first, int64_t last) {
    RowBuffer<T> buffer;
    for (int64_t r = first; r < last; ++r) {
      to.set_end(r, count(mask_of_row(dense.row(r, buffer))));
    }
  });
  int64_t total = 0;
  for (int64_t r = 0; r < counted; ++r) {
    total += to.end(r);
    to.set_end(r, std::min(total, to.capacity));
  }
  const std::span<Edges> edges{reinterpret_cast<Edges*>(a.workspace), size_t(parts)};
  int64_t in_last = 0;
  parallel_chunks(a.queue, rows, size, [&](int64_t first, int64_t last) {
    const int64_t at = to.begin(first);
    const Written part =
        first == counted ? write_rows<true, T, V>(dense, to, first, last, at, to.capacity)
                         : write_rows<false, T, V>(dense, to, first, last, at, to.end(last - 1));
    if (first == counted) in_last = part.nonzeros;
    edges[size_t(first / size)] = part.edges;
  });
  total += in_last;
  const int64_t kept = std::min(total, to.capacity);
  join_edges(to.values(), edges);
  zero_bytes(a.queue, to.values() + V::behind(kept), V::bytes(to.capacity) - V::behind(kept));
  if (to.form == SsdcForm::csr) zero_bytes(a.queue, to.columns(kept), to.capacity - kept);
  return total;
}

void run_encode(const KernelArgs& a) {
  int64_t total = 0;
  by_element(a.in_spec[0].dtype, [&]<class T>(T) {
    if (!a.out[0]) return void(total = count_all<T>(a));
    by_values<T>(a.attrs.as<SsdcAttrs>().values, [&]<class V>(V) { total = encode<T, V>(a); });
  });
  if (!a.out[1]) return;
  a.output<int32_t>(1)[0] = int32_t(total);
  a.output<int32_t>(1)[1] = int32_t(a.attrs.as<SsdcAttrs>().capacity);
}

void run_count(const KernelArgs& a) {
  by_element(a.in_spec[0].dtype,
             [&]<class T>(T) { *a.output<int32_t>(0) = int32_t(count_all<T>(a)); });
}

// Rows [first, last) of an encoding, each whole to where `place` says. Its bytes may be any.
template <class T, class V, class Place>
void read_mask_rows(const Encoding& from, const V& values, int64_t first, int64_t last,
                    Place place) {
  RowBuffer<T> buffer;
  for (int64_t r = first; r < last; ++r) {
    const int64_t at = from.begin(r), room = from.capacity - at;
    RowMask mask;
    std::memcpy(mask.data(), from.mask(r), sizeof mask);
    const int64_t n = std::min(count(mask), room);
    if (n == room) keep_first(mask, room);
    fetch_ahead<0>(from.values() + at * int64_t(sizeof(T)), n * int64_t(sizeof(T)));
    expand_row(values.read(at, n, buffer), mask, place(r));
  }
}
template <class T, class V, class Place>
void read_csr_rows(const Encoding& from, const V& values, int64_t first, int64_t last,
                   Place place) {
  RowBuffer<T> buffer;
  for (int64_t r = first; r < last; ++r) {
    const int64_t at = from.begin(r);
    const int64_t n =
        std::clamp<int64_t>(from.end(r) - at, 0, std::min(from.capacity - at, kSsdcRow));
    fetch_ahead<0>(from.values() + at * int64_t(sizeof(T)), n * int64_t(sizeof(T)));
    fetch_ahead<0>(from.columns(at), n);
    place_row(values.read(at, n, buffer), from.columns(at), n, place(r));
  }
}

template <class T, class V, class Place>
void read_rows(const Encoding& from, const V& values, int64_t first, int64_t last, Place place) {
  if (from.form == SsdcForm::mask) return read_mask_rows<T>(from, values, first, last, place);
  read_csr_rows<T>(from, values, first, last, place);
}

template <class T, class V> void decode(const KernelArgs& a) {
  const int64_t elements = a.out_spec[0].numel(), whole = elements / kSsdcRow;
  const Encoding from = encoding_of(a, a.in[0], elements, a.out_spec[0].dtype);
  const typename V::Reader values(from.values(), from.capacity);
  T* y = a.output<T>(0);
  parallel_chunks(a.queue, from.at.rows, kChunkRows, [&](int64_t first, int64_t last) {
    RowBuffer<T> part;
    auto place = [&](int64_t r) {
      fetch_ahead<1>(y + r * kSsdcRow, kSsdcRow * int64_t(sizeof(T)));
      return r < whole ? y + r * kSsdcRow : part.at;
    };
    read_rows<T>(from, values, first, last, place);
    if (last > whole) {
      std::memcpy(y + whole * kSsdcRow, part.at, size_t(elements - whole * kSsdcRow) * sizeof(T));
    }
  });
}

// Whole rows of f32 where they belong, others by way of a buffer.
template <class T, class V>
void read_part(const Encoding& from, int64_t begin, int64_t end, float* to) {
  const typename V::Reader values(from.values(), from.capacity);
  RowBuffer<T> row;
  while (begin < end) {
    const int64_t r = begin / kSsdcRow, skip = begin % kSsdcRow;
    int64_t n = std::min(kSsdcRow - skip, end - begin);
    if constexpr (std::is_same_v<T, float>) {
      if (n == kSsdcRow) {
        const int64_t last = end / kSsdcRow;
        read_rows<T>(from, values, r, last, [&](int64_t i) { return to + (i - r) * kSsdcRow; });
        n = (last - r) * kSsdcRow, begin += n, to += n;
        continue;
      }
    }
    read_rows<T>(from, values, r, r + 1, [&](int64_t) { return row.at; });
    for (int64_t i = 0; i < n; ++i) to[i] = to_float(row.at[skip + i]);
    begin += n, to += n;
  }
}

void run_decode(const KernelArgs& a) {
  by_element(a.out_spec[0].dtype, [&]<class T>(T) {
    by_values<T>(a.attrs.as<SsdcAttrs>().values, [&]<class V>(V) { decode<T, V>(a); });
  });
}

void require_dense(const TensorSpec& x) {
  require(!x.layout && (x.dtype == DType::f32 || x.dtype == DType::bf16), x,
          ": only plain f32 and bf16 tensors are stored sparsely");
  require(x.numel() <= std::numeric_limits<int32_t>::max(), x, ": 2^31 elements or more");
}

Specs infer_encode(SpecSpan in, const Attrs& attributes) {
  require_operands(in, 1, 1);
  require_dense(in[0]);
  const auto& attrs = attributes.as<SsdcAttrs>();
  require(attrs.capacity >= 0 && attrs.capacity <= in[0].numel(), in[0], ": a capacity of ",
          attrs.capacity, " is not between none and all of its elements");
  return {ssdc_spec(in[0], attrs), {Shape{2}, DType::i32}};
}

Specs infer_decode(SpecSpan in, const Attrs& attributes) {
  require_operands(in, 1, 1);
  const TensorSpec dense{in[0].shape, in[0].dtype};
  require_dense(dense);
  const TensorSpec wanted = ssdc_spec(dense, attributes.as<SsdcAttrs>());
  require(in[0] == wanted && in[0].bytes() == wanted.bytes(), in[0], " is not ", wanted);
  return {dense};
}

Prepared prepare_count(const Device&, SpecSpan in, SpecSpan, const Attrs&) {
  return {.workspace = ceil_div(in[0].numel(), kElementGrain) * int64_t(sizeof(int32_t))};
}
Prepared prepare_encode(const Device&, SpecSpan in, SpecSpan, const Attrs&) {
  return {.workspace = ceil_div(in[0].numel(), kElementGrain) * int64_t(sizeof(Edges))};
}

// Operands of decode: an encoding whose bytes are drawn is none, but has to be decoded safely.
ExampleOperand encoded_example(Shape shape, DType type, const SsdcAttrs& attrs) {
  return constant({.spec = ssdc_spec({shape, type}, attrs)});
}
// In which every four bytes are 0, 1, 2, 3 (of bf16, every two are 2, 3): one row of at most so
// many values, in different columns.
ExampleOperand columns_example(Shape shape, DType type, const SsdcAttrs& attrs) {
  ExampleOperand operand = encoded_example(shape, type, attrs);
  operand.lo = operand.hi = bits_float(0x03020100);
  return operand;
}
Example encode_example(ExampleOperand x, const SsdcAttrs& attrs, std::vector<char> unread = {}) {
  return {.operands = {constant(std::move(x))}, .attrs = attrs, .unread = std::move(unread)};
}

}  // namespace

const OpDef count_nonzeros_op{
    .name = "count_nonzeros",
    .formula = "elements of x that are not +0",
    .infer = [](SpecSpan in, const Attrs&) -> Specs {
      require_operands(in, 1, 1);
      require_dense(in[0]);
      return {{Shape{1}, DType::i32}};
    },
    .cost = [](SpecSpan in, SpecSpan out, const Attrs&) -> Cost {
      return streaming_cost(double(in[0].numel()), in, out);
    },
    .cpu = {.run = run_count, .prepare = prepare_count},
    .cuda = &count_nonzeros_cuda,
    .examples = {{.operands = {constant(example({3, 7}))}},
                 {.operands = {constant(example({3, 7}, DType::f32, 0, 0))}},
                 {.operands = {example({5, 211}, DType::bf16)}},
                 {.operands = {constant(example({33, 1031}))}}},
};

const OpDef ssdc_encode_op{
    .name = "ssdc_encode",
    .formula = "the nonzeros of x, and how many there are",
    .infer = infer_encode,
    .cost = [](SpecSpan in, SpecSpan out, const Attrs&) -> Cost {
      return streaming_cost(double(in[0].numel()), in, out);
    },
    .cpu = {.run = run_encode, .prepare = prepare_encode},
    .cuda = &ssdc_encode_cuda,
    .examples = {encode_example(example({3, 7}), {SsdcForm::csr, 21}),
                 encode_example(example({3, 7}), {SsdcForm::mask, 5}),
                 encode_example(example({3, 7}, DType::f32, 0, 0), {SsdcForm::csr, 9}),
                 encode_example(example({3, 7}, DType::f32, 0, 0), {SsdcForm::mask, 0}),
                 encode_example(example({5, 211}, DType::bf16), {SsdcForm::csr, 700}),
                 encode_example(example({5, 211}, DType::bf16), {SsdcForm::mask, 1055}, {0, 1}),
                 encode_example(example({5, 211}), {SsdcForm::mask, 100}, {1, 0}),
                 encode_example(example({33, 1031}), {SsdcForm::csr, 33333}),
                 encode_example(example({33, 1031}), {SsdcForm::mask, 17000}),
                 encode_example(example({5, 211}), {SsdcForm::mask, 1003, SsdcValues::fp16}),
                 encode_example(example({5, 211}, DType::bf16),
                                {SsdcForm::csr, 1055, SsdcValues::fp10}),
                 encode_example(example({5, 211}, DType::f32, 0, 0),
                                {SsdcForm::csr, 5, SsdcValues::fp10}),
                 encode_example(example({33, 1031}), {SsdcForm::csr, 17000, SsdcValues::fp10}),
                 encode_example(example({33, 1031}), {SsdcForm::mask, 17001, SsdcValues::fp8})},
};

const OpDef ssdc_decode_op{
    .name = "ssdc_decode",
    .formula = "x of its nonzeros, zero elsewhere",
    .infer = infer_decode,
    .cost = [](SpecSpan in, SpecSpan out, const Attrs&) -> Cost {
      return streaming_cost(double(out[0].numel()), in, out);
    },
    .cpu = {.run = run_decode},
    .cuda = &ssdc_decode_cuda,
    .examples =
        [] {
          std::vector<Example> out;
          auto add = [&](auto make, Shape shape, DType type, const SsdcAttrs& attrs) {
            out.push_back({.operands = {make(shape, type, attrs)}, .attrs = attrs});
          };
          add(encoded_example, {3, 7}, DType::f32, {SsdcForm::mask, 21});
          add(columns_example, {3, 7}, DType::f32, {SsdcForm::csr, 4});
          add(encoded_example, {5, 211}, DType::bf16, {SsdcForm::mask, 700});
          add(columns_example, {5, 211}, DType::bf16, {SsdcForm::csr, 2});
          add(encoded_example, {33, 1031}, DType::f32, {SsdcForm::mask, 17000});
          add(columns_example, {33, 1031}, DType::f32, {SsdcForm::csr, 4});
          add(encoded_example, {33, 1031}, DType::f32, {SsdcForm::mask, 17000, SsdcValues::fp16});
          add(encoded_example, {33, 1031}, DType::f32, {SsdcForm::mask, 17000, SsdcValues::fp10});
          add(encoded_example, {5, 211}, DType::bf16, {SsdcForm::mask, 1001, SsdcValues::fp10});
          add(encoded_example, {5, 211}, DType::bf16, {SsdcForm::mask, 1001, SsdcValues::fp8});
          add(columns_example, {3, 7}, DType::f32, {SsdcForm::csr, 4, SsdcValues::fp10});
          return out;
        }(),
};

Ssdc ssdc_encode(Val x, const SsdcAttrs& attrs) {
  const auto out = x.builder->emit(ssdc_encode_op, {x}, attrs);
  return {out[0], out[1]};
}

Val ssdc_decode(Val encoded) {
  const auto attrs = ssdc_attrs(encoded.spec());
  require_of(ssdc_decode_op, attrs.has_value(), encoded.spec(), " is no sparse encoding");
  return encoded.builder->emit1(ssdc_decode_op, {encoded}, *attrs);
}

void ssdc_read(const TensorSpec& encoded, const void* from, int64_t begin, int64_t end, float* to) {
  const SsdcAttrs attrs = *ssdc_attrs(encoded);
  const SsdcSections at = ssdc_sections(attrs, encoded.numel(), encoded.dtype);
  auto* data = static_cast<std::byte*>(const_cast<void*>(from));  // NOLINT: read only
  const Encoding encoding{data, attrs.form, attrs.capacity, at};
  by_element(encoded.dtype, [&]<class T>(T) {
    by_values<T>(attrs.values, [&]<class V>(V) { read_part<T, V>(encoding, begin, end, to); });
  });
}

Val count_nonzeros(Val x) { return x.builder->emit1(count_nonzeros_op, {x}); }

}  // namespace pal
