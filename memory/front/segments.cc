// One walk for where borders can be, then the narrowest first.
#include "memory/front/segments.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace pal {
namespace {

// A storage that crosses so many nodes, or this part of the forward phase, is no border's.
constexpr NodeId kLongNodes = 24;
constexpr NodeId kLongPart = 6;
// A border is not worth it where, before and after it, a narrower one comes within so many times
// its bytes of stashes.
constexpr int64_t kNearStashes = 4;
constexpr double kNarrower = 0.9;

constexpr NodeId kNever = std::numeric_limits<NodeId>::max();

// When a storage's values are made and read.
struct Use {
  NodeId made = kNone, last_forward = kNone;        // forward nodes
  NodeId first_later = kNever, last_later = kNone;  // backward nodes
  bool fixed = false;                               // no block's
};

class BorderSearch {
 public:
  BorderSearch(const StepView& view, const ByNode<double>& node_ms, size_t most)
      : view_(view), p_(view.program), most_(most), use_(view.storage_bytes.size()) {
    // A gradient that reads nothing of the forward phase (the loss's own) may come at any time.
    for (const NodeId first : view.first_use) {
      if (first != kNone && (turn_ == kNone || first < turn_)) turn_ = first;
    }
    for (NodeId n = 0; n < turn_; ++n) {
      if (p_.node(n).phase != Phase::forward) continue;
      forward_.push_back(n);
      before_.push_back(total_ += node_ms[n]);
    }
  }

  Segments run() {
    Segments out;
    survey();
    out.kept.assign(use_.size(), 0);
    for (StorageId s : use_.ids()) out.kept[s] = use_[s].fixed;
    if (forward_.size() < 2) return out;
    cross();
    pick();
    for (const size_t i : picked_) {
      Segments::Border border{.after = forward_[i], .later = later_[i], .bytes = bytes_[i]};
      for (StorageId s : use_.ids()) {
        if (crosses(s, i)) border.storages.push_back(s);
      }
      out.borders.push_back(std::move(border));
    }
    return out;
  }

 private:
  void survey() {
    for (ValueId v : p_.values.ids()) {
      if (view_.stays(v) || view_.storage[v] == kNone) continue;
      Use& use = use_[view_.storage[v]];
      const NodeId producer = p_.value(v).producer;
      use.made = use.made == kNone ? producer : std::min(use.made, producer);
      use.last_forward = std::max(use.last_forward, producer);
      use.fixed |= !view_.clonable[producer];
      for (NodeId n : view_.readers[v]) {
        if (p_.node(n).phase == Phase::forward) use.last_forward = std::max(use.last_forward, n);
      }
      if (view_.first_use[v] == kNone) continue;
      use.first_later = std::min(use.first_later, view_.first_use[v]);
      use.last_later = std::max(use.last_later, view_.last_use[v]);
    }
    const NodeId length =
        std::max<NodeId>(kLongNodes, NodeId(int32_t(forward_.size()) / kLongPart));
    for (Use& use : use_) {
      if (use.made != kNone && use.last_forward - use.made > length) use.fixed = true;
    }
  }

  bool counts(StorageId s) const { return use_[s].made != kNone && !use_[s].fixed; }
  bool crosses(StorageId s, size_t i) const {
    return counts(s) && use_[s].made <= forward_[i] && use_[s].last_forward > forward_[i];
  }

  // For the place after each forward node: what crosses it, and whether gradients fall apart there.
  void cross() {
    const size_t places = forward_.size();
    ByNode<size_t> place(p_.nodes.size(), places);
    for (size_t i = 0; i < places; ++i) place[forward_[i]] = i;
    std::vector<int64_t> change(places + 1, 0), stashed(places + 1, 0);
    std::vector<NodeId> inside(places + 1, kNever);   // first gradient of what is done there
    std::vector<NodeId> after(places + 1, kNone);     // last gradient of what is made there
    std::vector<NodeId> crossing(places + 1, kNone);  // last gradient of what crosses
    std::vector<int> read(places + 1, 0);
    for (StorageId s : use_.ids()) {
      if (!counts(s)) continue;
      const Use& use = use_[s];
      const size_t made = place[use.made];
      const size_t done = std::min(place[use.last_forward], places);
      if (made == places) continue;
      change[made] += view_.storage_bytes[s], change[done] -= view_.storage_bytes[s];
      after[made] = std::max(after[made], use.last_later);
      inside[done] = std::min(inside[done], use.first_later);
      if (use.first_later == kNever) continue;
      stashed[made] += view_.storage_bytes[s];
      for (size_t i = made; i < done; ++i) {
        crossing[i] = std::max(crossing[i], use.last_later), ++read[i];
      }
    }
    bytes_.resize(places), later_.resize(places), open_.assign(places, 0);
    stashes_.assign(places + 1, 0);
    std::vector<NodeId> last_after(places + 1, kNone);
    for (size_t i = places; i-- > 0;) last_after[i] = std::max(last_after[i + 1], after[i]);
    int64_t bytes = 0;
    NodeId first = kNever;
    for (size_t i = 0; i < places; ++i) {
      bytes_[i] = bytes += change[i];
      later_[i] = first = std::min(first, inside[i]);
      stashes_[i + 1] = stashes_[i] + stashed[i];
      open_[i] = i + 1 < places && bytes > 0 && first != kNever && last_after[i + 1] != kNone &&
                 last_after[i + 1] < first && crossing[i] < first;
    }
    read_ = std::move(read);
  }

  // Something narrower is near on both sides.
  bool is_beside_narrower(size_t i) const {
    const auto near = [&](size_t j) {
      return std::abs(stashes_[j] - stashes_[i]) <= kNearStashes * bytes_[i];
    };
    const auto narrower = [&](size_t j) {
      return open_[j] && double(bytes_[j]) < kNarrower * double(bytes_[i]);
    };
    bool left = false, right = false;
    for (size_t j = i; !left && j-- > 0 && near(j);) left = narrower(j);
    for (size_t j = i + 1; !right && j < bytes_.size() && near(j); ++j) right = narrower(j);
    return left && right;
  }

  void pick() {
    std::vector<size_t> order;
    for (size_t i = 0; i < bytes_.size(); ++i) {
      if (open_[i] && !is_beside_narrower(i)) order.push_back(i);
    }
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      if (bytes_[a] != bytes_[b]) return bytes_[a] < bytes_[b];
      return (read_[a] > 0) > (read_[b] > 0);  // it is kept for gradients in any case
    });
    const double gap = total_ / double(most_);
    ByStorage<char> used(use_.size(), 0);
    for (const size_t i : order) {
      if (before_[i] < gap || total_ - before_[i] < gap) continue;
      const bool crowded = std::any_of(picked_.begin(), picked_.end(), [&](size_t j) {
        return std::abs(before_[i] - before_[j]) < gap;
      });
      if (crowded) continue;
      std::vector<StorageId> own;
      for (StorageId s : use_.ids()) {
        if (crosses(s, i)) own.push_back(s);
      }
      if (std::any_of(own.begin(), own.end(), [&](StorageId s) { return used[s]; })) continue;
      for (const StorageId s : own) used[s] = 1;
      picked_.push_back(i);
    }
    std::sort(picked_.begin(), picked_.end());
  }

  const StepView& view_;
  const Program& p_;
  const size_t most_;
  ByStorage<Use> use_;
  std::vector<NodeId> forward_;  // those before the turn
  std::vector<double> before_;   // by place: time of all forward nodes up to it
  double total_ = 0;
  NodeId turn_ = kNone;                   // the first node after the forward phase that reads of it
  std::vector<int64_t> bytes_, stashes_;  // by place: that cross it; stashed before it
  std::vector<NodeId> later_;
  std::vector<char> open_;
  std::vector<int> read_;
  std::vector<size_t> picked_;
};

}  // namespace

size_t Segments::block_of_forward(NodeId node) const {
  return size_t(std::partition_point(borders.begin(), borders.end(),
                                     [&](const Border& b) { return b.after < node; }) -
                borders.begin());
}

// Gradients of the last block come first.
size_t Segments::block_of_backward(NodeId node) const {
  return size_t(std::partition_point(borders.begin(), borders.end(),
                                     [&](const Border& b) { return b.later > node; }) -
                borders.begin());
}

Segments find_segments(const StepView& view, const ByNode<double>& node_ms, size_t most) {
  return BorderSearch(view, node_ms, most).run();
}

}  // namespace pal
