// What kernels read and write ends where their operands, outputs and workspaces do: these lie at
// the ends of blocks of the emulated device's memory, and behind those nobody may touch anything.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "core/prepare.h"
#include "ops/convolution/max_pool.h"
#include "tests/emulation/emulation.h"
#include "tests/emulation/op_cases.h"

namespace pal::test {
namespace {

constexpr int64_t kBoundary = 256;  // on which blocks begin, and end

// Bytes of the device's memory that end with their block.
class LastBytes {
 public:
  LastBytes(Accelerator& gpu, int64_t bytes)
      : gpu_(gpu),
        size_((bytes / kBoundary + 1) * kBoundary),
        block_(gpu.allocate(Space::device, size_)),
        data_(block_ + size_ - bytes) {}
  ~LastBytes() { gpu_.release(Space::device, block_); }
  LastBytes(const LastBytes&) = delete;
  LastBytes& operator=(const LastBytes&) = delete;
  std::byte* data() const { return data_; }

 private:
  Accelerator& gpu_;
  int64_t size_;
  std::byte *block_, *data_;
};

void run_at_ends(const Case& c) {
  Accelerator& gpu = *c.accelerator;
  const Device device = device_of(c, 1);
  KernelCache cache(device);
  const Node& node = c.program.nodes[0];
  const auto kernel = cache.get(c.program, node);
  std::vector<std::unique_ptr<LastBytes>> held;
  const auto at_end = [&](int64_t bytes) {
    held.push_back(std::make_unique<LastBytes>(gpu, bytes));
    return held.back()->data();
  };
  std::vector<void*> in, out;
  for (size_t k = 0; k < c.in.size(); ++k) {
    in.push_back(c.in[k] == kNone ? nullptr : at_end(int64_t(c.values[k].size())));
    if (in[k]) gpu.copy(kComputeQueue, in[k], c.values[k].data(), int64_t(c.values[k].size()));
  }
  for (const ValueId v : c.out) {
    out.push_back(v == kNone ? nullptr : at_end(c.program.value(v).spec.bytes()));
  }
  // On a boundary, and so not always at the end.
  const int64_t workspace = (kernel->prepared.workspace + kBoundary - 1) / kBoundary * kBoundary;
  gpu.synchronize();
  Queue queue{.id = kComputeQueue, .stream = gpu.stream(kComputeQueue)};
  kernel->start({.in = in,
                 .out = out,
                 .in_spec = kernel->in,
                 .out_spec = kernel->out,
                 .attrs = node.attrs,
                 .state = kernel->prepared.state.get(),
                 .workspace = at_end(workspace),
                 .queue = queue});
  gpu.synchronize();
}

class Ends : public testing::TestWithParam<const OpDef*> {
 protected:
  void SetUp() override { emulation::settings() = {}; }
  void TearDown() override { emulation::settings() = {}; }
};

// A kernel that does not stop there ends the process.
TEST_P(Ends, AreNotPassed) {
  std::vector<Example> examples = GetParam()->examples;
  if (std::string(GetParam()->name) == "max_pool_grad") {  // pixels in no window, of only one
    Example one = examples.back();
    auto attrs = one.attrs.as<MaxPoolAttrs>();
    attrs.height = attrs.width = 3;
    one.attrs = attrs;
    for (ExampleOperand& x : one.operands) x.spec.shape = {2, 1, 1, 16};
    examples.push_back(one);
  }
  uint64_t seed = 1;
  for (const Example& example : examples)
    run_at_ends(make_case(*GetParam(), example, seed++, gpu()));
}

std::string name_of_op(const testing::TestParamInfo<const OpDef*>& param) {
  return param.param->name;
}
INSTANTIATE_TEST_SUITE_P(Cuda, Ends, testing::ValuesIn(ops_with_kernels()), name_of_op);

}  // namespace
}  // namespace pal::test
