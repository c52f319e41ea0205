// What a recurrent layer on cuDNN (ops/libraries/cudnn_rnn.h) needs around the library's calls: its
// weights where the library wants them, and rows that end early. The library runs all rows to the
// last step. Forwards, the states behind a row's end are its last one, and what their gradients ask
// for goes to that one. Backwards, each row is turned round up to its end, so that what lies behind
// it comes last.
#pragma once
#include <memory>

#include "core/cuda/launch.h"
#include "ops/kernels/inner_kernel.h"
#include "ops/libraries/cudnn_rnn.h"
#include "ops/libraries/library_scratch.h"
#include "ops/recurrent/recurrent_layer_shape.h"

namespace pal {

// A layer on cuDNN, and the parts of a workspace that every call has.
struct LayerOnCudnn {
  std::unique_ptr<CudnnRnn> rnn;
  RecurrentShape shape;
  bool keeps_reserve = false;  // it fits into the tensor
  int64_t weights_at = 0, workspace_at = 0;

  LayerOnCudnn(const Device& device, const RecurrentShape& s, WorkspaceParts& parts);

  explicit operator bool() const { return rnn != nullptr; }
  bool turns() const { return shape.backwards; }
  bool holds() const { return shape.has_lengths && !shape.backwards; }
  int64_t states() const { return shape.T * shape.state_bytes(); }
  int64_t inputs() const { return shape.T * shape.input_bytes(); }

  std::byte* weights(const KernelArgs& a) const {
    return library_scratch(a.workspace + weights_at, rnn->weights());
  }
  int64_t reserve_bytes() const { return library_workspace(rnn->reserve()); }
  std::byte* reserve(const KernelArgs& a, int64_t at) const {
    return library_scratch(a.workspace + at, rnn->reserve());
  }

  // From the operands of the layer or of its gradient; zeros for the bias that an LSTM here has
  // not.
  void lay_weights(const KernelArgs& a) const;
  void give_weight_gradients(const KernelArgs& a) const;

  // (T, B, width). Each row's steps in the other order up to its end; zeros behind it.
  void turn(const KernelArgs& a, void* to, const void* from, int64_t width,
            const int32_t* lengths) const;
  // In place, behind a row's end its last state.
  void hold(const KernelArgs& a, void* y, const int32_t* lengths) const;
  // The gradient of that.
  void unhold(const KernelArgs& a, void* to, const void* dy, const int32_t* lengths) const;
};

}  // namespace pal
