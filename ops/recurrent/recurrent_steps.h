// A recurrent layer step by step, by the kernels of the products and cells that a model would
// unroll, on either device: all of it on the processor, and what runs on a GPU without cuDNN.
#pragma once
#include "ops/kernels/inner_kernel.h"
#include "ops/recurrent/recurrent_layer_shape.h"

namespace pal {

class RecurrentSteps {
 public:
  // What is computed: the states and what the gradient reads.
  RecurrentSteps(const Device& device, const RecurrentShape& shape, WorkspaceParts& parts);

  // The first bytes of the reserve: the gates of all steps, and behind them y_n of a GRU or c of an
  // LSTM, (T, B, H).
  static int64_t reserve_bytes(const RecurrentShape& shape);

  // Operands as the layer has them; an LSTM has no bias_h. lengths may be null.
  struct In {
    const void *x, *wx, *wh, *bias, *bias_h, *lengths;
    In(const KernelArgs& a, RecurrentCell cell, const RecurrentOperands& at);
  };
  void run(const KernelArgs& a, const In& in, std::byte* y, std::byte* reserve) const;

 private:
  RecurrentShape shape_;
  InnerKernel zero_, inputs_, pack_, states_, cell_, cast_;
  std::vector<Attrs> step_;  // by time step
  int64_t zero_at_, of_state_at_ = 0, packed_at_ = 0, bias_at_ = 0, scratch_at_;
};

// The gradients, from y, dy and the reserve.
class RecurrentStepsGrad {
 public:
  RecurrentStepsGrad(const Device& device, const RecurrentShape& shape,
                     const RecurrentGradAttrs& attrs, SpecSpan out, WorkspaceParts& parts);

  void run(const KernelArgs& a, const std::byte* reserve) const;

 private:
  void prepare_cells(const Device& device);
  void run_step(const KernelArgs& a, const std::byte* reserve, int64_t i) const;

  RecurrentShape shape_;
  RecurrentOperands at_;
  InnerKernel zero_, first_cell_, cell_, carry_, dx_, dwx_, dwh_, zero_dwh_, dbias_;
  std::vector<Attrs> step_;
  int64_t zero_at_, dgates_at_, dstate_at_, carry_at_, dc_at_ = 0, scratch_at_;
};

}  // namespace pal
