// One walk over the actions. Values are renamed where their bytes are new; waits follow from who
// touched the bytes last, on which queue.
#include "memory/dynamic/lower.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/op.h"
#include "memory/passes/assign_queues.h"
#include "memory/place/buffers/load.h"
#include "memory/storages/storages.h"
#include "ops/tensors/transfers.h"
#include "ops/tensors/views.h"

namespace pal {
namespace {

constexpr size_t kQueues = 3;
using Marks = std::array<NodeId, kQueues>;  // by queue: a node, or kNone

void take_later(Marks& marks, const Marks& others) {
  for (size_t q = 0; q < kQueues; ++q) marks[q] = std::max(marks[q], others[q]);
}

// The bytes of a region, and who had them last.
class Occupants {
 public:
  // The storages that lay in [begin, end); from now on it is `storage`.
  std::vector<StorageId> take(int64_t begin, int64_t end, StorageId storage) {
    std::vector<StorageId> before;
    auto at = pieces_.lower_bound(begin);
    if (at != pieces_.begin() && std::prev(at)->second.end > begin) --at;
    while (at != pieces_.end() && at->first < end) {
      const auto [from, piece] = *at;
      before.push_back(piece.storage);
      at = pieces_.erase(at);
      if (from < begin) pieces_[from] = {begin, piece.storage};
      if (piece.end > end) at = pieces_.insert({end, {piece.end, piece.storage}}).first;
    }
    if (end > begin) pieces_[begin] = {end, storage};
    return before;
  }

 private:
  struct Piece {
    int64_t end;
    StorageId storage;
  };
  std::map<int64_t, Piece> pieces_;
};

class Lowering {
 public:
  Lowering(const StepFacts& facts, const StateLayout& layout)
      : f_(facts),
        p_(facts.program),
        out_{.program = without_nodes(p_), .storages = {}, .plan = {}},
        now_(p_.values.size(), kNone),
        was_made_(p_.values.size(), 0),
        host_(p_.values.size(), kNone),
        current_(f_.bytes.size(), kNone),
        leaves_(f_.bytes.size()),
        copied_(f_.bytes.size()),
        of_(p_.values.size(), kNone),
        offset_(p_.values.size(), 0) {
    add_fixed(layout);
    for (ValueId v : p_.values.ids()) {
      if (p_.value(v).producer == kNone) now_[v] = v, lies_in(v, v);
    }
    for (const NamedValue& output : p_.outputs) {
      const NodeId n = p_.value(output.value).producer;
      if (n != kNone && f_.is_free[n]) viewed_.push_back(output.value);
    }
    std::sort(viewed_.begin(), viewed_.end(),
              [&](ValueId a, ValueId b) { return p_.value(a).producer < p_.value(b).producer; });
  }

  Lowered run(const Decisions& decisions) {
    for (const Action& action : decisions.actions) {
      switch (action.kind) {
        case Action::Kind::run:
          name_views_before(action.node);
          write(action.node, nullptr);
          break;
        case Action::Kind::again: write(action.node, &action.made); break;
        case Action::Kind::take: take(action.storage, action.place); break;
        case Action::Kind::offload: offload(action.storage, action.place); break;
        case Action::Kind::reload: reload(action.storage); break;
        case Action::Kind::move: move(action.storage, action.place); break;
        case Action::Kind::nothing: break;
      }
    }
    name_views_before(p_.node_count());
    out_.program.relink();
    finish_storages();
    Region &device = out_.plan.regions[region_of(Space::device)],
           &host = out_.plan.regions[region_of(Space::host)];
    device.bytes = slab_begin_ + decisions.slab_bytes,
    host.bytes = host_begin_ + decisions.host_bytes;
    for (Space space : {Space::device, Space::host}) {
      Region& region = out_.plan.regions[region_of(space)];
      const Transients transients = transients_of(out_.program, out_.storages, space);
      region.lower_bound =
          std::min(region.bytes, region.transients_begin() + lower_bound_of(transients.buffers));
    }
    return std::move(out_);
  }

 private:
  // Storages that do not come and go: state and inputs, then outputs, and the host's.
  void add_fixed(const StateLayout& layout) {
    const Storages& s = f_.storages;
    const Plan fixed = plan_of_fixed(p_, s, layout);
    out_.plan.regions = fixed.regions;
    out_.plan.order = "as bytes were asked for";
    slab_begin_ = fixed.device().transients_begin(), host_begin_ = fixed.host().transients_begin();
    for (StorageId id : s.list.ids()) {
      const Storage& storage = s[id];
      if (f_.comes_and_goes(id) || storage.workspace_of != kNone) continue;
      int64_t& end = storage.space == Space::device ? slab_begin_ : host_begin_;
      const int64_t place = storage.is_transient() ? end : fixed.offset[id];
      if (storage.is_transient()) end += align_up(storage.bytes);
      current_[id] = add_storage(storage, place);
    }
  }
  StorageId add_storage(const Storage& storage, int64_t place) {
    out_.plan.offset.push_back(place);
    members_.emplace_back(), reads_.push_back({}), writes_.push_back({});
    return out_.storages.list.add(storage);
  }
  // The name's bytes are those of the value.
  void lies_in(ValueId name, ValueId value) {
    lies_in(name, current_[f_.storages.of[value]], f_.storages.offset[value]);
  }
  void lies_in(ValueId name, StorageId s, int64_t offset) {
    members_[s].push_back(name);
    of_[name] = s, offset_[name] = offset;
  }
  ValueId add_value(Value value) {
    of_.push_back(kNone), offset_.push_back(0);
    return out_.program.values.add(std::move(value));
  }

  // Whoever first writes to the bytes waits for all who had them.
  StorageId occupy(Storage storage, int64_t place, Occupants& occupants) {
    const StorageId id = add_storage(storage, place);
    for (StorageId old : occupants.take(place, place + align_up(storage.bytes), id)) {
      take_later(reads_[id], reads_[old]), take_later(reads_[id], writes_[old]);
    }
    return id;
  }

  void take(StorageId s, int64_t place) {
    current_[s] = occupy(f_.storages[s], slab_begin_ + place, device_);
    for (ValueId v : f_.storages.values_of(s)) now_[v] = kNone;
    leaves_[s].clear();
  }

  // A name for the value from now on: its own number, the first time.
  ValueId define(ValueId v) {
    ValueId name = v;
    if (std::exchange(was_made_[v], 1)) name = add_value(p_.value(v));
    now_[v] = name;
    lies_in(name, v);
    return name;
  }

  // What a node reads now. A view is made where it is read first on its new bytes.
  ValueId name(ValueId v) {
    if (now_[v] != kNone) return now_[v];
    const NodeId n = p_.value(v).producer;
    if (!f_.is_free[n]) return window(v);
    Node node = p_.node(n);
    for (ValueId& in : node.in) in = in == kNone ? in : name(in);
    for (ValueId& made : node.out) made = made == v ? define(v) : ValueId(kNone);
    add(std::move(node), kNone, true);
    return now_[v];
  }
  // A part of what was copied, by views of it.
  ValueId window(ValueId v) {
    const StorageId s = f_.storages.of[v];
    const auto whole = std::find_if(leaves_[s].begin(), leaves_[s].end(),
                                    [&](ValueId u) { return is_within(v, u); });
    if (whole == leaves_[s].end()) {
      throw ProgramError("the dynamic memory manager lost " + name_of(p_, v));
    }
    const TensorSpec spec = p_.value(v).spec, large = p_.value(*whole).spec;
    const int64_t in_row = std::max(1, 8 / bits(spec.dtype));  // elements on whole bytes
    const int64_t begin =
        (f_.storages.offset[v] - f_.storages.offset[*whole]) * 8 / (in_row * bits(spec.dtype));
    const int64_t rows = spec.numel() / in_row;
    const auto part = [&](ValueId from, const OpDef& op, Attrs attrs, ValueId made,
                          const Shape& shape) {
      Value value = p_.value(v);
      value.spec.shape = shape;
      if (made == kNone) made = add_value(value), lies_in(made, v);
      Node node{.op = &op,
                .attrs = std::move(attrs),
                .in = {from},
                .out = {made},
                .phase = Phase::recompute,
                .scope = value.scope,
                .step = value.step};
      add(std::move(node), kNone, true);
      return made;
    };
    const Shape flat{large.numel() / in_row, in_row}, some{rows, in_row};
    const ValueId all = part(now_[*whole], reshape_op, ReshapeAttrs{flat}, kNone, flat);
    offset_[all] = f_.storages.offset[*whole];
    const ValueId cut = part(all, slice_op, SliceAttrs{begin, begin + rows}, kNone, some);
    return part(cut, reshape_op, ReshapeAttrs{spec.shape}, define(v), spec.shape);
  }
  bool is_within(ValueId small, ValueId large) const {
    const TensorSpec &a = p_.value(small).spec, &b = p_.value(large).spec;
    const int64_t begin = f_.storages.offset[small] - f_.storages.offset[large];
    const int64_t in_row = std::max(1, 8 / bits(a.dtype));
    return a.dtype == b.dtype && !a.layout && !b.layout && begin >= 0 &&
           begin + a.bytes() <= b.bytes() && a.numel() % in_row == 0 && b.numel() % in_row == 0 &&
           begin * 8 % (in_row * bits(a.dtype)) == 0;
  }
  void name_views_before(NodeId n) {
    while (next_view_ < viewed_.size() && p_.value(viewed_[next_view_]).producer < n) {
      name(viewed_[next_view_++]);
    }
  }

  void write(NodeId n, const std::vector<StorageId>* made) {
    Node node = p_.node(n);
    if (made) node.phase = Phase::recompute;
    for (ValueId& in : node.in) in = in == kNone ? in : name(in);
    for (ValueId& v : node.out) {
      if (v == kNone) continue;
      const StorageId s = f_.storages.of[v];
      if (made && std::find(made->begin(), made->end(), s) == made->end()) {
        v = kNone;
        continue;
      }
      if (f_.comes_and_goes(s)) add_leaf(s, v);
      v = define(v);
    }
    const StorageId workspace = f_.storages.workspace[n];
    const NodeId at = add(std::move(node), workspace);
    if (workspace != kNone) out_.storages.list[current_[workspace]].workspace_of = at;
  }
  // The values whose bytes a storage has now: what is written over is one no more.
  void add_leaf(StorageId s, ValueId v) {
    const auto begin = [&](ValueId u) { return f_.storages.offset[u]; };
    const auto end = [&](ValueId u) { return begin(u) + p_.value(u).spec.bytes(); };
    std::vector<ValueId>& leaves = leaves_[s];
    std::erase_if(leaves, [&](ValueId u) { return begin(u) < end(v) && begin(v) < end(u); });
    leaves.push_back(v);
  }

  // One copy for all that has been gathered, rather than one for each part.
  void gather_leaves(StorageId s) {
    if (leaves_[s].size() < 2) return;
    for (ValueId v : f_.storages.values_of(s)) {
      const NodeId n = p_.value(v).producer;
      if (now_[v] != kNone || !f_.is_free[n]) continue;
      const std::vector<ValueId>& parts = p_.node(n).in;
      if (parts.size() < 2 || !std::all_of(parts.begin(), parts.end(), [&](ValueId u) {
            return u != kNone && now_[u] != kNone && is_within(u, v);
          })) {
        continue;
      }
      name(v);
      add_leaf(s, v);
    }
  }

  void offload(StorageId s, int64_t place) {
    Storage storage{.bytes = f_.storages[s].bytes, .space = Space::host};
    const StorageId id = occupy(storage, host_begin_ + place, host_bytes_);
    gather_leaves(s);
    copied_[s] = leaves_[s];
    for (ValueId v : copied_[s]) {
      Value value = p_.value(v);
      value.space = Space::host, value.role = Role::host_copy;
      host_[v] = add_value(std::move(value));
      lies_in(host_[v], id, f_.storages.offset[v]);
      add(copy(copy_out_op, now_[v], host_[v], Phase::offload));
    }
  }
  void reload(StorageId s) {
    leaves_[s] = copied_[s];
    for (ValueId v : copied_[s]) {
      const ValueId from = host_[v];
      add(copy(copy_in_op, from, define(v), Phase::reload));
    }
  }
  void move(StorageId s, int64_t place) {
    gather_leaves(s);
    const std::vector<ValueId> held = leaves_[s];
    std::vector<ValueId> from;
    for (ValueId v : held) from.push_back(now_[v]);
    take(s, place);
    leaves_[s] = held;
    for (size_t i = 0; i < held.size(); ++i) {
      add(copy(move_op, from[i], define(held[i]), Phase::recompute));
    }
  }
  Node copy(const OpDef& op, ValueId from, ValueId to, Phase phase) const {
    const Value& value = out_.program.value(from);
    return {.op = &op,
            .in = {from},
            .out = {to},
            .phase = phase,
            .queue = phase == Phase::offload  ? kOffloadQueue
                     : phase == Phase::reload ? kReloadQueue
                                              : kComputeQueue,
            .scope = value.scope,
            .step = value.step};
  }

  // Appends the node with its waits: who reads waits for who wrote, who writes for all. A view
  // writes nothing.
  NodeId add(Node node, StorageId workspace = kNone, bool is_view = false) {
    const QueueId queue = node.queue;
    const NodeId id = out_.program.nodes.next_id();
    std::vector<StorageId> reads, writes;
    for (ValueId v : present(node.in)) reads.push_back(of_[v]);
    for (ValueId v : present(node.out)) (is_view ? reads : writes).push_back(of_[v]);
    if (workspace != kNone) writes.push_back(current_[workspace]);
    Marks waits;
    for (ValueId v : present(node.in)) {
      const NodeId maker = out_.program.value(v).producer;
      if (maker == kNone) continue;
      NodeId& wait = waits[out_.program.node(maker).queue];
      wait = std::max(wait, maker);
    }
    for (StorageId s : writes) take_later(waits, writes_[s]), take_later(waits, reads_[s]);
    for (size_t q = 0; q < kQueues; ++q) {
      if (q == queue || waits[q] == kNone || known_[queue][q] >= waits[q]) continue;
      node.waits.push_back(waits[q]);
      known_[queue][q] = waits[q];
    }
    for (ValueId v : present(node.out)) out_.program.value(v).producer = id;
    for (StorageId s : reads) reads_[s][queue] = id;
    for (StorageId s : writes) writes_[s][queue] = id;
    out_.storages.workspace.push_back(workspace == kNone ? kNone : current_[workspace]);
    return out_.program.nodes.add(std::move(node));
  }

  void finish_storages() {
    Storages& s = out_.storages;
    s.of = std::move(of_), s.offset = std::move(offset_);
    for (const std::vector<ValueId>& list : members_) {
      s.values.insert(s.values.end(), list.begin(), list.end());
      s.values_end.push_back(s.values.size());
    }
  }

  const StepFacts& f_;
  const Program& p_;
  Lowered out_;
  ByValue<ValueId> now_;  // the name that a value has, on the bytes that it has
  ByValue<char> was_made_;
  ByValue<ValueId> host_;                            // its copy
  ByStorage<StorageId> current_;                     // where a storage is now
  ByStorage<std::vector<ValueId>> leaves_, copied_;  // what it holds; what its copy holds
  ByStorage<std::vector<ValueId>> members_;          // of the new storages
  ByStorage<Marks> reads_, writes_;                  // the last that touched them
  ByValue<StorageId> of_;
  ByValue<int64_t> offset_;
  Occupants device_, host_bytes_;
  std::array<Marks, kQueues> known_{};  // by queue: what it has waited for
  std::vector<ValueId> viewed_;         // outputs of the program that are views
  size_t next_view_ = 0;
  int64_t slab_begin_ = 0, host_begin_ = 0;  // where the slab begins, in its region
};

}  // namespace

Lowered lowered(const StepFacts& facts, const Decisions& decisions, const StateLayout& layout) {
  return Lowering(facts, layout).run(decisions);
}

}  // namespace pal
