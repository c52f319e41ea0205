// Shares of variants, one variant after the other.
#include "memory/front/least_times.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/op.h"
#include "memory/passes/fuse_recompute.h"
#include "memory/passes/fused_pattern.h"
#include "memory/recompute/clones.h"

namespace pal {
namespace {

constexpr size_t kSparedOperands = 64;
// An update reads so many bytes at most beside its weight: the step's scalars, gates.
constexpr double kBesideWeight = 256;

// Prices nodes that a program does not have, beside those that it has.
class Pricer {
 public:
  // `kept`: values that no plan has as bits.
  Pricer(const Program& program, const DeviceProfile& device, bool bits, ByValue<char> kept = {})
      : program_(program), device_(device), bits_(bits), kept_(std::move(kept)) {}

  double ms(const Node& node) {
    program_.nodes.push_back(node);
    const double ms = time_ms(work_of(program_, program_.node_count() - 1), device_);
    program_.nodes.pop_back();
    return ms;
  }
  // Operands of which it asks a predicate may be bits.
  double ms_of_bits(Node node) {
    for (size_t k = 0; k < node.in.size() && bits_; ++k) {
      if (node.in[k] == kNone) continue;
      if (reads_of(*node.op, int(k), node.attrs).kind != Reads::Kind::predicate) continue;
      if (node.in[k] < ValueId(kept_.size()) && kept_[node.in[k]]) continue;
      Value bits = program_.value(node.in[k]);
      if (bits.spec.layout) continue;
      bits.spec.dtype = DType::bit;
      node.in[k] = program_.values.add(std::move(bits));
    }
    return ms(node);
  }
  // A clone makes what is read of it, at least one output.
  double ms_of_clone(const Node& node) {
    double least = ms_of_bits(node);
    for (size_t i = 0; i < node.out.size() && node.out.size() > 1; ++i) {
      if (node.out[i] == kNone) continue;
      Node one = node;
      for (size_t j = 0; j < one.out.size(); ++j) {
        if (j != i) one.out[j] = kNone;
      }
      least = std::min(least, ms_of_bits(std::move(one)));
    }
    return least;
  }

 private:
  Program program_;
  const DeviceProfile& device_;
  const bool bits_;
  const ByValue<char> kept_;
};

class Shares {
 public:
  Shares(const Program& recorded, const Program& parts, const CompileOptions& options,
         const DeviceProfile& device, bool bits)
      : recorded_(recorded), parts_(parts), options_(options), device_(device), bits_(bits) {}

  LeastTimes run() {
    const size_t nodes = parts_.nodes.size();
    out_.once.resize(nodes), out_.again.resize(nodes);
    out_.fuses.assign(nodes, 0), out_.spared.assign(nodes, 0);
    const StepView view(parts_);
    const Program again =
        insert_clones(view, Choice(parts_.values.size(), 1), parts_.node_count()).program;
    for (const Program* p : {&parts_, &again}) {
      each_variant(*p, [&](const Rewrite&, const Pattern& pattern, const Binding& b) {
        each_piece(*p, pattern, b, [&](NodeId i, NodeId n, bool) { spare(pattern, i, n); });
      });
    }
    Pricer pricer = pricer_of(parts_);
    for (NodeId n : parts_.nodes.ids()) {
      out_.once[n] = std::min(pricer.ms(parts_.node(n)), pricer.ms_of_bits(parts_.node(n)));
      out_.again[n] = pricer.ms_of_clone(parts_.node(n));
      if (options_.fuse_updates && takes_groups(*parts_.node(n).op)) part_of_updates(n);
    }
    wholes();
    for (const Program* p : {&parts_, &again}) {
      share_all(*p);
      if (options_.fuse_recompute) share_all(fuse_recompute(*p));
      if (options_.fuse_epilogues) share_all(fuse_epilogues(*p));
    }
    return std::move(out_);
  }

 private:
  // Of several updates in one node: its bytes, at the rate of memory; and one launch for all that
  // may be one node.
  void part_of_updates(NodeId n) {
    const Node& node = parts_.node(n);
    const Work work = work_of(parts_, n);
    const bool cached = device_.cache > 0 && work.bytes <= double(device_.cache_bytes);
    const double memory = device_.memory * device_.memory_efficiency;
    const double rate = cached ? std::max(device_.cache, memory) : memory;
    double seconds = std::max(0.0, work.bytes - kBesideWeight) / rate;
    const bool is_like = std::any_of(updates_.begin(), updates_.end(), [&](NodeId other) {
      return parts_.node(other).op == node.op && parts_.node(other).attrs == node.attrs;
    });
    if (!is_like) updates_.push_back(n), seconds += device_.launch;
    out_.fuses[n] = 1;
    out_.once[n] = std::min(out_.once[n], 1e3 * seconds);
  }

  // Values of which a gradient asks more than a predicate are not kept as bits, and clones are made
  // for all gradients. A gradient that does without, as a piece of another node, asks nothing.
  Pricer pricer_of(const Program& p) const {
    ByValue<char> kept(p.values.size(), 0);
    for (NodeId n : p.nodes.ids()) {
      const Node& node = p.node(n);
      if (node.phase != Phase::backward) continue;
      const NodeId part = in_parts(p, n);
      for (size_t k = 0; k < node.in.size(); ++k) {
        const bool spared = part == kNone || (k < kSparedOperands && out_.spared[part] >> k & 1);
        if (node.in[k] == kNone || spared) continue;
        kept[node.in[k]] |= reads_of(*node.op, int(k), node.attrs).takes_values();
      }
    }
    return {p, device_, bits_, std::move(kept)};
  }

  // The nodes that were taken apart, as they were: the last part has as much of their time as it
  // takes by itself.
  void wholes() {
    Pricer pricer(recorded_, device_, bits_);
    NodeId begin = 0;  // of the parts not yet known whose they are
    for (NodeId at = 0; at < parts_.node_count(); ++at) {
      const NodeId whole = owner(at);
      if (whole == kNone || (at + 1 < parts_.node_count() && owner(at + 1) == whole)) continue;
      const NodeId first = std::exchange(begin, at + 1);
      if (at == first) continue;
      double once = pricer.ms(recorded_.node(whole));
      double again = pricer.ms_of_clone(recorded_.node(whole));
      for (NodeId part = at + 1; part-- > first;) {
        out_.fuses[part] = 1;
        once -= out_.once[part] = std::min(out_.once[part], once);
        again -= out_.again[part] = std::min(out_.again[part], again);
      }
    }
  }
  // The node of the recorded step that makes a value of this part's; kNone: there is none.
  NodeId owner(NodeId part) const {
    for (ValueId v : present(parts_.node(part).out)) {
      if (size_t(v) < recorded_.values.size()) return recorded_.value(v).producer;
    }
    return kNone;
  }

  template <class F> void each_variant(const Program& p, F&& f) const {
    const Readers readers(p);
    PatternFinder finder(p, readers);
    for (const Rewrite* rewrite : all_rewrites()) {
      const bool allowed =
          (rewrite->when == Rewrite::When::recomputed && options_.fuse_recompute) ||
          (rewrite->when == Rewrite::When::always && options_.fuse_epilogues);
      if (!allowed) continue;
      for (NodeId n : p.nodes.ids()) {
        if (p.node(n).op != rewrite->anchor) continue;
        for (const Pattern& pattern : finder.patterns_of(p.node(n), *rewrite)) {
          finder.find(pattern, n, [&](const Binding& b) { f(*rewrite, pattern, b); });
        }
      }
    }
  }
  // f(node of the pattern, node of the parts, whether it is a clone).
  template <class F>
  void each_piece(const Program& p, const Pattern& pattern, const Binding& b, F&& f) const {
    for (NodeId i : b.node.ids()) {
      const NodeId n = in_parts(p, b.node[i]);
      if (n == kNone || i == pattern.form.stays.node || is_fused(p, b.node[i])) continue;
      f(i, n, p.node(b.node[i]).phase == Phase::recompute);
    }
  }
  // It is a variant itself.
  bool is_fused(const Program& p, NodeId n) const {
    const NodeId part = in_parts(p, n);
    return part != kNone && parts_.node(part).op != p.node(n).op;
  }

  NodeId in_parts(const Program& p, NodeId n) const {
    for (ValueId v : present(p.node(n).out)) return parts_.value(p.value(v).origin).producer;
    return kNone;
  }

  void share_all(const Program& p) {
    Pricer pricer = pricer_of(p);
    each_variant(p, [&](const Rewrite& rewrite, const Pattern& pattern, const Binding& b) {
      share(p, rewrite, pattern, b, pricer);
    });
  }

  // The pieces of a variant that is a piece have their shares of that one's time: the others have
  // what is left of it.
  void share(const Program& p, const Rewrite& rewrite, const Pattern& pattern, const Binding& b,
             Pricer& pricer) {
    Node fused = p.node(b.node[0]);
    fused.op = rewrite.op, fused.attrs = pattern.form.attrs;
    fused.in = bound(b, pattern.form.in), fused.out = bound(b, pattern.form.out);
    const auto least_of = [&](const Node& node) {
      return std::min(pricer.ms(node), pricer.ms_of_bits(node));
    };
    double left = least_of(fused);
    for (NodeId i : b.node.ids()) {
      if (i != pattern.form.stays.node && is_fused(p, b.node[i]))
        left -= least_of(p.node(b.node[i]));
    }
    left = std::max(0.0, left);
    double of_clones = 0, of_others = 0;
    each_piece(p, pattern, b, [&](NodeId i, NodeId n, bool clone) {
      (clone ? of_clones += out_.again[n] : of_others += pricer.ms(p.node(b.node[i])));
    });
    const double others = of_others > 0 ? std::min(1.0, left / of_others) : 1;
    left = std::max(0.0, left - of_others);
    const double clones = of_clones > 0 ? std::min(1.0, left / of_clones) : 1;
    each_piece(p, pattern, b, [&](NodeId i, NodeId n, bool clone) {
      if (clone) {
        shared_.push_back({n, out_.again[n] * clones, true});
      } else {
        out_.fuses[n] = 1;
        shared_.push_back({n, pricer.ms(p.node(b.node[i])) * others, false});
      }
    });
    for (const auto& [n, ms, clone] : shared_) {
      double& least = clone ? out_.again[n] : out_.once[n];
      least = std::min(least, ms);
    }
    shared_.clear();
  }

  // What the fused node does not read, and no other piece makes.
  void spare(const Pattern& pattern, NodeId i, NodeId n) {
    const Program& form = pattern.form.program;
    const Node& piece = form.node(i);
    for (size_t k = 0; k < piece.in.size() && k < kSparedOperands; ++k) {
      const ValueId v = piece.in[k];
      if (v == kNone || std::count(pattern.form.in.begin(), pattern.form.in.end(), v)) continue;
      const NodeId made = form.value(v).producer;
      if (made == kNone || made == pattern.form.stays.node) out_.spared[n] |= uint64_t{1} << k;
    }
  }

  static std::vector<ValueId> bound(const Binding& b, const std::vector<ValueId>& values) {
    std::vector<ValueId> out;
    for (ValueId v : values) out.push_back(v == kNone ? ValueId(kNone) : b.value[v]);
    return out;
  }

  struct Share {
    NodeId node;
    double ms;
    bool clone;
  };

  const Program &recorded_, &parts_;
  const CompileOptions& options_;
  const DeviceProfile& device_;
  const bool bits_;
  std::vector<Share> shared_;
  std::vector<NodeId> updates_;  // one of each kind
  LeastTimes out_;
};

}  // namespace

LeastTimes least_times(const Program& recorded, const Program& parts, const CompileOptions& options,
                       const DeviceProfile& device, bool bits) {
  return Shares(recorded, parts, options, device, bits).run();
}

}  // namespace pal
