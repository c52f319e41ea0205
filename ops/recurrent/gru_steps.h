// A GRU layer step by step, by the kernels of the products and cells that a model would unroll, on
// either device: all of it on the processor, and what runs on a GPU without cuDNN.
#pragma once
#include "ops/kernels/inner_kernel.h"
#include "ops/recurrent/gru_layer_shape.h"

namespace pal {

class GruSteps {
 public:
  // What is computed: the states and what the gradient reads.
  GruSteps(const Device& device, const GruLayerShape& shape, WorkspaceParts& parts);

  // gates (T, B, 3H) and y_n (T, B, H), one behind the other: the first bytes of the reserve.
  static int64_t reserve_bytes(const GruLayerShape& shape);

  // Operands as gru_layer has them. lengths may be null.
  struct In {
    const void *x, *wx, *wh, *bias, *bias_h, *lengths;
  };
  void run(const KernelArgs& a, const In& in, std::byte* y, std::byte* reserve) const;

 private:
  GruLayerShape shape_;
  InnerKernel zero_, inputs_, pack_, states_, cell_, cast_;
  std::vector<Attrs> step_;  // by time step
  int64_t zero_at_, of_state_at_, packed_at_ = 0, bias_at_ = 0, scratch_at_;
};

// The gradients, from y, dy and the reserve.
class GruStepsGrad {
 public:
  GruStepsGrad(const Device& device, const GruLayerShape& shape, const GruLayerGradAttrs& attrs,
               SpecSpan out, WorkspaceParts& parts);

  void run(const KernelArgs& a, const std::byte* reserve) const;

 private:
  void run_step(const KernelArgs& a, const std::byte* reserve, int64_t i) const;

  GruLayerShape shape_;
  InnerKernel zero_, first_cell_, cell_, carry_, dx_, dwx_, dwh_, zero_dwh_, dbias_;
  std::vector<Attrs> step_;
  int64_t zero_at_, dgates_at_, dstate_at_, carry_at_, scratch_at_;
};

}  // namespace pal
