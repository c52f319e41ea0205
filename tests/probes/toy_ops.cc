// The toy operators.
#include "tests/probes/toy_ops.h"

#include <chrono>
#include <cstring>
#include <thread>

#include "core/error.h"
#include "core/gradient.h"

namespace pal::test {
namespace {

struct FlagAttrs {
  std::atomic<bool>* flag = nullptr;
  int64_t milliseconds = 0;
  auto fields() const {
    return std::tuple{field("flag", reinterpret_cast<int64_t>(flag)), field("ms", milliseconds)};
  }
};
struct SlotAttrs {
  const float** slot = nullptr;
  auto fields() const { return std::tuple{field("slot", reinterpret_cast<int64_t>(slot))}; }
};
struct BadAttrs {
  int64_t index = 0;
  float value = 0;
  auto fields() const { return std::tuple{field("index", index), field("value", value)}; }
};
struct WorkspaceAttrs {
  int64_t bytes = 0;
  auto fields() const { return std::tuple{field("bytes", bytes)}; }
};

Specs like_first(SpecSpan in, const Attrs&) { return {in[0]}; }

void copy(const KernelArgs& a) {
  if (a.out[0] && a.out[0] != a.in[0]) {
    std::memmove(a.out[0], a.in[0], size_t(a.in_spec[0].bytes()));
  }
}

// Gradients pass through a copy unchanged.
void pass(GradientArgs& g) { g.give(0, g.dy()); }

}  // namespace

const OpDef held_copy_op{
    .name = "held_copy",
    .formula = "x",
    .infer = like_first,
    .gradient = pass,
    .cpu = {.run =
                [](const KernelArgs& a) {
                  using namespace std::chrono;
                  auto& attrs = a.attrs.as<FlagAttrs>();
                  const auto until = steady_clock::now() + milliseconds(attrs.milliseconds);
                  while (!*attrs.flag && steady_clock::now() < until) {
                    std::this_thread::sleep_for(microseconds(100));
                  }
                  copy(a);
                }},
};

const OpDef signal_op{
    .name = "signal",
    .formula = "x",
    .infer = like_first,
    .gradient = pass,
    .cpu = {.run =
                [](const KernelArgs& a) {
                  copy(a);
                  *a.attrs.as<FlagAttrs>().flag = true;
                }},
};

const OpDef remember_op{
    .name = "remember",
    .formula = "x",
    .infer = like_first,
    .cpu = {.run =
                [](const KernelArgs& a) {
                  *a.attrs.as<SlotAttrs>().slot = a.input(0);
                  copy(a);
                }},
};

const OpDef peek_op{
    .name = "peek",
    .formula = "what remember saw",
    .infer = like_first,
    .cpu = {.run =
                [](const KernelArgs& a) {
                  const float* kept = *a.attrs.as<SlotAttrs>().slot;
                  std::memmove(a.out[0], kept, size_t(a.out_spec[0].bytes()));
                }},
};

const OpDef bad_value_op{
    .name = "bad_value",
    .formula = "x with one element replaced",
    .infer = like_first,
    .cpu = {.run =
                [](const KernelArgs& a) {
                  copy(a);
                  auto& attrs = a.attrs.as<BadAttrs>();
                  a.output(0)[attrs.index] = attrs.value;
                }},
};

const OpDef throwing_op{
    .name = "throwing",
    .formula = "",
    .infer = like_first,
    .cpu = {.run = [](const KernelArgs&) { throw ProgramError("[throwing] as it was told"); }},
};

const OpDef touch_all_op{
    .name = "touch_all",
    .formula = "x",
    .infer = like_first,
    .cpu = {.run =
                [](const KernelArgs& a) {
                  std::memset(a.workspace, 0x5A, size_t(a.attrs.as<WorkspaceAttrs>().bytes));
                  copy(a);
                },
            .prepare =
                [](const Device&, SpecSpan, SpecSpan, const Attrs& attrs) {
                  return Prepared{.workspace = attrs.as<WorkspaceAttrs>().bytes};
                }},
};

Val held_copy(Val x, std::atomic<bool>* flag, int milliseconds) {
  return x.builder->emit1(held_copy_op, {x}, FlagAttrs{flag, milliseconds});
}
Val signal(Val x, std::atomic<bool>* flag) {
  return x.builder->emit1(signal_op, {x}, FlagAttrs{flag});
}
Val remember(Val x, const float** slot) {
  return x.builder->emit1(remember_op, {x}, SlotAttrs{slot});
}
Val peek(Val x, const float** slot) { return x.builder->emit1(peek_op, {x}, SlotAttrs{slot}); }
Val bad_value(Val x, int64_t index, float value) {
  return x.builder->emit1(bad_value_op, {x}, BadAttrs{index, value});
}
Val throwing(Val x) { return x.builder->emit1(throwing_op, {x}); }
Val with_workspace(Val x, int64_t bytes) {
  return x.builder->emit1(touch_all_op, {x}, WorkspaceAttrs{bytes});
}

}  // namespace pal::test
