// The first phase of every kernel: one prepared state per distinct (operator, attributes, specs).
#pragma once
#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/device.h"
#include "core/op.h"

namespace pal {

// A kernel ready to be started, shared by all nodes of the same operator, attributes and specs.
struct Kernel {
  void (*run)(const KernelArgs&) = nullptr;
  Prepared prepared;
  Specs in, out;

  // Runs it, unless none of its outputs is read.
  void start(const KernelArgs& args) const {
    const auto read = [](const void* output) { return output != nullptr; };
    if (std::any_of(args.out.begin(), args.out.end(), read)) run(args);
  }
};

// Prepares on demand and remembers. One per device; not thread-safe.
class KernelCache {
 public:
  explicit KernelCache(Device device) : device_(std::move(device)) {}
  // For one of several threads: asks `shared` for what it has not seen, when it has its turn. Both
  // outlive it. While threads ask, nobody asks `shared` itself.
  KernelCache(KernelCache& shared, std::mutex& turn)
      : device_(shared.device_), shared_(&shared), turn_(&turn) {}

  // ProgramError when the operator has no kernel for this device.
  std::shared_ptr<const Kernel> get(const Program& program, const Node& node);
  std::shared_ptr<const Kernel> get(const OpDef& op, SpecSpan in, SpecSpan out, const Attrs& attrs);
  const Device& device() const { return device_; }
  size_t size() const { return size_; }

 private:
  struct Entry {
    const OpDef* op;
    Attrs attrs;
    std::shared_ptr<const Kernel> kernel;
  };
  std::shared_ptr<const Kernel> prepare(const OpDef& op, SpecSpan in, SpecSpan out,
                                        const Attrs& attrs) const;

  Device device_;
  KernelCache* shared_ = nullptr;
  std::mutex* turn_ = nullptr;
  SpecList in_, out_;
  std::unordered_map<size_t, std::vector<Entry>> entries_;
  size_t size_ = 0;
};

// The kernel of every node, in order.
ByNode<std::shared_ptr<const Kernel>> prepare_all(const Program& program, KernelCache& cache);

// By whose code the kernels run, where that was a choice (Prepared::by): how many nodes of each
// operator.
std::map<std::string, std::map<std::string, int64_t>> nodes_by_code(
    const Program& program, const ByNode<std::shared_ptr<const Kernel>>& kernels);
// The same as text, "conv2d: 53 by cuDNN's graph; matmul: ..", empty where there was none.
std::string text_of_code(const std::map<std::string, std::map<std::string, int64_t>>& nodes);

// Scratch bytes of every node.
ByNode<int64_t> workspace_bytes(const ByNode<std::shared_ptr<const Kernel>>& kernels);

}  // namespace pal
