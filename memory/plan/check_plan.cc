// check_plan: who wrote each byte last, and who has read it since, followed through the whole step.
//
// A region is a map of pieces [begin, end), each with the mark of its last write. A value remembers
// the marks that its bytes had when it was made; whoever reads it must find them again. That is all
// there is to a lifetime, so neither lifetimes.cc nor order.h is asked here.
#include <algorithm>
#include <map>
#include <string>

#include "core/error.h"
#include "core/op.h"
#include "memory/plan/plan.h"
#include "memory/storages/storages.h"

namespace pal {
namespace {

constexpr Space kSpaces[] = {Space::device, Space::host};

[[noreturn]] void fail(const std::string& what) { throw ProgramError("check_plan: " + what); }

// Where the plan has the values of a program.
struct Addresses {
  const Program& p;
  const Storages& s;
  const Plan& plan;

  Space space(ValueId v) const { return p.value(v).space; }
  int64_t begin(ValueId v) const { return plan.offset[s.of[v]] + s.offset[v]; }
  int64_t end(ValueId v) const { return begin(v) + bytes(v); }
  int64_t bytes(ValueId v) const { return p.value(v).spec.bytes(); }
  const Region& region(Space space) const { return plan.regions[region_of(space)]; }
  bool meet(ValueId a, ValueId b) const {
    return space(a) == space(b) && begin(a) < end(b) && begin(b) < end(a);
  }
};

// Storages lie in their regions, and values in their storages.
void check_bounds(const Addresses& at) {
  for (StorageId s : at.s.list.ids()) {
    const Storage& storage = at.s[s];
    const Region& region = at.region(storage.space);
    const int64_t begin = at.plan.offset[s];
    const int64_t end = begin + storage.bytes + (storage.input ? region.inputs : 0);
    const std::string what = name_of(at.p, at.s, s) + " at " + std::to_string(begin);
    if (begin % kAlignment) fail(what + " is not aligned to 64 bytes");
    if (begin < 0 || end > region.bytes) {
      fail(what + " leaves its region of " + std::to_string(region.bytes) + " bytes");
    }
    if (storage.is_transient() && storage.bytes > 0 && begin < region.transients_begin()) {
      fail(what + " lies among the state and inputs");
    }
  }
  for (const Node& node : at.p.nodes) {
    for (auto* side : {&node.in, &node.out}) {
      for (ValueId v : present(*side)) {
        const StorageId s = at.s.of[v];
        if (s == kNone || at.s.offset[v] < 0 || at.s.offset[v] + at.bytes(v) > at.s[s].bytes ||
            at.s[s].space != at.space(v)) {
          fail(name_of(at.p, v) + " does not lie in its storage");
        }
      }
    }
  }
}

// Even where no read goes wrong: two storages that are in use at once, from their first to their
// last touch in program order, do not overlap.
void check_apart(const Addresses& at) {
  const auto touches = touches_of(at.p, at.s);
  for (Space space : kSpaces) {
    std::vector<Buffer> buffers;
    std::vector<int64_t> offset;
    std::vector<StorageId> which;
    for (StorageId s : at.s.list.ids()) {
      const Storage& storage = at.s[s];
      if (storage.space != space || !storage.is_transient() || touches[s].empty()) continue;
      const NodeId last = storage.output ? NodeId(at.p.node_count() - 1) : touches[s].back();
      buffers.push_back({touches[s].front(), last + 1, storage.bytes});
      offset.push_back(at.plan.offset[s]);
      which.push_back(s);
    }
    if (const auto clash = overlap_of(buffers, offset)) {
      fail(name_of(at.p, at.s, which[clash->second]) + " and " +
           name_of(at.p, at.s, which[clash->first]) + " overlap and are both alive at node " +
           std::to_string(buffers[clash->second].lower));
    }
  }
}

// What is certain to have finished before a node starts: by queue, the last node.
class Finished {
 public:
  explicit Finished(const Program& p) : p_(p) {
    for (const Node& node : p.nodes) queues_ = std::max(queues_, size_t(node.queue) + 1);
    if (queues_ == 1) return;
    std::vector<NodeId> last(queues_, kNone);
    for (NodeId n : p.nodes.ids()) {
      std::vector<NodeId> mine(queues_, kNone);
      auto after = [&](NodeId m) {
        if (m == kNone) return;
        for (size_t q = 0; q < queues_; ++q) mine[q] = std::max(mine[q], by_queue_[m][q]);
        mine[p.node(m).queue] = std::max(mine[p.node(m).queue], m);
      };
      after(last[p.node(n).queue]);
      for (NodeId m : p.node(n).waits) after(m);
      last[p.node(n).queue] = n;
      by_queue_.push_back(std::move(mine));
    }
  }
  bool before(NodeId a, NodeId n) const {
    return a == kNone || (queues_ == 1 ? a < n : by_queue_[n][p_.node(a).queue] >= a);
  }

 private:
  const Program& p_;
  size_t queues_ = 1;
  ByNode<std::vector<NodeId>> by_queue_;  // empty: one queue
};

struct Piece {
  int64_t end;
  int32_t mark;                 // of the last write; 0: never written
  std::vector<NodeId> readers;  // since then, the last one of each queue
};

struct Extent {
  int64_t begin, end;
  int32_t mark = 0;
};

// A region's bytes in pieces that have the same past, by where they begin; without gaps.
class Bytes {
  using Map = std::map<int64_t, Piece>;
  struct Range {
    Map::iterator first, last;
    Map::iterator begin() const { return first; }
    Map::iterator end() const { return last; }
  };

 public:
  explicit Bytes(int64_t bytes) { pieces_.emplace(0, Piece{std::max<int64_t>(bytes, 1), 0, {}}); }

  // The pieces of [begin, end), cut out of their neighbours.
  auto pieces(int64_t begin, int64_t end) {
    if (begin >= end) return Range{pieces_.end(), pieces_.end()};
    const auto last = split(end);
    return Range{split(begin), last};
  }
  std::vector<Extent> marks(int64_t begin, int64_t end) {
    std::vector<Extent> out;
    for (const auto& [at, piece] : pieces(begin, end)) {
      if (!out.empty() && out.back().mark == piece.mark)
        out.back().end = piece.end;
      else
        out.push_back({at, piece.end, piece.mark});
    }
    return out;
  }
  // One piece again, so that the map stays as small as the plan is simple.
  void merge(int64_t begin, int64_t end) {
    const auto first = pieces_.find(begin);
    first->second.end = end;
    pieces_.erase(std::next(first), pieces_.lower_bound(end));
  }

 private:
  Map::iterator split(int64_t at) {
    const auto next = pieces_.lower_bound(at);
    if (next != pieces_.end() && next->first == at) return next;
    const auto before = std::prev(next);
    if (before->second.end <= at) return next;  // the end of the region
    Piece upper = before->second;
    before->second.end = at;
    return pieces_.emplace_hint(next, at, std::move(upper));
  }

  Map pieces_;
};

struct Write {
  NodeId node = kNone;        // kNone: there before the step
  StorageId storage = kNone;  // what was written, for the message; kNone: bytes nobody may touch
  ValueId value = kNone;      // kNone: a workspace
};

// All bytes of a step, as its nodes read and write them.
class History {
 public:
  explicit History(const Addresses& at)
      : at_(at),
        finished_(at.p),
        bytes_{Bytes(at.plan.device().bytes), Bytes(at.plan.host().bytes)},
        made_(at.p.values.size()) {}

  const Write& written(int32_t mark) const { return writes_[mark]; }
  std::string name(const Write& w) const {
    if (w.storage == kNone) return "the spare input slot or another program's state";
    return w.value == kNone ? name_of(at_.p, at_.s, w.storage) : name_of(at_.p, w.value);
  }
  std::vector<Extent> marks(Space space, int64_t begin, int64_t end) {
    return bytes(space).marks(begin, end);
  }
  // From now on the value is what its bytes hold.
  void remember(ValueId v) { made_[v] = marks(at_.space(v), at_.begin(v), at_.end(v)); }

  // These bytes hold something before the step.
  void present_at_start(Space space, int64_t begin, int64_t end, const Write& what) {
    writes_.push_back(what);
    for (auto& [at, piece] : bytes(space).pieces(begin, end)) {
      if (piece.mark != 0 && writes_[piece.mark].storage != kNone) {
        fail(name(what) + " overlaps " + name(writes_[piece.mark]));
      }
      piece.mark = newest();
    }
  }

  // The value is still there, for the one who is named.
  template <class Who> void expect(ValueId v, const Who& who) {
    const auto& made = made_[v];
    for (const Extent& e : marks(at_.space(v), at_.begin(v), at_.end(v))) {
      const auto at = std::find_if(made.begin(), made.end(), [&](const Extent& m) {
        return m.begin <= e.begin && e.end <= m.end;
      });
      if (at != made.end() && at->mark == e.mark) continue;
      fail(join_parts(who) + " " + name_of(at_.p, v) + ", but " +
           (e.mark == 0 ? "nothing was written there"
                        : "its bytes are overwritten by " + name(writes_[e.mark])));
    }
  }

  void read(ValueId v, NodeId n) {
    expect(v, [&] { return node(n) + "reads"; });
    for (auto& [at, piece] : bytes(at_.space(v)).pieces(at_.begin(v), at_.end(v))) {
      const Write& last = writes_[piece.mark];
      if (!finished_.before(last.node, n)) {
        fail(node(n) + "reads " + name_of(at_.p, v) + " without waiting for node " +
             std::to_string(last.node) + ", which writes it");
      }
      std::erase_if(piece.readers,
                    [&](NodeId r) { return at_.p.node(r).queue == at_.p.node(n).queue; });
      piece.readers.push_back(n);
    }
  }

  // `over_operand`: the node may write over bytes that it reads.
  void write(Space space, int64_t begin, int64_t end, const Write& what, bool over_operand) {
    if (begin >= end) return;
    writes_.push_back(what);
    const NodeId n = what.node;
    auto refuse = [&](const std::string& victim) {
      fail(node(n) + "writes " + name(what) + " over " + victim);
    };
    for (auto& [at, piece] : bytes(space).pieces(begin, end)) {
      const Write& last = writes_[piece.mark];
      if (last.node == n || !finished_.before(last.node, n)) {
        refuse(name(last) + " of node " + std::to_string(last.node) +
               (last.node == n ? "" : ", for which it does not wait"));
      }
      for (NodeId r : piece.readers) {
        if (r == n && !over_operand) refuse("its own operand " + name(last));
        if (r != n && !finished_.before(r, n)) {
          refuse(name(last) + ", which " + node(r) + "may still read");
        }
      }
      piece.readers.clear();
      piece.mark = newest();
    }
    bytes(space).merge(begin, end);
  }

 private:
  Bytes& bytes(Space space) { return bytes_[region_of(space)]; }
  int32_t newest() const { return int32_t(writes_.size()) - 1; }
  std::string node(NodeId n) const {
    return "node " + std::to_string(n) + " [" + at_.p.node(n).op->name + "] ";
  }

  const Addresses& at_;
  const Finished finished_;
  std::array<Bytes, kRegions> bytes_;
  std::vector<Write> writes_{{}};      // by mark
  ByValue<std::vector<Extent>> made_;  // the marks of its bytes when it was made
};

// Whether output v lies on an operand that it may share bytes with, byte for byte, and on no other.
bool lies_on_shared(const Addresses& at, const Node& node, size_t output) {
  const ValueId v = node.out[output];
  for (Share share : shares_of(*node.op, node.in.size())) {
    const size_t operand = size_t(share.operand);
    if (size_t(share.output) != output || operand >= node.in.size()) continue;
    const ValueId u = node.in[operand];
    if (u == kNone || at.space(u) != at.space(v) || at.begin(u) != at.begin(v) ||
        at.bytes(u) != at.bytes(v)) {
      continue;
    }
    bool alone = true;
    for (size_t k = 0; k < node.in.size(); ++k) {
      alone &= k == operand || node.in[k] == kNone || !at.meet(node.in[k], v);
    }
    if (alone) return true;
  }
  return false;
}

// What the kernel of node n writes: its workspace, and its outputs without windows in place.
void write_outputs(const Addresses& at, NodeId n, History& history) {
  const Node& node = at.p.node(n);
  if (const StorageId w = at.s.workspace[n]; w != kNone) {
    const int64_t begin = at.plan.offset[w];
    history.write(Space::device, begin, begin + at.s[w].bytes, {n, w, kNone}, false);
  }
  std::vector<std::vector<Extent>> in_place(node.out.size());
  for (const NodeWindow& w : windows_of(at.p, node)) {
    if (at.space(w.small) != at.space(w.large)) continue;
    if (at.begin(w.small) != at.begin(w.large) + w.offset) continue;
    in_place[w.output].push_back({at.begin(w.small), at.end(w.small)});
  }
  for (size_t i = 0; i < node.out.size(); ++i) {
    const ValueId v = node.out[i];
    if (v == kNone) continue;
    const bool shared = lies_on_shared(at, node, i);
    const Write what{n, at.s.of[v], v};
    std::sort(in_place[i].begin(), in_place[i].end(),
              [](auto& a, auto& b) { return a.begin < b.begin; });
    int64_t begin = at.begin(v);
    for (const Extent& e : in_place[i]) {
      history.write(at.space(v), begin, e.begin, what, shared);
      begin = std::max(begin, e.end);
    }
    history.write(at.space(v), begin, at.end(v), what, shared);
  }
  for (ValueId v : present(node.out)) history.remember(v);
}

// The step from its start to its end.
void check_bytes(const Addresses& at) {
  History history(at);
  std::array<std::vector<Extent>, kRegions> reserved;  // state and inputs, all programs'
  for (Space space : kSpaces) {
    history.present_at_start(space, 0, at.region(space).transients_begin(), {});
  }
  auto start = [&](ValueId v) {
    history.present_at_start(at.space(v), at.begin(v), at.end(v), {kNone, at.s.of[v], v});
    history.remember(v);
  };
  for (auto& slot : at.p.state) start(slot.start);
  for (auto& in : at.p.inputs) start(in.value);
  for (Space space : kSpaces) {
    reserved[region_of(space)] = history.marks(space, 0, at.region(space).transients_begin());
  }
  for (NodeId n : at.p.nodes.ids()) {
    for (ValueId v : present(at.p.node(n).in)) history.read(v, n);
    write_outputs(at, n, history);
  }
  // Outputs and state are what they should be; inputs and other programs' state are what they were.
  for (auto& out : at.p.outputs) history.expect(out.value, "after the step the caller reads");
  for (auto& slot : at.p.state) {
    history.expect(slot.end, "the next step starts from");
    if (at.begin(slot.start) != at.begin(slot.end)) {
      fail("state " + slot.name + " does not end where it starts");
    }
  }
  for (auto& in : at.p.inputs) history.expect(in.value, "a replayed node may read");
  for (Space space : kSpaces) {
    for (const Extent& e : reserved[region_of(space)]) {
      if (history.written(e.mark).storage != kNone) continue;
      for (const Extent& now : history.marks(space, e.begin, e.end)) {
        if (now.mark == e.mark) continue;
        fail(history.name(history.written(now.mark)) +
             " is written over the spare input slot or another program's state");
      }
    }
  }
}

}  // namespace

void check_plan(const Program& program, const Storages& storages, const Plan& plan) {
  const Addresses at{program, storages, plan};
  check_bounds(at);
  check_bytes(at);
  check_apart(at);
}

}  // namespace pal
