// How elementwise kernels go at memory: whole sectors by each of a warp's instructions, and threads
// for all of a tensor.
#include <algorithm>

#include "core/accelerator.h"
#include "core/prepare.h"
#include "core/scalars.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/dropout.h"
#include "ops/losses/softmax.h"
#include "ops/norms/batch_norm.h"
#include "ops/norms/layer_norm.h"
#include "ops/norms/norm_kernel.h"
#include "ops/optimizer/adam.h"
#include "ops/recurrent/lstm.h"
#include "ops/sums/reduce.h"
#include "ops/tensors/casts.h"
#include "ops/tensors/positions.h"
#include "tests/emulation/counting_fixture.h"

namespace pal::test {
namespace {

class Elements : public CountsKernels {
 protected:
  // Of an operator's one launch.
  LaunchCount counted(const OpDef& op, const Specs& in, const Attrs& attrs) {
    const std::vector<LaunchCount> all = launches(op, in, attrs);
    EXPECT_EQ(all.size(), 1u) << op.name;
    return all.at(0);
  }
  // Of all of its launches, over operands of ones.
  std::vector<LaunchCount> launches(const OpDef& op, const Specs& in, const Attrs& attrs) {
    KernelCache cache(device_);
    const Specs out = infer_specs(op, in, attrs);
    const auto kernel = cache.get(op, in, out, attrs);
    std::vector<std::shared_ptr<std::byte>> held;
    const auto pointers = [&](const Specs& specs) {
      std::vector<void*> all;
      for (const TensorSpec& spec : specs) {
        if (spec.shape.rank() == 0) {
          all.push_back(nullptr);
          continue;
        }
        held.emplace_back(device_.accelerator->allocate(Space::device, spec.bytes()),
                          [this](std::byte* p) { device_.accelerator->release(Space::device, p); });
        all.push_back(held.back().get());
      }
      return all;
    };
    const TensorSpec space{{std::max<int64_t>(kernel->prepared.workspace, 1)}, DType::u8};
    const std::vector<void*> from = pointers(in), to = pointers(out), scratch = pointers({space});
    Queue queue{.stream = device_.accelerator->stream(kComputeQueue)};
    const KernelArgs args{.in = from,
                          .out = to,
                          .in_spec = in,
                          .out_spec = out,
                          .attrs = attrs,
                          .state = kernel->prepared.state.get(),
                          .workspace = static_cast<std::byte*>(scratch[0]),
                          .queue = queue};
    return counter_->count([&] { kernel->start(args); });
  }

  const Device device_ = cuda_device();
};

TEST_F(Elements, WarpsAskForWholeSectors) {
  const TensorSpec f32{{64, 1024}}, half{{64, 1024}, DType::bf16}, none;
  struct Tried {
    const OpDef& op;
    Specs in;
    Attrs attrs;
  };
  const Tried all[] = {
      {add_op, {f32, f32}, {}},
      {relu_op, {f32}, {}},
      {relu_op, {half}, {}},
      {cast_op, {f32}, CastAttrs{DType::bf16}},
      {cast_op, {half}, CastAttrs{DType::f32}},
      {dropout_op, {f32, scalars_spec()}, DropoutAttrs{.p = 0.1f}},
      {dropout_mask_op, {scalars_spec()}, DropoutMaskAttrs{.shape = f32.shape, .p = 0.1f}},
      {adam_op, {f32, half, f32, f32, scalars_spec(), none}, AdamAttrs{}},
  };
  for (const Tried& one : all) {
    const LaunchCount count = counted(one.op, one.in, one.attrs);
    // The step's scalars are read by every warp.
    EXPECT_LE(count.asked, 1.1 * (count.read + count.written)) << one.op.name;
  }
}

// A row that is added to all others is read by every warp, in whole sectors too.
TEST_F(Elements, SoDoSumsWithARow) {
  const TensorSpec x{{64, 1024}};
  EXPECT_EQ(counted(add_broadcast_op, {x, {{1024}}}, {}).asked, 3 * double(x.bytes()));
}

// Eight elements a thread, whatever the batch; the angles are worked out once.
TEST_F(Elements, PositionsAreATable) {
  const TensorSpec x{{16, 32, 256}};
  const LaunchCount count = counted(add_positions_op, {x, {}}, AddPositionsAttrs{});
  EXPECT_EQ(count.blocks * count.threads, x.numel() / 8);
  EXPECT_EQ(count.written, double(x.bytes()));
}

// Rows of 16 bits: what needs no order of sums takes eight elements at a time.
TEST_F(Elements, RowsOf16BitsAreMovedByTheEight) {
  const TensorSpec x{{64, 512}, DType::bf16}, row{{512}}, each{{64}}, none;
  const double n = double(x.numel());
  const LaunchCount forward = counted(layer_norm_op, {x, row, row}, LayerNormAttrs{});
  EXPECT_LE(forward.accesses, 4 * n) << "three to sum up";
  const LaunchCount softmax = counted(softmax_op, {x, none}, SoftmaxAttrs{});
  EXPECT_LE(softmax.accesses, 1.5 * n) << "one to sum up";
  const auto grad =
      launches(layer_norm_grad_op, {x, x, row, each, each, none, none}, LayerNormAttrs{});
  EXPECT_LE(grad.at(0).accesses, 9 * n);
}

// What a channel or a column has is read by the four, beside the elements.
TEST_F(Elements, NormsReadTheirChannelsByTheFour) {
  const TensorSpec x{{64, 512}}, half{{64, 512}, DType::bf16}, row{{512}};
  const double fours = double(x.numel()) / 4;
  for (const TensorSpec& rows : {x, half}) {
    const double own = rows.dtype == DType::f32 ? 1 : 0.5;  // eight of 16 bits are one access
    EXPECT_EQ(launches(batch_norm_op, {rows, row, row}, BatchNormAttrs{}).back().accesses,
              (2 * own + 3) * fours);
    EXPECT_EQ(
        launches(batch_norm_grad_op, {rows, rows, row, row, row}, BatchNormAttrs{}).back().accesses,
        (3 * own + 5) * fours);
  }
}

// A thread of a small cell has two columns, moved at once.
TEST_F(Elements, CellsMoveTheirColumnsAtOnce) {
  const TensorSpec state{{16, 64}}, gates{{16, 256}}, none;
  for (const DType type : {DType::f32, DType::bf16}) {
    TensorSpec s = state, g = gates;
    s.dtype = g.dtype = type;
    const LaunchCount count = counted(lstm_cell_op, {g, s, none, none}, LstmAttrs{});
    EXPECT_EQ(count.accesses, double(state.numel()) / 2 * (4 + 1 + 2));
  }
}

// More chunks of rows than a block should add up are added up by groups, side by side.
TEST_F(Elements, ChunksAreAddedUpByGroups) {
  const auto of_chunks = [&](int64_t chunks) {
    return launches(sum_leading_op, {{{chunks * kSumRows, 4}}, {}}, SumLeadingAttrs{});
  };
  EXPECT_EQ(of_chunks(64).size(), 2u);
  EXPECT_EQ(of_chunks(512).size(), 2u);
  const std::vector<LaunchCount> many = of_chunks(6400);
  ASSERT_EQ(many.size(), 3u);
  EXPECT_EQ(many[1].blocks, 100);
  EXPECT_EQ(many[2].read, 100 * 4 * 4.0) << "of each group and column";
}

// Nobody counts the rows of a batch, all of which count.
TEST_F(Elements, RowsThatAllCountAreNotCounted) {
  const TensorSpec x{{1 << 16, 16}}, row{{16}};
  const auto all = launches(batch_norm_op, {x, row, row}, BatchNormAttrs{});
  ASSERT_EQ(all.size(), 3u);
  const double chunks = double(x.shape[0]) / double(batch_norm_rows(16));
  EXPECT_EQ(all[0].written, 3 * chunks * 16 * 4) << "three sums of each chunk and channel";
}

}  // namespace
}  // namespace pal::test
