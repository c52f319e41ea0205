// The runner's loop, with a counter around each node.
#include "memory/run/count_launches.h"

#include <algorithm>
#include <map>

#include "memory/price/node_times.h"

namespace pal {
namespace {

bool makes_numbers(const Program& program, const Node& node) {
  return std::any_of(node.out.begin(), node.out.end(), [&](ValueId v) {
    return v != kNone && program.value(v).spec.dtype == DType::i32;
  });
}

// What launches depend on beside the node itself: which pointers are null, on which boundary of 16
// bytes they lie, and which operands lie where a result does.
std::vector<int64_t> places_of(const KernelArgs& args) {
  std::vector<int64_t> key;
  for (const auto& side : {args.in, args.out}) {
    for (void* const p : side) {
      key.push_back(p ? int64_t(reinterpret_cast<uintptr_t>(p) % 16) : -1);
    }
  }
  for (size_t o = 0; o < args.out.size(); ++o) {
    const auto* const to = static_cast<const std::byte*>(args.out[o]);
    for (size_t i = 0; to && i < args.in.size(); ++i) {
      const auto* const from = static_cast<const std::byte*>(args.in[i]);
      if (!from) continue;
      const bool apart =
          from + args.in_spec[i].bytes() <= to || to + args.out_spec[o].bytes() <= from;
      if (!apart) key.insert(key.end(), {int64_t(o), int64_t(i), from - to});
    }
  }
  return key;
}

}  // namespace

ByNode<std::vector<LaunchCount>> count_launches(Executable& step, KernelCounter& counter,
                                                Accelerator& accelerator) {
  const Compiled& compiled = step.compiled();
  const Program& program = compiled.program;
  const Storages& storages = compiled.storages;
  StaticPlan& memory = step.memory();
  const auto address = [&](StorageId s) { return memory.acquire(s, kComputeQueue); };
  for (const auto& [name, value] : program.inputs) {
    counter.write(address(storages.of[value]) + storages.offset[value], step.input(name),
                  program.value(value).spec.bytes());
  }
  std::map<std::pair<uint64_t, std::vector<int64_t>>, std::vector<LaunchCount>> known;
  ByNode<std::vector<LaunchCount>> out;
  Queue queue{.stream = accelerator.stream(kComputeQueue)};
  for (const NodeId n : program.nodes.ids()) {
    const Node& node = program.node(n);
    std::vector<void*> in, made;
    for (auto [values, pointers] : {std::pair(&node.in, &in), std::pair(&node.out, &made)}) {
      for (const ValueId v : *values) {
        pointers->push_back(v == kNone ? nullptr : address(storages.of[v]) + storages.offset[v]);
      }
    }
    const Kernel& kernel = *compiled.kernels[n];
    const StorageId scratch = storages.workspace[n];
    const KernelArgs args{.in = in,
                          .out = made,
                          .in_spec = kernel.in,
                          .out_spec = kernel.out,
                          .attrs = node.attrs,
                          .state = kernel.prepared.state.get(),
                          .workspace = scratch == kNone ? nullptr : address(scratch),
                          .queue = queue};
    const std::pair key{node_key(program, n), places_of(args)};
    const auto found = known.find(key);
    if (found != known.end() && !makes_numbers(program, node)) {
      out.push_back(found->second);
      continue;
    }
    std::vector<KernelCounter::Bytes> operands;
    for (size_t i = 0; i < in.size(); ++i) operands.push_back({in[i], kernel.in[i].bytes()});
    out.push_back(counter.count([&] { kernel.start(args); }, operands));
    known.emplace(key, out.back());
  }
  return out;
}

}  // namespace pal
