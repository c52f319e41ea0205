// Which version each reader reads, then one walk that inserts what is read.
#include "memory/recompute/reruns.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/rewriter.h"
#include "memory/passes/divide_weights.h"

namespace pal {
namespace {

class Rerunner {
 public:
  Rerunner(const StepView& view, const std::vector<Rerun>& reruns)
      : view_(view), p_(view.program), reruns_(reruns) {
    read();
  }

  Clones run() {
    find_read();
    return insert();
  }

 private:
  // By its place in the list.
  static constexpr int kOriginal = -1;

  struct Place {
    NodeId node, before;
  };

  void read() {
    NodeId last = 0;
    const auto producer = [&](ValueId v) {
      return v >= 0 && v < p_.values.next_id() ? p_.value(v).producer : NodeId(kNone);
    };
    for (const Rerun& each : reruns_) {
      const ValueId makes = each.makes, before = each.before;
      const auto refuse = [&, at = places_.size()](const std::string& what) {
        throw UsageError("[reruns] number " + std::to_string(at) + ", value " +
                         std::to_string(makes) + " before value " + std::to_string(before) + ": " +
                         what);
      };
      const Place place{producer(makes), producer(before)};
      if (place.node == kNone || place.before == kNone) refuse("no node of the step makes them");
      if (!view_.clonable[place.node]) refuse("what makes the former cannot run again");
      if (!reads_versions(p_.node(place.before))) refuse("the latter is not of the backward phase");
      if (place.before < place.node) refuse("the former has not run by then");
      if (place.before < last) refuse("it comes before the one that is listed before it");
      last = place.before;
      places_.push_back(place);
    }
  }

  static bool reads_versions(const Node& node) {
    return node.phase != Phase::forward && node.phase != Phase::update;
  }

  // Calls visit(node, rerun) for all that reads versions, in their new order; kOriginal: a node of
  // the step itself.
  template <class Visit> void each_reader(Visit visit) const {
    size_t next = 0;
    for (NodeId n : p_.nodes.ids()) {
      for (; next < places_.size() && places_[next].before == n; ++next) {
        visit(places_[next].node, int(next));
      }
      visit(n, kOriginal);
    }
  }

  // What a gradient reads of a rerun, and what is read by reruns for it.
  void find_read() {
    std::vector<std::vector<std::pair<int, ValueId>>> from(reruns_.size());
    read_.assign(reruns_.size(), {});
    ByValue<int> version(p_.values.size(), kOriginal);
    each_reader([&](NodeId n, int rerun) {
      const Node& node = p_.node(n);
      if (rerun == kOriginal && !reads_versions(node)) return;
      for (ValueId v : present(node.in)) {
        const int made = version[v];
        if (made == kOriginal) continue;
        if (rerun == kOriginal) {
          read_[size_t(made)].push_back(v);
        } else {
          from[size_t(rerun)].emplace_back(made, v);
        }
      }
      if (rerun == kOriginal) return;
      for (ValueId v : present(node.out)) {
        if (!view_.pinned[v]) version[v] = rerun;
      }
    });
    for (size_t i = reruns_.size(); i-- > 0;) {
      if (read_[i].empty()) continue;
      for (const auto& [made, v] : from[i]) read_[size_t(made)].push_back(v);
    }
  }

  Clones insert() const {
    Rewriter out(p_, reruns_.size(), reruns_.size());
    ByValue<ValueId> now(p_.values.size());
    for (ValueId v : now.ids()) now[v] = v;
    Clones clones;
    each_reader([&](NodeId n, int rerun) {
      Node node = p_.node(n);
      if (rerun != kOriginal && read_[size_t(rerun)].empty()) return;
      if (rerun != kOriginal || reads_versions(node)) {
        for (ValueId& v : node.in) {
          if (v != kNone) v = now[v];
        }
      }
      if (rerun == kOriginal) {
        out.replace(n, std::move(node));
        return;
      }
      node.phase = Phase::recompute;
      const std::vector<ValueId>& read = read_[size_t(rerun)];
      for (ValueId& v : node.out) {
        if (v == kNone) continue;
        const bool wanted = std::find(read.begin(), read.end(), v) != read.end();
        v = wanted ? now[v] = out.add(p_.value(v)) : ValueId(kNone);
      }
      out.insert(std::move(node));
      ++clones.count;
      clones.cost.flops += view_.cost[n].flops, clones.cost.bytes += view_.cost[n].bytes;
    });
    clones.program = read_second_gathers(out.finish());
    return clones;
  }

  const StepView& view_;
  const Program& p_;
  const std::vector<Rerun>& reruns_;
  std::vector<Place> places_;
  std::vector<std::vector<ValueId>> read_;  // by rerun: its results that are read
};

}  // namespace

Clones insert_reruns(const StepView& view, const std::vector<Rerun>& reruns) {
  return Rerunner(view, reruns).run();
}

Clones rerun_clones(const StepView& view, const RecomputeOptions& options) {
  Clones clones = insert_reruns(view, options.reruns);
  if (options.bits) stash_bits(clones);
  return clones;
}

}  // namespace pal
