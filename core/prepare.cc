// The cache of prepared kernels.
#include "core/prepare.h"

#include <algorithm>
#include <map>
#include <string>

#include "core/accelerator.h"
#include "core/error.h"

namespace pal {

ByNode<int64_t> workspace_bytes(const ByNode<std::shared_ptr<const Kernel>>& kernels) {
  ByNode<int64_t> bytes;
  bytes.reserve(kernels.size());
  for (auto& kernel : kernels) bytes.push_back(kernel->prepared.workspace);
  return bytes;
}

std::shared_ptr<const Kernel> KernelCache::get(const Program& program, const Node& node) {
  return get(*node.op, in_.of(program, node.in), out_.of(program, node.out), node.attrs);
}

std::shared_ptr<const Kernel> KernelCache::get(const OpDef& op, SpecSpan in, SpecSpan out,
                                               const Attrs& attrs) {
  size_t h = hash_combine(std::hash<const void*>{}(&op), attrs.hash());
  for (auto& spec : in) h = hash_combine(h, hash_of(spec));
  h = hash_combine(h, in.size());
  for (auto& spec : out) h = hash_combine(h, hash_of(spec));
  auto same = [](const Specs& a, SpecSpan b) { return std::ranges::equal(a, b); };
  auto& bucket = entries_[h];
  for (auto& e : bucket) {
    if (e.op == &op && same(e.kernel->in, in) && same(e.kernel->out, out) && e.attrs == attrs) {
      return e.kernel;
    }
  }
  std::shared_ptr<const Kernel> kernel;
  if (shared_) {
    const std::lock_guard lock(*turn_);
    if (device_.accelerator) device_.accelerator->use_here();
    kernel = shared_->get(op, in, out, attrs);
  } else {
    kernel = prepare(op, in, out, attrs);
  }
  bucket.push_back({&op, attrs, kernel});
  ++size_;
  return kernel;
}

std::shared_ptr<const Kernel> KernelCache::prepare(const OpDef& op, SpecSpan in, SpecSpan out,
                                                   const Attrs& attrs) const {
  const Backend* backend = device_.kind == DeviceKind::cpu ? &op.cpu : op.cuda;
  require_of(op, backend && backend->run, "has no kernel for this device");
  auto kernel = std::make_shared<Kernel>();
  kernel->run = backend->run;
  kernel->in.assign(in.begin(), in.end()), kernel->out.assign(out.begin(), out.end());
  if (backend->prepare) {
    kernel->prepared = backend->prepare(device_, kernel->in, kernel->out, attrs);
  }
  return kernel;
}

ByNode<std::shared_ptr<const Kernel>> prepare_all(const Program& program, KernelCache& cache) {
  ByNode<std::shared_ptr<const Kernel>> kernels;
  kernels.reserve(program.nodes.size());
  for (const Node& node : program.nodes) kernels.push_back(cache.get(program, node));
  return kernels;
}

std::map<std::string, std::map<std::string, int64_t>> nodes_by_code(
    const Program& program, const ByNode<std::shared_ptr<const Kernel>>& kernels) {
  std::map<std::string, std::map<std::string, int64_t>> out;
  for (NodeId n = 0; n < program.node_count(); ++n) {
    const std::string& by = kernels[n]->prepared.by;
    if (!by.empty()) ++out[program.node(n).op->name][by];
  }
  return out;
}
std::string text_of_code(const std::map<std::string, std::map<std::string, int64_t>>& nodes) {
  std::string out;
  for (const auto& [op, ways] : nodes) {
    out += (out.empty() ? "" : "; ") + op + ": ";
    const char* between = "";
    for (const auto& [by, count] : ways) {
      out += between + std::to_string(count) + " by " + by;
      between = ", ";
    }
  }
  return out;
}

}  // namespace pal
