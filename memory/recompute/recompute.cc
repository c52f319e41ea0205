// What there is to recompute, the baselines' choices, and the clones.
#include "memory/recompute/recompute.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "core/order.h"
#include "core/prepare.h"
#include "core/text.h"
#include "memory/passes/parts.h"
#include "memory/plan/report.h"
#include "memory/recompute/echo_trials.h"
#include "memory/storages/storages.h"

namespace pal {
namespace {

constexpr double kMirrorHeavy = 12;  // flops a byte; 1x1 convolutions of 64 channels: 26

bool is_among(const std::string& scope, const std::vector<std::string>& parts) {
  return parts.empty() || std::any_of(parts.begin(), parts.end(), [&](const std::string& part) {
           return scope.find(part) != std::string::npos;
         });
}

}  // namespace

StepView::StepView(const Program& p, const RecomputeOptions& options) : program(p), readers(p) {
  const size_t values = p.values.size(), nodes = p.nodes.size();
  first_use.assign(values, kNone), last_use.assign(values, kNone);
  pinned.assign(values, 0), cost.resize(nodes), clonable.assign(nodes, 0);
  const Storages storages = assign_storages(p, {}, {.inplace = false});
  storage.assign(storages.of.begin(), storages.of.end());
  for (const Storage& s : storages.list) storage_bytes.push_back(align_up(s.bytes));

  NodeId last_backward = kNone;  // the last node that may come to read a clone
  for (size_t v = 0; v < values; ++v) {
    const NodeId producer = p.values[v].producer;
    const Storage* s = storage[v] == kNone ? nullptr : &storages[storage[v]];
    pinned[v] = producer == kNone || !s || s->persistent || s->input || s->output ||
                p.node(producer).phase != Phase::forward;
    if (pinned[v]) continue;
    for (NodeId r : readers[v]) {
      const Node& reader = p.node(r);
      if (reader.phase == Phase::forward) continue;
      if (reader.phase == Phase::update) {
        pinned[v] = 1;
        continue;
      }
      if (first_use[v] == kNone) first_use[v] = r;
      last_use[v] = r;
      last_backward = std::max(last_backward, r);
    }
  }
  std::vector<NodeId> written(storages.list.size(), p.node_count());  // the first update of it
  for (NodeId n = p.node_count(); n-- > 0;) {
    if (!p.node(n).op->writes_state) continue;
    for (ValueId v : p.node(n).out) {
      if (v != kNone) written[size_t(storage[size_t(v)])] = n;
    }
  }
  for (NodeId n = 0; n < p.node_count(); ++n) {
    const Node& node = p.node(n);
    if (node.phase != Phase::forward || node.op->writes_state) continue;
    cost[size_t(n)] = cost_of(*node.op, specs_of(p, node.in), specs_of(p, node.out), node.attrs);
    clonable[size_t(n)] = is_among(p.scopes[size_t(node.scope)], options.scopes) &&
                          node.queue == kComputeQueue && node.waits.empty() &&
                          std::none_of(node.in.begin(), node.in.end(), [&](ValueId v) {
                            return v != kNone && storage[size_t(v)] != kNone &&
                                   written[size_t(storage[size_t(v)])] <= last_backward;
                          });
  }
  set_heavy(options.heavy);
}

void StepView::set_heavy(double flops_per_byte) {
  heavy.assign(program.nodes.size(), 0);
  for (size_t n = 0; n < heavy.size(); ++n) {
    heavy[n] = program.nodes[n].phase == Phase::forward &&
               cost[n].flops >= flops_per_byte * std::max(cost[n].bytes, 1.0);
  }
}

bool StepView::from_pinned(NodeId n) const {
  const auto& in = program.node(n).in;
  return std::all_of(in.begin(), in.end(), [&](ValueId v) { return stays(v); });
}

namespace {

// Drops what need not be recomputed: values nobody needs, and values whose storage is stashed for
// another's sake. What is left is `needed`.
Choice needed_of(const StepView& view, Choice choice) {
  const Program& p = view.program;
  for (size_t v = 0; v < choice.size(); ++v) {
    const NodeId producer = p.values[v].producer;
    choice[v] = choice[v] && !view.pinned[v] && view.clonable[size_t(producer)];
  }
  std::vector<char> stashed(view.storage_bytes.size(), 0);
  Choice needed;
  for (int round = 0; round < 2; ++round) {
    needed.assign(choice.size(), 0);
    for (size_t v = 0; v < choice.size(); ++v) needed[v] = view.first_use[v] != kNone;
    for (NodeId n = p.node_count(); n-- > 0;) {
      bool clone = false;
      for (ValueId v : p.node(n).out) {
        if (v == kNone || view.pinned[size_t(v)] || !needed[size_t(v)]) continue;
        choice[size_t(v)] ? clone = true : stashed[size_t(view.storage[size_t(v)])] = 1;
      }
      for (ValueId v : p.node(n).in) {
        if (clone && v != kNone) needed[size_t(v)] = 1;
      }
    }
    for (size_t v = 0; v < choice.size(); ++v) {
      if (choice[v] && stashed[size_t(view.storage[v])]) choice[v] = 0;
    }
  }
  for (size_t v = 0; v < choice.size(); ++v) needed[v] = needed[v] && choice[v];
  return needed;
}

class Lister {
 public:
  Lister(const StepView& view, CloneList& out, NodeId far)
      : view_(view), p_(view.program), out_(out), far_(far), last_(p_.nodes.size(), kNone) {}

  void run() {
    for (NodeId n = 0; n < p_.node_count(); ++n) {
      const Phase phase = p_.node(n).phase;
      if (phase != Phase::forward && phase != Phase::update) bring(n);
    }
  }

 private:
  // All that the reader needs and that is not there yet, in the order of the originals.
  void bring(NodeId reader) {
    const size_t begin = out_.clones.size();
    want(reader, reader);
    for (size_t i = begin; i < out_.clones.size(); ++i) want(out_.clones[i].original, reader);
    std::sort(out_.clones.begin() + std::ptrdiff_t(begin), out_.clones.end(),
              [](auto& a, auto& b) { return a.original < b.original; });
  }

  void want(NodeId n, NodeId reader) {
    for (ValueId v : p_.node(n).in) {
      if (v == kNone || !out_.needed[size_t(v)]) continue;
      const NodeId producer = p_.value(v).producer;
      NodeId& last = last_[size_t(producer)];
      const bool there = last != kNone && (reader - last <= far_ || !view_.from_pinned(producer));
      last = reader;
      if (!there) out_.clones.push_back({reader, producer});
    }
  }

  const StepView& view_;
  const Program& p_;
  CloneList& out_;
  const NodeId far_;
  std::vector<NodeId> last_;  // by node: the last reader (of the old program) its clone had
};

class Inserter {
 public:
  Inserter(const StepView& view, const CloneList& list)
      : view_(view), p_(view.program), list_(list), now_(list.needed.size()) {
    for (size_t v = 0; v < now_.size(); ++v) now_[v] = ValueId(v);
  }

  Clones run() {
    out_.program = without_nodes(p_, list_.clones.size());
    out_.program.nodes.reserve(p_.nodes.size() + list_.clones.size());
    out_.count = int(list_.clones.size());
    std::vector<NodeId> place(p_.nodes.size());
    auto next = list_.clones.begin();
    for (NodeId n = 0; n < p_.node_count(); ++n) {
      for (; next != list_.clones.end() && next->reader == n; ++next) clone(next->original);
      Node node = p_.node(n);
      if (node.phase != Phase::forward && node.phase != Phase::update) read_clones(node);
      for (NodeId& wait : node.waits) wait = place[size_t(wait)];
      place[size_t(n)] = out_.program.node_count();
      out_.program.nodes.push_back(std::move(node));
    }
    out_.program.relink();
    return std::move(out_);
  }

 private:
  void read_clones(Node& node) const {
    for (ValueId& v : node.in) v = v == kNone ? kNone : now_[size_t(v)];
  }

  void clone(NodeId n) {
    Node node = p_.node(n);
    node.phase = Phase::recompute;
    read_clones(node);
    for (ValueId& v : node.out) {
      if (v == kNone) continue;
      if (!list_.needed[size_t(v)]) {
        v = kNone;
        continue;
      }
      out_.program.values.push_back(p_.value(v));
      v = now_[size_t(v)] = ValueId(out_.program.values.size()) - 1;
    }
    out_.cost.flops += view_.cost[size_t(n)].flops;
    out_.cost.bytes += view_.cost[size_t(n)].bytes;
    out_.program.nodes.push_back(std::move(node));
  }

  const StepView& view_;
  const Program& p_;
  const CloneList& list_;
  std::vector<ValueId> now_;  // by value: what a backward reader reads
  Clones out_;
};

std::string amount(double x, const char* unit) {
  char text[48];
  std::snprintf(text, sizeof text, x < 10 ? "%.2f %s" : "%.0f %s", x, unit);
  return text;
}

// Nodes that are never so far apart that one clone would not do.
constexpr NodeId kAnyDistance = std::numeric_limits<NodeId>::max();

}  // namespace

CloneList list_clones(const StepView& view, Choice choice, NodeId far) {
  CloneList list{.needed = needed_of(view, std::move(choice))};
  Lister(view, list, far).run();
  return list;
}

Clones insert_clones(const StepView& view, const CloneList& list) {
  return Inserter(view, list).run();
}

Clones insert_clones(const StepView& view, Choice choice, NodeId far) {
  return insert_clones(view, list_clones(view, std::move(choice), far));
}

Choice choose_mirror(const StepView& view) {
  Choice choice(view.program.values.size(), 0);
  for (size_t v = 0; v < choice.size(); ++v) {
    const NodeId producer = view.program.values[v].producer;
    choice[v] = !view.pinned[v] && !view.heavy[size_t(producer)];
  }
  return choice;
}

Choice choose_sqrt(const StepView& view) {
  const Program& p = view.program;
  std::vector<int64_t> segment(p.nodes.size(), -1);
  int64_t forward = 0;
  for (const Node& node : p.nodes) forward += node.phase == Phase::forward;
  const int64_t segments = std::max<int64_t>(1, std::llround(std::sqrt(double(forward))));
  int64_t seen = 0;
  for (size_t n = 0; n < p.nodes.size(); ++n) {
    if (p.nodes[n].phase == Phase::forward) segment[n] = seen++ * segments / forward;
  }
  Choice choice(p.values.size(), 0);
  for (size_t v = 0; v < choice.size(); ++v) {
    if (view.pinned[v]) continue;
    const int64_t own = segment[size_t(p.values[v].producer)];
    choice[v] = std::all_of(view.readers[v].begin(), view.readers[v].end(), [&](NodeId r) {
      return segment[size_t(r)] == -1 || segment[size_t(r)] == own;
    });
  }
  return choice;
}

const char* to_string(Recompute method) { return names(method)[size_t(method)]; }

Program recompute(const Program& program, Recompute method, const FootprintOf& footprint,
                  std::string* note, const RecomputeOptions& options, const RecomputeGoal& goal) {
  auto say = [&](const std::string& text) {
    if (note) *note = text;
  };
  if (method == Recompute::none) {
    say("off");
    return program;
  }
  // Chen et al. run whole layers again, but no convolution, however few its channels.
  const bool echo = method == Recompute::echo;
  RecomputeOptions own = options;
  if (!echo) own.heavy = std::min(own.heavy, kMirrorHeavy);
  const Program parts = echo ? split_parts(program) : Program{};
  const StepView view(echo ? parts : program, own);
  Clones best;
  if (echo) {
    best = best_echo(view, options, goal);
  } else {
    Choice choice = method == Recompute::mirror ? choose_mirror(view) : choose_sqrt(view);
    best = insert_clones(view, std::move(choice), kAnyDistance);
  }
  if (best.count == 0 && best.encoded == 0) {
    say("nothing to recompute");
    return program;
  }
  const std::string added =
      std::to_string(best.count) + " nodes recomputed" +
      (best.encoded ? ", " + std::to_string(best.encoded) + " values kept as bits" : "") + ": " +
      amount(best.cost.flops * 1e-9, "Gflop") + " and " +
      amount(best.cost.bytes * 1e-9, "GB moved");
  const int64_t bytes = footprint(best.program);
  if (bytes >= footprint(program)) {
    say("undone: with " + added + " the step would need " + format_bytes(bytes));
    return program;
  }
  say(added);
  return std::move(best.program);
}

}  // namespace pal
