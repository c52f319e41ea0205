// Runs of equal updates become one node of many groups.
#include "memory/passes/fuse_updates.h"

#include <algorithm>
#include <set>
#include <vector>

#include "core/op.h"
#include "memory/storages/lifetimes.h"

namespace pal {
namespace {

// A run being collected, and what its nodes read and write.
struct Run {
  std::vector<NodeId> nodes;
  std::set<ValueId> read, written;  // written: old values that are overwritten, and new ones

  bool accepts(const Program& p, NodeId n) const {
    const Node &first = p.node(nodes.front()), &node = p.node(n);
    if (node.op != first.op || node.queue != first.queue || !node.waits.empty() ||
        !(node.attrs == first.attrs)) {
      return false;
    }
    // The groups of one node run in any order: none may read what another writes.
    for (ValueId v : node.in) {
      if (v != kNone && written.count(v)) return false;
    }
    for (size_t i = 0; i < node.out.size(); ++i) {
      if (node.out[i] != kNone && read.count(node.in[size_t(written_operand(*node.op, int(i)))])) {
        return false;
      }
    }
    return true;
  }
  void add(const Program& p, NodeId n) {
    const Node& node = p.node(n);
    nodes.push_back(n);
    for (ValueId v : node.in) read.insert(v);
    for (size_t i = 0; i < node.out.size(); ++i) {
      if (node.out[i] == kNone) continue;
      written.insert(node.out[i]);
      written.insert(node.in[size_t(written_operand(*node.op, int(i)))]);
    }
  }
};

bool can_batch(const Node& node) { return node.op->writes_state && node.op->arity; }

Node fused(const Program& p, const std::vector<NodeId>& run) {
  Node out = p.node(run.front());
  out.in.clear(), out.out.clear();
  for (NodeId n : run) {
    const Node& node = p.node(n);
    out.in.insert(out.in.end(), node.in.begin(), node.in.end());
    out.out.insert(out.out.end(), node.out.begin(), node.out.end());
    if (node.scope != out.scope) out.scope = 0;
    if (node.step != out.step) out.step = kNone;
  }
  return out;
}

}  // namespace

Program fuse_updates(const Program& program, std::string* note,
                     std::span<const int64_t> workspace_bytes) {
  Program out = without_nodes(program);
  std::vector<NodeId> place(program.nodes.size());
  std::vector<int64_t> workspace;
  int before = 0, after = 0;
  for (NodeId n = 0; n < program.node_count();) {
    Run run;
    if (!can_batch(program.node(n))) {
      run.nodes = {n};
    } else {
      run.add(program, n);
      while (n + NodeId(run.nodes.size()) < program.node_count() &&
             run.accepts(program, n + NodeId(run.nodes.size()))) {
        run.add(program, n + NodeId(run.nodes.size()));
      }
    }
    int64_t bytes = 0;
    for (NodeId m : run.nodes) {
      place[size_t(m)] = out.node_count();
      if (!workspace_bytes.empty()) bytes += workspace_bytes[size_t(m)];
    }
    workspace.push_back(bytes);
    if (run.nodes.size() > 1) {
      before += int(run.nodes.size()), ++after;
      out.nodes.push_back(fused(program, run.nodes));
    } else {
      out.nodes.push_back(program.node(n));
    }
    n += NodeId(run.nodes.size());
  }
  for (Node& node : out.nodes) {
    for (NodeId& wait : node.waits) wait = place[size_t(wait)];
  }
  out.relink();
  auto say = [&](const std::string& text) {
    if (note) *note = text;
  };
  if (before == 0) {
    say("nothing to fuse");
    return program;
  }
  if (peak_bytes(out, workspace) > peak_bytes(program, workspace_bytes)) {
    say("fused updates would raise the peak: kept apart");
    return program;
  }
  say(std::to_string(before) + " updates fused into " + std::to_string(after));
  return out;
}

}  // namespace pal
