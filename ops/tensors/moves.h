// What the operators run that only move bytes, on either device. `Move` copies bytes, or rows at
// distances of their own, makes zeros, and adds two operands; A: the attributes.
#pragma once
#include "ops/kernels/tiles.h"

namespace pal {

template <class Move, class A> void run_slice(const KernelArgs& a) {
  const int64_t begin = a.attrs.as<A>().begin * leading_row_bytes(a.in_spec[0]);
  Move::copy(a, a.out[0], a.input<std::byte>(0) + begin, a.out_spec[0].bytes());
}

template <class Move, class A> void run_slice_grad(const KernelArgs& a) {
  const int64_t begin = a.attrs.as<A>().begin * leading_row_bytes(a.out_spec[0]);
  const int64_t part = a.in_spec[0].bytes(), after = a.out_spec[0].bytes() - begin - part;
  std::byte* out = a.output<std::byte>(0);
  const std::byte* sum = a.input<std::byte>(1);
  if (!sum) {
    Move::zero(a, out, begin);
    Move::copy(a, out + begin, a.in[0], part);
    return Move::zero(a, out + begin + part, after);
  }
  Move::copy(a, out, sum, begin);
  Move::copy(a, out + begin + part, sum + begin + part, after);
  // The middle is sum + part, as a node of its own would be.
  void* const in[] = {const_cast<std::byte*>(sum + begin), a.in[0]};
  void* const middle[] = {out + begin};
  const TensorSpec in_spec[] = {{a.in_spec[0].shape, a.out_spec[0].dtype}, a.in_spec[0]};
  Move::add({in, middle, in_spec, SpecSpan(in_spec, 1), a.attrs, nullptr, nullptr, a.queue});
}

template <class Move> void run_unbind(const KernelArgs& a) {
  const int64_t bytes = leading_row_bytes(a.in_spec[0]);
  for (size_t t = 0; t < a.out.size(); ++t) {
    if (a.out[t]) Move::copy(a, a.out[t], a.input<std::byte>(0) + int64_t(t) * bytes, bytes);
  }
}

template <class Move> void run_stack(const KernelArgs& a) {
  const int64_t bytes = leading_row_bytes(a.out_spec[0]);
  for (size_t t = 0; t < a.in.size(); ++t) {
    std::byte* to = a.output<std::byte>(0) + int64_t(t) * bytes;
    a.in[t] ? Move::copy(a, to, a.in[t], bytes) : Move::zero(a, to, bytes);
  }
}

template <class Move> void run_concatenate(const KernelArgs& a) {
  const int64_t rows = row_count(a.out_spec[0].shape), stride = row_bytes(a.out_spec[0]);
  std::byte* to = a.output<std::byte>(0);
  for (size_t k = 0; k < a.in.size(); ++k) {
    const int64_t bytes = row_bytes(a.in_spec[k]);
    Move::rows(a, to, stride, a.in[k], bytes, rows, bytes);
    to += bytes;
  }
}

template <class Move, class A> void run_slice_columns(const KernelArgs& a) {
  const int64_t begin = a.attrs.as<A>().begin * bits(a.in_spec[0].dtype) / 8;
  const int64_t bytes = row_bytes(a.out_spec[0]);
  Move::rows(a, a.out[0], bytes, a.input<std::byte>(0) + begin, row_bytes(a.in_spec[0]),
             row_count(a.in_spec[0].shape), bytes);
}

// On the CPU.
struct CpuMove {
  static void copy(const KernelArgs& a, void* to, const void* from, int64_t bytes) {
    copy_bytes(a.queue, to, from, bytes);
  }
  static void zero(const KernelArgs& a, void* to, int64_t bytes) { zero_bytes(a.queue, to, bytes); }
  static void rows(const KernelArgs& a, void* to, int64_t to_stride, const void* from,
                   int64_t from_stride, int64_t rows, int64_t bytes) {
    copy_rows(a.queue, to, to_stride, from, from_stride, rows, bytes);
  }
  static void add(const KernelArgs& a) {
    map_elements<2>(a, [](float x, float y) { return x + y; });
  }
};

}  // namespace pal
