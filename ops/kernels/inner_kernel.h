// An operator's kernel inside another operator's: prepared with it, run in a part of its workspace.
#pragma once
#include <algorithm>
#include <array>
#include <vector>

#include "core/device.h"
#include "core/op.h"

namespace pal {

class InnerKernel {
 public:
  InnerKernel() = default;
  // The operator's kernel for operands of these specs (an absent one's has no extents), on the
  // outer kernel's device.
  InnerKernel(const Device& device, const OpDef& op, Specs in, Attrs attrs = {})
      : op_(&op), in_(std::move(in)), attrs_(std::move(attrs)) {
    out_ = infer_specs(op, in_, attrs_);
    const Backend* backend = device.kind == DeviceKind::cpu ? &op.cpu : op.cuda;
    require_of(op, backend && backend->run, "has no kernel for this device");
    run_ = backend->run;
    if (backend->prepare) prepared_ = backend->prepare(device, in_, out_, attrs_);
  }

  explicit operator bool() const { return op_ != nullptr; }
  int64_t workspace() const { return prepared_.workspace; }
  const TensorSpec& out(size_t i = 0) const { return out_[i]; }
  // The layout that operand k is best in; null: plain is as good.
  Layout preferred(size_t k) const {
    return k < prepared_.preferred.size() ? prepared_.preferred[k] : nullptr;
  }

  // Null: an operand that is absent, an output that is unread. `attrs`: others that the preparation
  // does not depend on.
  void run(const KernelArgs& outer, std::initializer_list<const void*> in,
           std::initializer_list<void*> out, std::byte* workspace,
           const Attrs* attrs = nullptr) const {
    std::array<void*, 8> operands{}, outputs{};
    std::transform(in.begin(), in.end(), operands.begin(),
                   [](const void* p) { return const_cast<void*>(p); });
    std::copy(out.begin(), out.end(), outputs.begin());
    run_({{operands.data(), in_.size()},
          {outputs.data(), out_.size()},
          in_,
          out_,
          attrs ? *attrs : attrs_,
          prepared_.state.get(),
          workspace,
          outer.queue});
  }

 private:
  const OpDef* op_ = nullptr;
  void (*run_)(const KernelArgs&) = nullptr;
  Specs in_, out_;
  Attrs attrs_;
  Prepared prepared_;
};

// Parts of a workspace, one behind the other, each on a boundary of kAlignment bytes.
class WorkspaceParts {
 public:
  // The part's place.
  int64_t add(int64_t bytes) {
    const int64_t at = bytes_;
    bytes_ += align_up(bytes);
    return at;
  }
  int64_t bytes() const { return bytes_; }

 private:
  int64_t bytes_ = 0;
};

}  // namespace pal
