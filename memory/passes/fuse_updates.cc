// Runs of equal updates, and of sums of squares, become one node of many groups.
#include "memory/passes/fuse_updates.h"

#include <algorithm>
#include <set>
#include <vector>

#include "core/op.h"
#include "core/rewriter.h"

namespace pal {
namespace {

// A run being collected, and what its nodes read and write.
struct Run {
  std::vector<NodeId> nodes;
  std::set<ValueId> read, written;  // written: old values that are overwritten, and new ones

  bool accepts(const Program& p, NodeId n) const {
    const Node &first = p.node(nodes.front()), &node = p.node(n);
    if (node.op != first.op || !node.waits.empty() || !(node.attrs == first.attrs)) {
      return false;
    }
    // The groups of one node run in any order: none may read what another writes.
    for (ValueId v : present(node.in)) {
      if (written.contains(v)) return false;
    }
    for (size_t i = 0; node.op->writes_state && i < node.out.size(); ++i) {
      if (node.out[i] != kNone && read.contains(node.in[written_operand(*node.op, int(i))])) {
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
      if (node.op->writes_state) written.insert(node.in[written_operand(*node.op, int(i))]);
    }
  }
};

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

std::optional<Program> fuse_updates(const Program& program, std::string* note) {
  Rewriter out(program);
  int before = 0, after = 0;
  for (NodeId n = 0; n < program.node_count();) {
    Run run;
    if (!takes_groups(*program.node(n).op)) {
      out.keep(n++);
      continue;
    }
    do {
      run.add(program, n++);
    } while (n < program.node_count() && run.accepts(program, n));
    if (run.nodes.size() == 1) {
      out.keep(run.nodes.front());
    } else {
      before += int(run.nodes.size()), ++after;
      out.replace(run.nodes, fused(program, run.nodes));
    }
  }
  if (note) {
    *note = before == 0 ? "nothing to fuse"
                        : std::to_string(before) + " nodes fused into " + std::to_string(after);
  }
  if (before == 0) return {};
  return out.finish();
}

}  // namespace pal
