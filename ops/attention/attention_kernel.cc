// With s = q k^T / sqrt(d), p = e^(s - lse), m the dropout's factors (1 without it):
//   forward   out_t = sum_s p m v;  running maximum and sum, tile of keys by tile of keys
//   backward  p again from s and lse;  delta_t = dout_t . out_t,  dp = m (dout v^T),
//             ds = p (dp - delta) / sqrt(d);  dv = (p m)^T dout,  dq = ds k,  dk = ds^T q
// (Milakov & Gimelshein 2018; Dao et al. 2022, algorithms 1 and 4.) Heads of sentences are shared
// out among the workers; within one, every sum has one order, which padding does not change: tiles
// begin at fixed places and what is masked adds zero.
#include "ops/attention/attention_kernel.h"

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "ops/elementwise/dropout.h"
#include "ops/kernels/math.h"
#include "ops/kernels/rows.h"
#include "ops/kernels/tiles.h"
#include "ops/kernels/vectors.h"

namespace pal {
namespace {

constexpr int64_t kQueries = 32, kKeys = 64;  // a tile
constexpr int64_t kVector = 16;  // columns come in such multiples, whatever the processor has
using vectors::Floats;

int64_t padded(int64_t n) { return (n + kVector - 1) / kVector * kVector; }
// Rows of a tile are worked on in whole lanes: the columns behind the last one add zero.
int64_t in_lanes(int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }
static_assert(kKeys % kLanes == 0);
constexpr float kNever = -__builtin_huge_valf();  // the score of a key that is not looked at

// R rows and C vectors of c (+)= a b; a(i, k) = a[i a_row + k a_column]. A product is added to the
// sum with one rounding.
template <int R, int C>
void block(int64_t k, const float* a, int64_t a_row, int64_t a_column, const float* b, int64_t ldb,
           float* c, int64_t ldc, bool add) {
  Floats sum[R][C] = {};
  for (int64_t e = 0; e < k; ++e) {
    Floats y[C];
    for (int j = 0; j < C; ++j) y[j] = vectors::load_floats(b + e * ldb + j * vectors::kWidth);
    for (int i = 0; i < R; ++i) {
      const Floats x = vectors::all(a[i * a_row + e * a_column]);
      for (int j = 0; j < C; ++j) sum[i][j] = vectors::fma(x, y[j], sum[i][j]);
    }
  }
  for (int i = 0; i < R; ++i) {
    for (int j = 0; j < C; ++j) {
      float* to = c + i * ldc + j * vectors::kWidth;
      vectors::store_floats(to, add ? vectors::load_floats(to) + sum[i][j] : sum[i][j]);
    }
  }
}

template <int R>
void band(int64_t n, int64_t k, const float* a, int64_t a_row, int64_t a_column, const float* b,
          int64_t ldb, float* c, int64_t ldc, bool add) {
  int64_t j = 0;
  constexpr int64_t two = 2 * vectors::kWidth;
  for (; j + two <= n; j += two) block<R, 2>(k, a, a_row, a_column, b + j, ldb, c + j, ldc, add);
  if (j < n) block<R, 1>(k, a, a_row, a_column, b + j, ldb, c + j, ldc, add);
}

// c (m, n) (+)= a (m, k) b (k, n); n is a multiple of kVector.
void product(int64_t m, int64_t n, int64_t k, const float* a, int64_t a_row, int64_t a_column,
             const float* b, int64_t ldb, float* c, int64_t ldc, bool add) {
  int64_t i = 0;
  const auto rows = [&]<int R> {
    band<R>(n, k, a + i * a_row, a_row, a_column, b, ldb, c + i * ldc, ldc, add);
  };
  for (; i + 4 <= m; i += 4) rows.template operator()<4>();
  if (m - i == 3) rows.template operator()<3>();
  if (m - i == 2) rows.template operator()<2>();
  if (m - i == 1) rows.template operator()<1>();
}

// out (n, kKeys) = the first n columns of a (m, lda); m and n are multiples of kVector. In blocks
// of as many rows as a vector has lanes: step s swaps bit s of an element's row and column.
template <int kStep, size_t... C>
void swap_bit(Floats (&v)[vectors::kWidth], std::index_sequence<C...>) {
  constexpr int n = vectors::kWidth;
  for (int r = 0; r < n; ++r) {
    if (r & kStep) continue;
    const Floats a = v[r], b = v[r + kStep];
    v[r] = __builtin_shufflevector(a, b, (int(C) & kStep ? n + int(C) - kStep : int(C))...);
    v[r + kStep] = __builtin_shufflevector(a, b, (int(C) & kStep ? n + int(C) : int(C) + kStep)...);
  }
}
void transpose(int64_t m, int64_t n, const float* a, int64_t lda, float* out) {
  constexpr int64_t w = vectors::kWidth;
  constexpr auto kColumns = std::make_index_sequence<w>();
  for (int64_t i = 0; i < m; i += w) {
    for (int64_t j = 0; j < n; j += w) {
      Floats v[w];
      for (int64_t r = 0; r < w; ++r) v[r] = vectors::load_floats(a + (i + r) * lda + j);
      swap_bit<1>(v, kColumns);
      swap_bit<2>(v, kColumns);
      if constexpr (w > 4) swap_bit<4>(v, kColumns);
      if constexpr (w > 8) swap_bit<8>(v, kColumns);
      for (int64_t r = 0; r < w; ++r) vectors::store_floats(out + (j + r) * kKeys + i, v[r]);
    }
  }
}

// The dropout's factors of a tile; behind a row's last lies another factor, or zero.
struct Factors {
  alignas(64) float drawn[kQueries * (kKeys + kLanes) + kLanes] = {};
  int64_t row, before[kQueries];
  const float* of(int64_t i) const { return drawn + i * row + before[i]; }
};

// One head of one sentence.
class Head {
 public:
  Head(const AttentionCall& call, int64_t unit)
      : call_(call),
        unit_(unit),
        b_(unit / call.heads),
        head_(unit % call.heads),
        wide_(padded(call.width)),
        scale_(1 / std::sqrt(float(call.width))),
        limit_(call.lengths ? std::clamp<int64_t>(call.lengths[b_], 0, call.keys) : call.keys) {}

  int64_t limit() const { return limit_; }
  int64_t wide() const { return wide_; }
  float scale() const { return scale_; }
  int64_t out_pitch() const { return call_.heads * call_.width; }  // of out and dout
  // The element at which row t of this head begins, where rows are `pitch` apart.
  int64_t at(int64_t t, int64_t pitch) const {
    return (t * call_.batch + b_) * pitch + head_ * call_.width;
  }
  // Of the keys from j on, how many query t may look at, n at most.
  int64_t visible(int64_t t, int64_t j, int64_t n) const {
    const int64_t end = call_.causal ? std::min(limit_, t + 1) : limit_;
    return std::clamp<int64_t>(end - j, 0, n);
  }

  // Rows [t, t + n) side by side, each wide() floats of which the last are zero.
  void pack_rows(const void* data, int64_t pitch, int64_t t, int64_t n, float* out) const {
    float buffer[kWidestHead];
    for (int64_t i = 0; i < n; ++i) {
      fetch_next(data, at(t + i, pitch));
      const float* row = load_tile(data, call_.type, at(t + i, pitch), call_.width, buffer);
      float* to = out + i * wide_;
      int64_t e = 0;
      for (; e + kVector <= call_.width; e += kVector)
        std::memcpy(to + e, row + e, kVector * sizeof(float));
      for (; e < call_.width; ++e) to[e] = row[e];
      for (; e < wide_; ++e) to[e] = 0;
    }
  }
  // The same transposed: (wide(), kKeys), zero from column n up to the next multiple of kVector.
  void pack_columns(const void* data, int64_t pitch, int64_t t, int64_t n, float* out) const {
    alignas(64) float rows[kKeys * kWidestHead];
    pack_rows(data, pitch, t, n, rows);
    std::fill(rows + n * wide_, rows + padded(n) * wide_, 0.0f);
    transpose(padded(n), wide_, rows, wide_, out);
  }
  void store_rows(void* data, int64_t pitch, int64_t t, int64_t n, const float* from) const {
    for (int64_t i = 0; i < n; ++i) {
      store_tile(data, call_.type, at(t + i, pitch), call_.width, from + i * wide_);
    }
  }
  void zero_rows(void* data, int64_t pitch, int64_t from, int64_t to) const {
    const float zeros[kWidestHead] = {};
    for (int64_t t = from; t < to; ++t) {
      store_tile(data, call_.type, at(t, pitch), call_.width, zeros);
    }
  }
  // The dropout's factors of queries [t, t + m) and keys from j on: drawn as the tile begins, row
  // by row, or all at once where rows are short enough to lie in one tile.
  void draw(int64_t t, int64_t m, int64_t j, Factors& to) const {
    const int64_t first = (unit_ * call_.queries + t) * call_.keys + j;
    const bool whole = call_.keys <= kKeys;
    to.row = whole ? call_.keys : kKeys + kLanes;
    for (int64_t i = 0; i < (whole ? 1 : m); ++i) {
      const int64_t at = first + i * call_.keys, before = at % 4;
      const int64_t n = whole ? m * call_.keys : std::min(kKeys, call_.keys - j);
      to.before[i] = before;
      dropout_factors(call_.key, at - before, before + n, call_.dropout, to.drawn + i * to.row);
    }
    if (whole) std::fill_n(to.before, m, to.before[0]);
  }

 private:
  // Asks for the next head's row behind the one at `begin`: a head's rows lie far apart.
  void fetch_next(const void* data, int64_t begin) const {
    const int64_t bytes = call_.width * bits(call_.type) / 8;
    const auto* row = static_cast<const char*>(data) + (begin + call_.width) * bits(call_.type) / 8;
    for (int64_t e = 0; e < bytes; e += 64) __builtin_prefetch(row + e);
  }

  const AttentionCall& call_;
  const int64_t unit_, b_, head_, wide_;
  const float scale_;
  const int64_t limit_;
};

void forward_head(const AttentionCall& call, int64_t unit, const void* q, const void* k,
                  const void* v, void* out, float* lse) {
  alignas(64) float query[kQueries * kWidestHead], key[kWidestHead * kKeys],
      value[kKeys * kWidestHead], sum[kQueries * kWidestHead], score[kQueries * kKeys];
  Factors factors;
  const Head head(call, unit);
  const int64_t wide = head.wide();
  const float scale = head.scale();
  for (int64_t t = 0; t < call.queries; t += kQueries) {
    const int64_t m = std::min(kQueries, call.queries - t);
    const int64_t last = head.visible(t + m - 1, 0, call.keys);
    float top[kQueries], total[kQueries] = {};
    std::fill_n(top, m, kNever);
    std::fill_n(sum, m * wide, 0.0f);
    head.pack_rows(q, call.q_pitch, t, m, query);
    for (int64_t j = 0; j < last; j += kKeys) {
      const int64_t n = std::min(kKeys, last - j), columns = padded(n);
      head.pack_columns(k, call.kv_pitch, j, n, key);
      head.pack_rows(v, call.kv_pitch, j, n, value);
      product(m, columns, call.width, query, wide, 1, key, kKeys, score, kKeys, false);
      if (call.dropout > 0) head.draw(t, m, j, factors);
      // In loops of their own over the rows: within a row each step waits for the one before.
      int64_t lanes[kQueries];
      float shrink[kQueries];
      for (int64_t i = 0; i < m; ++i) {
        float* p = score + i * kKeys;
        const int64_t used = head.visible(t + i, j, n);
        lanes[i] = in_lanes(used);
        std::fill(p + used, p + lanes[i], kNever);
        if (lanes[i] < columns) std::fill(p + lanes[i], p + columns, 0.0f);
      }
      for (int64_t i = 0; i < m; ++i) {
        const float* p = score + i * kKeys;
        LaneMax most;
        most.add(lanes[i], [&](int64_t e) { return p[e] * scale; });
        shrink[i] = top[i];
        top[i] = std::max(top[i], most.total());
      }
      for (int64_t i = 0; i < m; ++i) {
        float* p = score + i * kKeys;
        const float now = top[i];
#pragma omp simd
        for (int64_t e = 0; e < lanes[i]; ++e) p[e] = exp(p[e] * scale - now);
      }
#pragma omp simd
      for (int64_t i = 0; i < m; ++i) shrink[i] = lanes[i] > 0 ? exp(shrink[i] - top[i]) : 1;
      for (int64_t i = 0; i < m; ++i) {
        const float* p = score + i * kKeys;
        total[i] = total[i] * shrink[i] + row_sum(lanes[i], [&](int64_t e) { return p[e]; });
      }
      for (int64_t i = 0; i < m && j > 0; ++i) {
#pragma omp simd
        for (int64_t e = 0; e < wide; ++e) sum[i * wide + e] *= shrink[i];
      }
      for (int64_t i = 0; i < m && call.dropout > 0; ++i) {
        float* p = score + i * kKeys;
        const float* factor = factors.of(i);
#pragma omp simd
        for (int64_t e = 0; e < lanes[i]; ++e) p[e] *= factor[e];
      }
      product(m, wide, n, score, kKeys, 1, value, wide, sum, wide, true);
    }
    for (int64_t i = 0; i < m; ++i) {
      const bool any = total[i] > 0;
      const float inverse = any ? 1 / total[i] : 0;
      if (lse) lse[unit * call.queries + t + i] = any ? top[i] + log(total[i]) : 0;
#pragma omp simd
      for (int64_t e = 0; e < wide; ++e) sum[i * wide + e] *= inverse;
    }
    if (out) head.store_rows(out, head.out_pitch(), t, m, sum);
  }
}

struct Gradients {
  void *dq, *dk, *dv;
  float* dq_sums;  // (queries, wide) of the head, or null: dq itself holds them
};

void backward_head(const AttentionCall& call, int64_t unit, const void* q, const void* k,
                   const void* v, const void* out, const float* lse, const void* dout,
                   const Gradients& to) {
  alignas(64) float query[kQueries * kWidestHead], above[kQueries * kWidestHead],
      moved[kQueries * kWidestHead], key[kKeys * kWidestHead], key_t[kWidestHead * kKeys],
      value_t[kWidestHead * kKeys], dkey[kKeys * kWidestHead], dvalue[kKeys * kWidestHead],
      score[kQueries * kKeys], slope[kQueries * kKeys], buffer[kWidestHead];
  Factors factors;
  const Head head(call, unit);
  const int64_t wide = head.wide(), limit = head.limit();
  const float scale = head.scale();
  if (to.dq && limit == 0) head.zero_rows(to.dq, call.q_pitch, 0, call.queries);
  if (to.dk) head.zero_rows(to.dk, call.kv_pitch, limit, call.keys);
  if (to.dv) head.zero_rows(to.dv, call.kv_pitch, limit, call.keys);
  for (int64_t j = 0; j < limit; j += kKeys) {
    const int64_t n = std::min(kKeys, limit - j), columns = padded(n);
    head.pack_rows(k, call.kv_pitch, j, n, key);
    head.pack_columns(k, call.kv_pitch, j, n, key_t);
    head.pack_columns(v, call.kv_pitch, j, n, value_t);
    std::fill_n(dkey, n * wide, 0.0f);
    std::fill_n(dvalue, n * wide, 0.0f);
    for (int64_t t = call.causal ? j / kQueries * kQueries : 0; t < call.queries; t += kQueries) {
      const int64_t m = std::min(kQueries, call.queries - t);
      head.pack_rows(q, call.q_pitch, t, m, query);
      head.pack_rows(dout, head.out_pitch(), t, m, above);
      product(m, columns, call.width, query, wide, 1, key_t, kKeys, score, kKeys, false);
      product(m, columns, call.width, above, wide, 1, value_t, kKeys, slope, kKeys, false);
      if (call.dropout > 0) head.draw(t, m, j, factors);
      int64_t lanes[kQueries];
      float delta[kQueries];
      for (int64_t i = 0; i < m; ++i) {
        float *p = score + i * kKeys, *ds = slope + i * kKeys;
        const int64_t used = head.visible(t + i, j, n);
        lanes[i] = in_lanes(used);
        std::fill(p + used, p + lanes[i], kNever);
        std::fill(ds + used, ds + std::max(lanes[i], columns), 0.0f);
        if (lanes[i] < columns) std::fill(p + lanes[i], p + columns, 0.0f);
      }
      for (int64_t i = 0; i < m; ++i) {
        const float* y =
            load_tile(out, call.type, head.at(t + i, head.out_pitch()), call.width, buffer);
        const float* dy = above + i * wide;
        delta[i] = row_sum(call.width, [&](int64_t e) { return dy[e] * y[e]; });
      }
      for (int64_t i = 0; i < m; ++i) {
        float* p = score + i * kKeys;
        const float level = lse[unit * call.queries + t + i];
#pragma omp simd
        for (int64_t e = 0; e < lanes[i]; ++e) p[e] = exp(p[e] * scale - level);
      }
      for (int64_t i = 0; i < m; ++i) {
        float *p = score + i * kKeys, *ds = slope + i * kKeys;
        if (call.dropout == 0) {
#pragma omp simd
          for (int64_t e = 0; e < lanes[i]; ++e) ds[e] = p[e] * (ds[e] - delta[i]) * scale;
        } else {
          const float* factor = factors.of(i);
#pragma omp simd
          for (int64_t e = 0; e < lanes[i]; ++e) {
            ds[e] = p[e] * (ds[e] * factor[e] - delta[i]) * scale;
            p[e] *= factor[e];
          }
        }
      }
      product(n, wide, m, score, 1, kKeys, above, wide, dvalue, wide, true);
      product(n, wide, m, slope, 1, kKeys, query, wide, dkey, wide, true);
      if (!to.dq) continue;
      float* const sums = to.dq_sums ? to.dq_sums + t * wide : moved;
      if (j > 0 && sums == moved)
        head.pack_rows(to.dq, call.q_pitch, t, m, moved);  // of the tiles before
      product(m, wide, n, slope, kKeys, 1, key, wide, sums, wide, j > 0);
      const bool last = j + kKeys >= limit || (call.causal && j + kKeys > t);
      if (last || sums == moved) head.store_rows(to.dq, call.q_pitch, t, m, sums);
    }
    if (to.dk) head.store_rows(to.dk, call.kv_pitch, j, n, dkey);
    if (to.dv) head.store_rows(to.dv, call.kv_pitch, j, n, dvalue);
  }
}

}  // namespace

void attention_forward(const Queue& queue, const AttentionCall& call, const void* q, const void* k,
                       const void* v, void* out, float* lse) {
  parallel_chunks(queue, call.batch * call.heads, 1,
                  [&](int64_t unit, int64_t) { forward_head(call, unit, q, k, v, out, lse); });
}

void attention_backward(const Queue& queue, const AttentionCall& call, const void* q, const void* k,
                        const void* v, const void* out, const float* lse, const void* dout,
                        void* dq, void* dk, void* dv, float* dq_sums) {
  const int64_t bytes = dq_sums_bytes(call.type, call.queries, call.width);
  parallel_chunks(queue, call.batch * call.heads, 1, [&](int64_t unit, int64_t) {
    float* own =
        bytes ? dq_sums + omp_get_thread_num() * (bytes / int64_t(sizeof(float))) : nullptr;
    backward_head(call, unit, q, k, v, out, lse, dout, {dq, dk, dv, own});
  });
}

int64_t dq_sums_bytes(DType type, int64_t queries, int64_t width) {
  return type == DType::f32 ? 0 : align_up(queries * padded(width) * int64_t(sizeof(float)));
}

}  // namespace pal
