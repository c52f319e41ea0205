// An array that kernels and tests both see.
#pragma once
#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace pal::test {

template <class T> class Pinned {
 public:
  explicit Pinned(size_t n, T value = T()) : n_(n) {
    cudaMallocHost(reinterpret_cast<void**>(&data_), n * sizeof(T));
    std::fill_n(data_, n, value);
  }
  explicit Pinned(const std::vector<T>& values) : Pinned(values.size()) {
    std::copy(values.begin(), values.end(), data_);
  }
  ~Pinned() { cudaFreeHost(data_); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;

  T* data() const { return data_; }
  T& operator[](size_t i) const { return data_[i]; }
  std::vector<T> copy() const { return {data_, data_ + n_}; }

 private:
  size_t n_;
  T* data_ = nullptr;
};

}  // namespace pal::test
