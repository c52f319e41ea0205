// y = x in another layout; dx = dy in x's.
#include "ops/tensors/reorder.h"

#include "core/gradient.h"
#include "ops/kernels/tiles.h"
#include "ops/libraries/onednn.h"

namespace pal {
namespace {

Specs infer(SpecSpan in, const Attrs& attributes) {
  require(in.size() == 1, "takes one operand");
  TensorSpec out = in[0];
  out.layout = attributes.as<ReorderAttrs>().to;
  const bool blocked = in[0].layout || out.layout;
  require(in[0].shape.rank() > 0 && in[0].numel() > 0 &&
              (in[0].dtype == DType::f32 || in[0].dtype == DType::bf16),
          in[0], ": only f32 and bf16 tensors have other layouts");
  auto fits = [](const TensorSpec& spec) {
    return !spec.layout ||
           onednn::desc_of(spec).dims() == onednn::Dims(spec.shape.begin(), spec.shape.end());
  };
  require(!blocked || (fits(in[0]) && fits(out)), in[0], " to ", out,
          ": the layout is for another shape");
  const auto element = onednn::data_type(in[0].dtype);
  require(
      onednn::desc_of(in[0]).data_type() == element && onednn::desc_of(out).data_type() == element,
      in[0], " to ", out, ": the layout is for another type");
  return {out};
}

Prepared prepare(const Device& device, SpecSpan in, SpecSpan out, const Attrs&) {
  if (in[0] == out[0]) return {};
  const onednn::ThreadScope threads(std::max(device.threads, 1));
  std::shared_ptr<onednn::Launch> launch =
      onednn::reorder(onednn::desc_of(in[0]), onednn::desc_of(out[0]));
  const int64_t scratch = launch->scratch_bytes();
  return {.state = std::move(launch), .workspace = scratch};
}

void run(const KernelArgs& a) {
  if (!a.state) return copy_bytes(a.queue, a.out[0], a.in[0], a.out_spec[0].bytes());
  static_cast<onednn::Launch*>(a.state)->run({a.in[0], a.out[0], a.workspace},
                                             std::max(a.queue.workers, 1));
}

// OIhw16i16o, which padding makes larger where O or I is no multiple of 16.
Layout example_layout(Shape shape, DType type) {
  return onednn::layout_of(onednn::Desc(onednn::Dims(shape.begin(), shape.end()),
                                        onednn::data_type(type),
                                        dnnl::memory::format_tag::ABcd16b16a));
}

}  // namespace

const OpDef reorder_op{
    .name = "reorder",
    .formula = "x in another layout",
    .infer = infer,
    .gradient = [](GradientArgs& g) { g.give(0, reorder(g.dy(), g.in(0).spec().layout)); },
    .zeros = keeps_zeros,
    .cpu = {.run = run, .prepare = prepare},
    .examples =
        // Blocked operands come from nodes, so examples begin and end plain; blocked ones are in
        // the operator's own test.
    {{.operands = {example({3, 7})}, .attrs = ReorderAttrs{}},
     {.operands = {example({2, 3, 5}, DType::bf16)}, .attrs = ReorderAttrs{}},
     {.operands = {example({16, 32, 3, 3})},
      .attrs = ReorderAttrs{example_layout({16, 32, 3, 3}, DType::f32)}}},
};

Val reorder(Val x, const Layout& to) { return x.builder->emit1(reorder_op, {x}, ReorderAttrs{to}); }

}  // namespace pal
