// What the oneDNN kernels share: descriptors, layouts, and a primitive that is ready to be started.
// Only .cc files include this; it brings dnnl.hpp along.
#pragma once
#include <omp.h>

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/device.h"
#include "core/op.h"
#include "oneapi/dnnl/dnnl.hpp"

namespace pal::onednn {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;

const dnnl::engine& engine();

// OpenMP gives this many threads to whatever the caller starts while this lives: oneDNN knows no
// other way of being told. The setting belongs to the calling thread.
class ThreadScope {
 public:
  explicit ThreadScope(int threads) : before_(omp_get_max_threads()) {
    if (threads != before_) omp_set_num_threads(threads);
  }
  ~ThreadScope() {
    if (omp_get_max_threads() != before_) omp_set_num_threads(before_);
  }
  ThreadScope(const ThreadScope&) = delete;
  ThreadScope& operator=(const ThreadScope&) = delete;

 private:
  int before_;
};

dnnl::memory::data_type data_type(DType type);  // ProgramError where oneDNN has none
// The spec's own layout: its descriptor where it is blocked, row-major otherwise.
Desc desc_of(const TensorSpec& spec);
Desc plain(const TensorSpec& spec);
// A format that a primitive chose, as a Layout; null when it is row-major.
Layout layout_of(const Desc& chosen);

// Every primitive takes its scratch memory from the caller. `add`: onto what the result holds.
dnnl::primitive_attr user_scratchpad(bool add = false);

// A primitive and its operands. run() only puts addresses in: nothing is allocated. Two threads may
// run the same one; they take turns.
class Launch {
 public:
  // (DNNL_ARG_..., descriptor) in the order in which run gets the addresses. The scratchpad is the
  // last address of all.
  Launch(const dnnl::primitive& primitive, const Desc& scratchpad,
         std::vector<std::pair<int, Desc>> operands);
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  int64_t scratch_bytes() const { return scratch_bytes_; }
  void run(std::initializer_list<const void*> addresses, int threads);

 private:
  dnnl::primitive primitive_;
  dnnl::stream stream_;
  std::vector<dnnl::memory> memories_;
  std::vector<dnnl_exec_arg_t> args_;
  int64_t scratch_bytes_;
  std::mutex turn_;
};

// Between two layouts; the addresses are from, to.
std::unique_ptr<Launch> reorder(const Desc& from, const Desc& to);

}  // namespace pal::onednn
