// What a step would need without the passes: the figures that reductions are stated against.
//
//   ours       The step as it was recorded (gradients in the order of differentiation, updates at
//              the end), with in-place and with views and stacks that share bytes. No
//              recomputation, encoding, swapping, reordering or layouts.
//   framework  The same with the habits of the frameworks that the papers measured (MXNet 0.12,
//              TensorFlow 1, PyTorch 1): memory shared between values whose lifetimes do not
//              overlap, and in-place within a phase, as their planners did (Chen et al. 2016), but
//                - a gradient is never written over a feature map: above all the loss's gradient
//                  has bytes of its own beside the scores that it is made of;
//                - what dropout draws is kept for the backward pass, four bytes an element. Ours is
//                  replayed or stashed as it is recorded;
//                - updates at the end, as recorded.
//   cudnn      The framework's, and operand and result of activations and pooling are kept: cuDNN's
//              gradients read both (docs/decisions/cudnn-baseline.md). Of
//              the three it is nearest to what the papers measured.
//              Allocators' fragmentation, library workspaces and the CUDA context are not counted,
//              so all are less than what those frameworks reserve.
//
// All are total bytes: live bytes at the peak, with state, and with inputs in two slots.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "core/program.h"

namespace pal {

// What other frameworks keep beside what our gradients read, by operator.
struct Habit {
  std::string_view op;  // its name
  // Multiplies by random numbers that it draws again in the backward pass: a framework that cannot
  // replay them keeps one f32 for every element.
  bool keeps_random = false;
  // cuDNN's gradient reads operand 0 and output 0, so that a framework that calls it keeps both.
  bool cudnn_keeps_both = false;
  // CNTK's gradient reads operand 0 and output 0 in place of what else our operator leaves: of max
  // pooling the map of where the maxima were (Gist, figure 4(c) and section IV-A).
  bool cntk_keeps_both = false;
};
std::span<const Habit> framework_habits();
Habit habit_of(const OpDef& op);  // none where the table lacks it

struct Baselines {
  int64_t ours = 0, framework = 0, cudnn = 0;
};

// Of a step as it was recorded. `workspace_bytes` by node, or empty.
Baselines baselines_of(const Program& program, const ByNode<int64_t>& workspace_bytes = {});

}  // namespace pal
