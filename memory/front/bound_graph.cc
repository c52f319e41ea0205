// Atoms from windows, marks from reachability, spans from both.
#include "memory/front/bound_graph.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "core/op.h"

namespace pal {
namespace {

constexpr int kWeightOfFirm = 1000;

// Bytes of a value: a range of what one node wrote. root -1: state or input.
struct ByteRun {
  int32_t root;
  int64_t begin, end;

  int64_t bytes() const { return end - begin; }
};
using ByteRuns = std::vector<ByteRun>;

ByteRuns slice(const ByteRuns& runs, int64_t begin, int64_t end) {
  ByteRuns out;
  int64_t at = 0;
  for (const ByteRun& p : runs) {
    const int64_t from = std::max(begin - at, int64_t{0}), to = std::min(end - at, p.bytes());
    if (from < to) out.push_back({p.root, p.begin + from, p.begin + to});
    at += p.bytes();
  }
  return out;
}

// Which bytes every value consists of.
class Tracer {
 public:
  struct Root {
    NodeId maker;
    int element_bits;
  };

  explicit Tracer(const Program& p) : runs(p.values.size()), p_(p) {
    for (ValueId v : p.values.ids()) {
      if (p.value(v).producer == kNone) runs[v] = {{-1, 0, p.value(v).spec.bytes()}};
    }
    for (NodeId n : p.nodes.ids()) trace(n);
  }

  ByValue<ByteRuns> runs;
  std::vector<Root> roots;

 private:
  void trace(NodeId n) {
    const Node& node = p_.node(n);
    const auto windows = windows_of(p_, node);
    for (ValueId v : present(node.out)) {
      const int64_t bytes = p_.value(v).spec.bytes();
      if (node.op->writes_state) {
        runs[v] = {{-1, 0, bytes}};
        continue;
      }
      const auto view = std::find_if(windows.begin(), windows.end(),
                                     [&](auto& w) { return w.is_view && w.small == v; });
      if (view != windows.end()) {
        runs[v] = slice(runs[view->large], view->offset, view->offset + bytes);
        continue;
      }
      const auto root = int32_t(roots.size());
      roots.push_back({n, bits(p_.value(v).spec.dtype)});
      std::vector<std::pair<int64_t, ValueId>> parts;
      for (const NodeWindow& w : windows) {
        if (!w.is_view && w.large == v) parts.emplace_back(w.offset, w.small);
      }
      std::sort(parts.begin(), parts.end());
      int64_t at = 0;
      for (const auto& [offset, small] : parts) {
        if (offset < at) continue;
        if (offset > at) runs[v].push_back({root, at, offset});
        std::copy(runs[small].begin(), runs[small].end(), std::back_inserter(runs[v]));
        at = offset + p_.value(small).spec.bytes();
      }
      if (at < bytes) runs[v].push_back({root, at, bytes});
    }
  }

  const Program& p_;
};

void make_unique(std::vector<AtomId>& atoms) {
  std::sort(atoms.begin(), atoms.end());
  atoms.erase(std::unique(atoms.begin(), atoms.end()), atoms.end());
}

}  // namespace

BoundGraph::BoundGraph(const Program& parts, const StateLayout& layout, const LeastTimes& times,
                       const BoundOptions& options)
    : program_(parts), times_(times), always_(layout.bytes()) {
  always_ += 2 * std::max(layout.inputs(), bytes_of_inputs(parts, Space::device));
  find_atoms();
  find_marks(options.any_order);
  find_readers(options.bits);
  count(options.in_place);
}

void BoundGraph::find_atoms() {
  const Tracer traced(program_);
  std::vector<std::vector<int64_t>> cuts(traced.roots.size());
  for (const ByteRuns& runs : traced.runs) {
    for (const ByteRun& p : runs) {
      if (p.root < 0) continue;
      cuts[size_t(p.root)].push_back(p.begin), cuts[size_t(p.root)].push_back(p.end);
    }
  }
  std::vector<AtomId> first(cuts.size());
  makes_.resize(program_.nodes.size());
  for (size_t r = 0; r < cuts.size(); ++r) {
    auto& cut = cuts[r];
    std::sort(cut.begin(), cut.end());
    cut.erase(std::unique(cut.begin(), cut.end()), cut.end());
    first[r] = atoms_.next_id();
    const NodeId maker = traced.roots[r].maker;
    for (size_t i = 0; i + 1 < cut.size(); ++i) {
      const int64_t bytes = cut[i + 1] - cut[i];
      makes_[maker].push_back(atoms_.add({.bytes = bytes,
                                          .bits = bytes / traced.roots[r].element_bits,
                                          .maker = maker,
                                          .again = program_.node(maker).phase == Phase::forward}));
    }
  }
  of_.resize(program_.values.size());
  for (ValueId v : program_.values.ids()) {
    for (const ByteRun& p : traced.runs[v]) {
      if (p.root < 0) continue;
      const auto& cut = cuts[size_t(p.root)];
      const auto from = std::lower_bound(cut.begin(), cut.end(), p.begin) - cut.begin();
      const auto to = std::lower_bound(cut.begin(), cut.end(), p.end) - cut.begin();
      for (auto i = from; i < to; ++i) of_[v].push_back(first[size_t(p.root)] + int32_t(i));
    }
    make_unique(of_[v]);
  }
}

template <class F> void BoundGraph::for_read(NodeId n, F&& f) const {
  const Node& node = program_.node(n);
  for (size_t k = 0; k < node.in.size(); ++k) {
    if (node.in[k] == kNone || (k < 64 && times_.spared[n] >> k & 1)) continue;
    const Reads reads = reads_of(*node.op, int(k), node.attrs);
    if (reads.kind != Reads::Kind::shape) f(node.in[k], reads);
  }
}

void BoundGraph::find_marks(bool any_order) {
  const size_t nodes = program_.nodes.size();
  after_.resize(nodes), before_.resize(nodes);
  if (!any_order) {
    chain_.resize(nodes);
    std::iota(chain_.begin(), chain_.end(), 0);
    for (NodeId n : program_.nodes.ids()) after_[n] = n + 1, before_[n] = n - 1;
    return;
  }
  // The longest path to each node.
  ByNode<int64_t> length(nodes, 0);
  ByNode<NodeId> from(nodes, kNone);
  NodeId last = kNone;
  for (NodeId n : program_.nodes.ids()) {
    for_read(n, [&](ValueId v, const Reads&) {
      const NodeId m = program_.value(v).producer;
      if (m != kNone && (from[n] == kNone || length[m] > length[from[n]])) from[n] = m;
    });
    const bool firm = times_.once[n] > 0 && !times_.fuses[n];
    length[n] = (from[n] == kNone ? 0 : length[from[n]]) + (firm ? kWeightOfFirm : 1);
    if (last == kNone || length[n] > length[last]) last = n;
  }
  for (NodeId n = last; n != kNone; n = from[n]) chain_.push_back(n);
  std::reverse(chain_.begin(), chain_.end());

  ByNode<Mark> mark(nodes, -1);
  const auto marks = Mark(chain_.size());
  for (Mark i = 0; i < marks; ++i) mark[chain_[size_t(i)]] = i;
  after_.assign(nodes, marks), before_.assign(nodes, -1);
  for (NodeId n : program_.nodes.ids()) {
    for_read(n, [&](ValueId v, const Reads&) {
      const NodeId m = program_.value(v).producer;
      if (m != kNone) before_[n] = std::max({before_[n], mark[m], before_[m]});
    });
  }
  for (NodeId n = program_.node_count(); n-- > 0;) {
    for_read(n, [&](ValueId v, const Reads&) {
      const NodeId m = program_.value(v).producer;
      if (m == kNone) return;
      after_[m] = std::min({after_[m], after_[n], mark[n] < 0 ? marks : mark[n]});
    });
  }
}

void BoundGraph::find_readers(bool bits) {
  reads_.resize(program_.nodes.size()), asks_.resize(program_.nodes.size());
  for (Atom& atom : atoms_) atom.made = after_[atom.maker];
  for (NodeId n : program_.nodes.ids()) {
    for_read(n, [&](ValueId v, const Reads& reads) {
      const bool asks = bits && reads.kind == Reads::Kind::predicate;
      for (AtomId a : of_[v]) {
        (asks ? asks_ : reads_)[n].push_back(a);
        Mark& last = asks ? atoms_[a].predicates : atoms_[a].values;
        last = std::max(last, before_[n]);
      }
    });
    make_unique(reads_[n]), make_unique(asks_[n]);
  }
  for (const NamedValue& out : program_.outputs) {
    for (AtomId a : of_[out.value]) atoms_[a].values = Mark(chain_.size()) - 1;
  }
}

bool BoundGraph::is_firm(Mark mark) const {
  const NodeId n = chain_[size_t(mark)];
  return times_.once[n] > 0 && !times_.fuses[n];
}

void BoundGraph::count(bool in_place) {
  const size_t marks = chain_.size();
  fixed_.assign(marks + 1, 0), kept_.assign(marks + 1, 0);
  fixed_[0] = kept_[0] = always_;
  for (const Atom& atom : atoms_) {
    const auto add = [&](Mark begin, Mark end, int64_t bytes) {
      if (begin > end) return;
      for (auto* sums : {&fixed_, &kept_}) {
        if (sums == &fixed_ && atom.again) continue;
        (*sums)[size_t(begin)] += bytes, (*sums)[size_t(end) + 1] -= bytes;
      }
    };
    add(atom.made, atom.values, atom.bytes);
    add(std::max(atom.made, atom.values + 1), atom.predicates, atom.bits);
  }
  std::partial_sum(fixed_.begin(), fixed_.end(), fixed_.begin());
  std::partial_sum(kept_.begin(), kept_.end(), kept_.begin());
  fixed_.pop_back(), kept_.pop_back();
  touched_.assign(marks, always_);
  for (Mark i = 0; i < Mark(marks); ++i) {
    if (!is_firm(i)) continue;
    for (AtomId a : reads_[chain_[size_t(i)]]) {
      const Atom& atom = atoms_[a];
      touched_[size_t(i)] += atom.bytes;
      // The value itself will do for those who will ask for bits.
      const int64_t bits = !atom.spans(i) && atom.bits_span(i) ? atom.bits : 0;
      if (atom.again || !atom.spans(i)) fixed_[size_t(i)] += atom.bytes - (atom.again ? 0 : bits);
      if (!atom.spans(i)) kept_[size_t(i)] += atom.bytes - bits;
    }
    const int64_t more = beside(i, in_place);
    for (auto* sums : {&fixed_, &kept_, &touched_}) (*sums)[size_t(i)] += more;
  }
}

// Operands of which a predicate is asked, for the last time; results that lie on no operand.
int64_t BoundGraph::beside(Mark i, bool in_place) const {
  const NodeId n = chain_[size_t(i)];
  const Node& node = program_.node(n);
  int64_t bytes = 0;
  for (AtomId a : asks_[n]) {
    const Atom& atom = atoms_[a];
    const bool read = std::binary_search(reads_[n].begin(), reads_[n].end(), a);
    if (!read && !atom.spans(i) && !atom.bits_span(i)) bytes += atom.bits;
  }
  const std::vector<Share> shares = shares_of(*node.op, node.in.size());
  const auto may_take = [&](ValueId out) {
    return in_place && std::any_of(shares.begin(), shares.end(), [&](const Share& s) {
             return size_t(s.output) < node.out.size() && node.out[size_t(s.output)] == out &&
                    size_t(s.operand) < node.in.size() && node.in[size_t(s.operand)] != kNone &&
                    program_.value(node.in[size_t(s.operand)]).spec.bytes() ==
                        program_.value(out).spec.bytes();
           });
  };
  for (ValueId v : present(node.out)) {
    if (may_take(v)) continue;
    for (AtomId a : of_[v]) {
      if (atoms_[a].maker == n && atoms_[a].values != kUnread) bytes += atoms_[a].bytes;
    }
  }
  return bytes;
}

}  // namespace pal
