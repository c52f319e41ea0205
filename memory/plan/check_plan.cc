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
#include "core/prepare.h"
#include "memory/plan/plan.h"
#include "memory/storages/storages.h"

namespace pal {
namespace {

struct Write {
  NodeId node = kNone;        // kNone: there before the step
  StorageId storage = kNone;  // what was written, for the message; kNone: bytes nobody may touch
  ValueId value = kNone;      // kNone: a workspace
};

struct Piece {
  int64_t end;
  int32_t mark;                 // into writes_; 0: never written
  std::vector<NodeId> readers;  // since then, the last one of each queue
};
using Bytes = std::map<int64_t, Piece>;  // by begin; no gaps

struct Extent {
  int64_t begin, end;
  int32_t mark = 0;
};

class Checker {
 public:
  Checker(const Program& program, const Storages& storages, const Plan& plan)
      : p_(program), s_(storages), plan_(plan) {
    for (const Node& node : p_.nodes) queues_ = std::max(queues_, size_t(node.queue) + 1);
    writes_.push_back({});
    made_.resize(p_.values.size());
  }

  void run() {
    bounds();
    start();
    for (NodeId n = 0; n < p_.node_count(); ++n) {
      advance(n);
      const Node& node = p_.node(n);
      for (ValueId v : node.in) {
        if (v != kNone) read(v, n);
      }
      if (StorageId w = s_.workspace[n]; w != kNone) {
        const int64_t begin = plan_.offset[w];
        write(Space::device, begin, begin + s_[w].bytes, n, {n, w, kNone}, kNone);
      }
      make(n);
    }
    finish();
    apart();
  }

 private:
  std::string name(const Write& w) const {
    if (w.storage == kNone) return "the spare input slot or another program's state";
    return w.value == kNone ? name_of(p_, s_, w.storage) : name_of(p_, w.value);
  }
  int64_t address(ValueId v) const { return plan_.offset[s_.of[v]] + s_.offset[v]; }
  int64_t size(ValueId v) const { return p_.value(v).spec.bytes(); }
  Bytes& bytes(Space space) { return bytes_[region_of(space)]; }

  void bounds() const {
    for (size_t i = 0; i < s_.list.size(); ++i) {
      const Storage& storage = s_.list[i];
      const Region& region = plan_.regions[region_of(storage.space)];
      const int64_t begin = plan_.offset[i];
      const int64_t end = begin + storage.bytes + (storage.input ? region.inputs : 0);
      const std::string what =
          "check_plan: " + name_of(p_, s_, StorageId(i)) + " at " + std::to_string(begin);
      if (begin % kAlignment) throw ProgramError(what + " is not aligned to 64 bytes");
      if (begin < 0 || end > region.bytes) {
        throw ProgramError(what + " leaves its region of " + std::to_string(region.bytes) +
                           " bytes");
      }
      if (!storage.persistent && !storage.input && storage.bytes > 0 &&
          begin < region.transients_begin()) {
        throw ProgramError(what + " lies among the state and inputs");
      }
    }
    for (const Node& node : p_.nodes) {
      for (auto* side : {&node.in, &node.out}) {
        for (ValueId v : *side) {
          if (v == kNone) continue;
          const StorageId s = s_.of[v];
          if (s == kNone || s_.offset[v] < 0 || s_.offset[v] + size(v) > s_[s].bytes ||
              s_[s].space != p_.value(v).space) {
            throw ProgramError("check_plan: " + name_of(p_, v) + " does not lie in its storage");
          }
        }
      }
    }
  }

  // The pieces of [begin, end), cut out of their neighbours.
  Bytes::iterator cut(Bytes& bytes, int64_t begin, int64_t end) {
    auto split = [&](int64_t at) {
      auto next = bytes.lower_bound(at);
      if (next != bytes.end() && next->first == at) return next;
      auto before = std::prev(next);
      if (before->second.end <= at) return next;  // the end of the region
      Piece upper = before->second;
      before->second.end = at;
      return bytes.emplace_hint(next, at, std::move(upper));
    };
    split(end);
    return split(begin);
  }

  // Bytes that hold something before the step.
  void present(Space space, int64_t begin, int64_t end, const Write& what) {
    if (begin >= end) return;
    writes_.push_back(what);
    for (auto at = cut(bytes(space), begin, end); at != bytes(space).end() && at->first < end;
         ++at) {
      if (at->second.mark != 0 && writes_[at->second.mark].storage != kNone) {
        throw ProgramError("check_plan: " + name(what) + " overlaps " +
                           name(writes_[at->second.mark]));
      }
      at->second.mark = int32_t(writes_.size()) - 1;
    }
  }

  void start() {
    for (Space space : {Space::device, Space::host}) {
      const Region& region = plan_.regions[region_of(space)];
      bytes(space).emplace(0, Piece{std::max<int64_t>(region.bytes, 1), 0, {}});
      present(space, 0, region.transients_begin(), {});
    }
    auto hold = [&](ValueId v) {
      present(p_.value(v).space, address(v), address(v) + size(v), {kNone, s_.of[v], v});
      made_[v] = extents(v);
    };
    for (auto& slot : p_.state) hold(slot.start);
    for (auto& in : p_.inputs) hold(in.value);
    for (Space space : {Space::device, Space::host}) {
      reserved_[region_of(space)] =
          marks(space, 0, plan_.regions[region_of(space)].transients_begin());
    }
  }

  std::vector<Extent> marks(Space space, int64_t begin, int64_t end) {
    std::vector<Extent> out;
    if (begin >= end) return out;
    for (auto at = cut(bytes(space), begin, end); at != bytes(space).end() && at->first < end;
         ++at) {
      if (!out.empty() && out.back().mark == at->second.mark)
        out.back().end = at->second.end;
      else
        out.push_back({at->first, at->second.end, at->second.mark});
    }
    return out;
  }
  std::vector<Extent> extents(ValueId v) {
    return marks(p_.value(v).space, address(v), address(v) + size(v));
  }

  // What is certain to have finished before node n starts: by queue, the last node.
  void advance(NodeId n) {
    if (queues_ == 1) return;
    std::vector<NodeId> mine(queues_, kNone);
    auto after = [&](NodeId m) {
      for (size_t q = 0; q < queues_; ++q) mine[q] = std::max(mine[q], finished_[m][q]);
      mine[p_.node(m).queue] = std::max(mine[p_.node(m).queue], m);
    };
    for (NodeId m = n; m-- > 0;) {
      if (p_.node(m).queue != p_.node(n).queue) continue;
      after(m);
      break;
    }
    for (NodeId m : p_.node(n).waits) after(m);
    finished_.push_back(std::move(mine));
  }
  bool before(NodeId a, NodeId n) const {
    return a == kNone || (queues_ == 1 ? a < n : finished_[n][p_.node(a).queue] >= a);
  }

  [[noreturn]] void fail(NodeId n, const std::string& what) const {
    throw ProgramError("check_plan: node " + std::to_string(n) + " [" + p_.node(n).op->name + "] " +
                       what);
  }

  void expect(ValueId v, const std::string& who) {
    const auto now = extents(v);
    const auto& made = made_[v];
    for (const Extent& e : now) {
      auto at = std::find_if(made.begin(), made.end(),
                             [&](const Extent& m) { return m.begin <= e.begin && e.end <= m.end; });
      if (at != made.end() && at->mark == e.mark) continue;
      const Write& over = writes_[e.mark];
      throw ProgramError("check_plan: " + who + " " + name_of(p_, v) + ", but " +
                         (e.mark == 0 ? "nothing was written there"
                                      : "its bytes are overwritten by " + name(over)));
    }
  }

  void read(ValueId v, NodeId n) {
    expect(v, "node " + std::to_string(n) + " [" + p_.node(n).op->name + "] reads");
    Bytes& region = bytes(p_.value(v).space);
    const int64_t end = address(v) + size(v);
    if (size(v) == 0) return;
    for (auto at = cut(region, address(v), end); at != region.end() && at->first < end; ++at) {
      const Write& last = writes_[at->second.mark];
      if (!before(last.node, n)) {
        fail(n, "reads " + name_of(p_, v) + " without waiting for node " +
                    std::to_string(last.node) + ", which writes it");
      }
      auto& readers = at->second.readers;
      std::erase_if(readers, [&](NodeId r) { return p_.node(r).queue == p_.node(n).queue; });
      readers.push_back(n);
    }
  }

  // `may`: the operand that the node may write over, because it shares bytes with the output.
  void write(Space space, int64_t begin, int64_t end, NodeId n, const Write& what, ValueId may) {
    if (begin >= end) return;
    writes_.push_back(what);
    Bytes& region = bytes(space);
    for (auto at = cut(region, begin, end); at != region.end() && at->first < end; ++at) {
      const Write& last = writes_[at->second.mark];
      if (last.node == n || !before(last.node, n)) {
        fail(n, "writes " + name(what) + " over " + name(last) + " of node " +
                    std::to_string(last.node) +
                    (last.node == n ? "" : ", for which it does not wait"));
      }
      for (NodeId r : at->second.readers) {
        if (r == n && may == kNone) {
          fail(n, "writes " + name(what) + " over its own operand " + name(last));
        }
        if (r != n && !before(r, n)) {
          fail(n, "writes " + name(what) + " over " + name(last) + ", which node " +
                      std::to_string(r) + " [" + p_.node(r).op->name + "] may still read");
        }
      }
      at->second.readers.clear();
      at->second.mark = int32_t(writes_.size()) - 1;
    }
    merge(region, begin, end);
  }

  // One piece again, so that the map stays as small as the plan is simple.
  static void merge(Bytes& region, int64_t begin, int64_t end) {
    auto first = region.find(begin);
    first->second.end = end;
    region.erase(std::next(first), region.lower_bound(end));
  }

  // The outputs of a node: what its kernel writes, without windows that are in place.
  void make(NodeId n) {
    const Node& node = p_.node(n);
    std::vector<std::vector<Extent>> in_place(node.out.size());
    if (node.op->windows) {
      const Specs in = specs_of(p_, node.in), out = specs_of(p_, node.out);
      for (const Window& w : node.op->windows(in, out, node.attrs)) {
        const ValueId i = node.in[w.operand], o = node.out[w.output];
        if (i == kNone || o == kNone || p_.value(i).space != p_.value(o).space) continue;
        const bool view = w.of == Window::Of::operand;
        const ValueId small = view ? o : i, large = view ? i : o;
        if (address(small) != address(large) + w.offset) continue;
        in_place[w.output].push_back({address(small), address(small) + size(small)});
      }
    }
    const std::vector<Share> shares = shares_of(*node.op, node.in.size());
    for (size_t i = 0; i < node.out.size(); ++i) {
      const ValueId v = node.out[i];
      if (v == kNone) continue;
      auto& there = in_place[i];
      std::sort(there.begin(), there.end(), [](auto& a, auto& b) { return a.begin < b.begin; });
      const ValueId may = shared_operand(n, int(i), shares);
      int64_t at = address(v);
      for (const Extent& e : there) {
        write(p_.value(v).space, at, e.begin, n, {n, s_.of[v], v}, may);
        at = std::max(at, e.end);
      }
      write(p_.value(v).space, at, address(v) + size(v), n, {n, s_.of[v], v}, may);
    }
    for (ValueId v : node.out) {
      if (v != kNone) made_[v] = extents(v);
    }
  }

  // The operand that output i lies on, byte for byte, and may; no other operand may touch it.
  ValueId shared_operand(NodeId n, int output, const std::vector<Share>& shares) const {
    const Node& node = p_.node(n);
    const ValueId v = node.out[output];
    ValueId may = kNone;
    for (Share share : shares) {
      if (share.output != output || size_t(share.operand) >= node.in.size()) continue;
      const ValueId u = node.in[share.operand];
      if (u == kNone || p_.value(u).space != p_.value(v).space) continue;
      if (address(u) != address(v) || size(u) != size(v)) continue;
      bool alone = true;
      for (size_t k = 0; k < node.in.size(); ++k) {
        const ValueId w = node.in[k];
        if (w == kNone || int(k) == share.operand || p_.value(w).space != p_.value(v).space)
          continue;
        alone &= address(w) + size(w) <= address(v) || address(v) + size(v) <= address(w);
      }
      if (alone) may = u;
    }
    return may;
  }

  // After the step: outputs and state are what they should be, inputs and strangers what they were.
  void finish() {
    for (auto& out : p_.outputs) expect(out.value, "after the step the caller reads");
    for (auto& slot : p_.state) {
      expect(slot.end, "the next step starts from");
      if (address(slot.start) != address(slot.end)) {
        throw ProgramError("check_plan: state " + slot.name + " does not end where it starts");
      }
    }
    for (auto& in : p_.inputs) expect(in.value, "a replayed node may read");
    for (Space space : {Space::device, Space::host}) {
      for (const Extent& e : reserved_[region_of(space)]) {
        if (writes_[e.mark].storage != kNone) continue;
        for (const Extent& now : marks(space, e.begin, e.end)) {
          if (now.mark == e.mark) continue;
          throw ProgramError("check_plan: " + name(writes_[now.mark]) +
                             " is written over the spare input slot or another program's state");
        }
      }
    }
  }

  // Even where no read goes wrong: two storages that are in use at once, from their first to their
  // last touch in program order, do not overlap.
  void apart() const {
    const auto touches = touches_of(p_, s_);
    for (Space space : {Space::device, Space::host}) {
      ByNode<std::vector<StorageId>> begin(p_.nodes.size()), end(p_.nodes.size());
      for (size_t s = 0; s < touches.size(); ++s) {
        const Storage& storage = s_.list[s];
        if (storage.space != space || storage.persistent || storage.input || storage.bytes == 0 ||
            touches[s].empty()) {
          continue;
        }
        begin[touches[s].front()].push_back(StorageId(s));
        if (!storage.output) end[touches[s].back()].push_back(StorageId(s));
      }
      std::map<int64_t, StorageId> live;  // by offset
      for (size_t n = 0; n < begin.size(); ++n) {
        for (StorageId s : begin[n]) {
          const int64_t from = plan_.offset[s];
          auto next = live.lower_bound(from);
          StorageId clash = kNone;
          if (next != live.end() && next->first < from + s_[s].bytes) clash = next->second;
          if (next != live.begin() &&
              std::prev(next)->first + s_[std::prev(next)->second].bytes > from) {
            clash = std::prev(next)->second;
          }
          if (clash != kNone) {
            throw ProgramError("check_plan: " + name_of(p_, s_, s) + " and " +
                               name_of(p_, s_, clash) + " overlap and are both alive at node " +
                               std::to_string(n));
          }
          live.emplace(from, s);
        }
        for (StorageId s : end[n]) live.erase(plan_.offset[s]);
      }
    }
  }

  const Program& p_;
  const Storages& s_;
  const Plan& plan_;
  size_t queues_ = 1;
  ByNode<std::vector<NodeId>> finished_;  // by queue
  std::array<Bytes, kRegions> bytes_;
  std::vector<Write> writes_;          // by mark
  ByValue<std::vector<Extent>> made_;  // its marks when it was made
  std::array<std::vector<Extent>, kRegions> reserved_;
};

}  // namespace

void check_plan(const Program& program, const Storages& storages, const Plan& plan) {
  Checker(program, storages, plan).run();
}

}  // namespace pal
