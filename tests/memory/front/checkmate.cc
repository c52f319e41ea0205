// Rows and columns for CBC.
#include "tests/memory/front/checkmate.h"

#include <Cbc_C_Interface.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "memory/front/bound_graph.h"

namespace pal::test {
namespace {

class Checkmate {
 public:
  Checkmate(const Program& p, const CompileOptions& options, const CheckmateOptions& how)
      : p_(p),
        how_(how),
        times_(least_times(p, p, options, *options.profile, false)),
        layout_(p),
        graph_(p, layout_, times_, {.any_order = false, .bits = false, .in_place = false}) {
    always_ = layout_.bytes();
    for (const NamedValue& in : p.inputs) always_ += 2 * align_up(p.value(in.value).spec.bytes());
    for (NodeId n : p.nodes.ids()) {
      if (p.node(n).phase != Phase::forward) stages_.push_back(n);
    }
    const Prediction times = predict(p, *options.profile);
    base_ms_ = 0;
    for (const double ms : times.node_ms) base_ms_ += ms;
    find_readers();
  }

  CheckmateTime solve(int64_t bytes) {
    variables();
    making();
    for (NodeId n : p_.nodes.ids()) {
      if (p_.node(n).phase == Phase::forward) forward_fits(n, bytes);
    }
    for (size_t t = 0; t < stages_.size(); ++t) stage_fits(t, bytes);
    return run();
  }

 private:
  using Terms = std::map<int, double>;

  const Atom& atom(AtomId a) const { return graph_.atoms()[a]; }
  bool is_output(AtomId a) const { return atom(a).values == Mark(p_.nodes.size()) - 1; }

  // The last stage at which an atom may be of use: by its own readers, and by nodes that run again.
  void find_readers() {
    const size_t atoms = graph_.atoms().size();
    readers_.resize(atoms), last_.assign(atoms, -1), makes_.resize(p_.nodes.size());
    runs_last_.assign(p_.nodes.size(), -1);
    for (AtomId a : graph_.atoms().ids()) makes_[atom(a).maker].push_back(a);
    for (NodeId n : p_.nodes.ids()) {
      for (AtomId a : graph_.reads(n)) readers_[size_t(a)].push_back(n);
    }
    for (size_t t = 0; t < stages_.size(); ++t) {
      for (AtomId a : graph_.reads(stages_[t])) last_[size_t(a)] = int(t);
    }
    for (AtomId a : graph_.atoms().ids()) {
      if (atom(a).again && is_output(a)) last_[size_t(a)] = int(stages_.size()) - 1;
    }
    for (NodeId n = p_.node_count(); n-- > 0;) {
      if (p_.node(n).phase != Phase::forward) continue;
      for (AtomId a : makes_[n]) runs_last_[n] = std::max(runs_last_[n], last_[size_t(a)]);
      for (AtomId a : graph_.reads(n)) {
        last_[size_t(a)] = std::max(last_[size_t(a)], runs_last_[n]);
      }
    }
  }

  int add_column(double cost, bool whole) {
    columns_.emplace_back(), cost_.push_back(cost);
    if (whole) whole_.push_back(int(columns_.size()) - 1);
    return int(columns_.size()) - 1;
  }
  void add_row(const Terms& terms, double low, double high) {
    for (const auto& [column, value] : terms) {
      columns_[size_t(column)].emplace_back(int(low_.size()), value);
    }
    low_.push_back(low), high_.push_back(high);
  }

  void variables() {
    kept_.assign(stages_.size() + 1, std::vector<int>(graph_.atoms().size(), -1));
    runs_.assign(stages_.size(), std::vector<int>(p_.nodes.size(), -1));
    for (size_t t = 0; t < stages_.size(); ++t) {
      for (AtomId a : graph_.atoms().ids()) {
        if (atom(a).again && int(t) <= last_[size_t(a)]) kept_[t][size_t(a)] = add_column(0, true);
      }
      for (NodeId n : p_.nodes.ids()) {
        if (int(t) <= runs_last_[n]) runs_[t][size_t(n)] = add_column(times_.again[n], true);
      }
    }
  }
  int kept(size_t t, AtomId a) const { return kept_[t][size_t(a)]; }
  int runs(size_t t, NodeId n) const { return runs_[t][size_t(n)]; }

  // Who is there was there before, or is made again; so are operands of whoever runs again.
  void making() {
    for (size_t t = 0; t < stages_.size(); ++t) {
      for (AtomId a : graph_.atoms().ids()) {
        if (kept(t + 1, a) < 0) continue;
        add_row({{kept(t + 1, a), -1}, {kept(t, a), 1}, {runs(t, atom(a).maker), 1}}, 0, kInfinite);
      }
      const auto reads = [&](NodeId n, int who) {
        for (AtomId a : graph_.reads(n)) {
          if (!atom(a).again) continue;
          Terms terms{{kept(t, a), 1}, {runs(t, atom(a).maker), 1}};
          if (who >= 0) terms[who] = -1;
          add_row(terms, who < 0 ? 1 : 0, kInfinite);
        }
      };
      for (NodeId n : p_.nodes.ids()) {
        if (runs(t, n) >= 0) reads(n, runs(t, n));
      }
      reads(stages_[t], -1);
    }
    for (AtomId a : graph_.atoms().ids()) {  // outputs are there at the end
      if (!atom(a).again || !is_output(a)) continue;
      add_row({{kept(stages_.size() - 1, a), 1}, {runs(stages_.size() - 1, atom(a).maker), 1}}, 1,
              kInfinite);
    }
    if (!how_.once) return;
    for (NodeId n : p_.nodes.ids()) {
      Terms terms;
      for (size_t t = 0; t < stages_.size(); ++t) {
        if (runs(t, n) >= 0) terms[runs(t, n)] = 1;
      }
      if (!terms.empty()) add_row(terms, 0, 1);
    }
  }

  // Bytes that gradients and updates hold while node n runs.
  int64_t others_at(NodeId n) const {
    int64_t bytes = always_;
    for (AtomId a : graph_.atoms().ids()) {
      if (atom(a).again || atom(a).maker > n) continue;
      const auto& readers = readers_[size_t(a)];
      const bool held =
          is_output(a) || atom(a).maker == n || (!readers.empty() && readers.back() >= n);
      if (held) bytes += atom(a).bytes;
    }
    return bytes;
  }

  void forward_fits(NodeId n, int64_t bytes) {
    Terms terms;
    int64_t there = always_;
    for (AtomId a : graph_.atoms().ids()) {
      if (!atom(a).again || atom(a).maker > n) continue;
      bool read = atom(a).maker == n;
      for (NodeId r : readers_[size_t(a)]) {
        read |= r >= n && p_.node(r).phase == Phase::forward;
      }
      if (read) {
        there += atom(a).bytes;
      } else if (kept(0, a) >= 0) {
        terms[kept(0, a)] = unit(atom(a).bytes);
      }
    }
    add_row(terms, -kInfinite, unit(bytes - there));
  }

  void stage_fits(size_t t, int64_t bytes) {
    const NodeId own = stages_[t];
    std::vector<NodeId> steps;
    if (how_.transients) {
      for (NodeId n : p_.nodes.ids()) {
        if (runs(t, n) >= 0) steps.push_back(n);
      }
    }
    steps.push_back(own);
    for (const NodeId k : steps) {
      Terms terms;
      int64_t there = 0;
      for (AtomId a : graph_.atoms().ids()) {
        if (!atom(a).again || kept(t, a) < 0) continue;
        const auto& own_reads = graph_.reads(own);
        if (k == own && std::binary_search(own_reads.begin(), own_reads.end(), a)) {
          there += atom(a).bytes;
          continue;
        }
        const int life = lives(t, k, a);
        if (life >= 0) terms[life] = unit(atom(a).bytes);
      }
      // Before its own node, what that makes is not there yet; what it reads is.
      const int64_t others = k == own ? others_at(own) : others_before(own);
      add_row(terms, -kInfinite, unit(bytes - there - others));
    }
  }
  int64_t others_before(NodeId own) const {
    int64_t bytes = others_at(own);
    for (AtomId a : makes_[own]) bytes -= atom(a).again ? 0 : atom(a).bytes;
    return bytes;
  }

  // 1 where the atom is held while node k runs in stage t; -1: it never has to be.
  int lives(size_t t, NodeId k, AtomId a) {
    const NodeId maker = atom(a).maker;
    const bool made = maker <= k;  // if it is made again in this stage at all
    std::vector<int> later;
    for (NodeId r : readers_[size_t(a)]) {
      if (r >= k && runs(t, r) >= 0) later.push_back(runs(t, r));
    }
    const auto& own = graph_.reads(stages_[t]);
    const bool by_own = k != stages_[t] && std::binary_search(own.begin(), own.end(), a);
    if (t + 1 < stages_.size() && kept(t + 1, a) >= 0) later.push_back(kept(t + 1, a));
    const bool to_end = t + 1 == stages_.size() && is_output(a);
    if (later.empty() && !by_own && !to_end) return -1;
    const int life = add_column(0, false);
    const auto at_least = [&](int who) {  // -1: 1
      Terms terms{{life, 1}};
      if (who >= 0) terms[who] -= 1;
      if (!made) terms[runs(t, maker)] += 1;
      add_row(terms, who >= 0 ? 0 : 1, kInfinite);
    };
    for (const int who : later) at_least(who);
    if (by_own || to_end) at_least(-1);
    return life;
  }

  CheckmateTime run() {
    std::vector<CoinBigIndex> start{0};
    std::vector<int> index;
    std::vector<double> value;
    for (const auto& column : columns_) {
      for (const auto& [row, x] : column) index.push_back(row), value.push_back(x);
      start.push_back(CoinBigIndex(index.size()));
    }
    const std::vector<double> zero(columns_.size(), 0), one(columns_.size(), 1);
    Cbc_Model* cbc = Cbc_newModel();
    Cbc_loadProblem(cbc, int(columns_.size()), int(low_.size()), start.data(), index.data(),
                    value.data(), zero.data(), one.data(), cost_.data(), low_.data(), high_.data());
    for (int x : whole_) Cbc_setInteger(cbc, x);
    for (const char* log : {"logLevel", "slogLevel"}) Cbc_setParameter(cbc, log, "0");
    Cbc_setParameter(cbc, "maxNodes", std::to_string(how_.nodes).c_str());
    Cbc_setParameter(cbc, "ratioGap", "1e-7");
    Cbc_solve(cbc);
    CheckmateTime out;
    out.possible = !Cbc_isProvenInfeasible(cbc);
    out.proved = Cbc_isProvenOptimal(cbc);
    const double found = Cbc_getObjValue(cbc);
    out.found = base_ms_ + (found < 1e20 ? found : kInfinite);
    const double least = Cbc_getBestPossibleObjValue(cbc);
    out.least = base_ms_ + (out.proved ? found : least > -1e20 ? std::max(0.0, least) : 0);
    Cbc_deleteModel(cbc);
    return out;
  }

  static double unit(int64_t bytes) { return double(bytes) / 1024; }
  static constexpr double kInfinite = 1e30;

  const Program& p_;
  const CheckmateOptions how_;
  const LeastTimes times_;
  const StateLayout layout_;
  const BoundGraph graph_;
  int64_t always_ = 0;
  double base_ms_ = 0;
  std::vector<NodeId> stages_;
  std::vector<std::vector<NodeId>> readers_;  // of atoms
  std::vector<int> last_;                     // stage, of atoms
  ByNode<int> runs_last_;
  ByNode<std::vector<AtomId>> makes_;
  std::vector<std::vector<int>> kept_, runs_;
  std::vector<std::vector<std::pair<int, double>>> columns_;
  std::vector<double> cost_, low_, high_;
  std::vector<int> whole_;
};

}  // namespace

CheckmateTime checkmate_time(const Program& program, const CompileOptions& options, int64_t bytes,
                             const CheckmateOptions& how) {
  return Checkmate(program, options, how).solve(bytes);
}

}  // namespace pal::test
