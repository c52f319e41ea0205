// What every plan of a step has on the device at given marks, whatever it keeps, makes again or
// moves: the needs that a bound of the step's time prices.
//
// Bytes are counted by what they say, not by where they lie. An atom is a run of bytes that one
// node writes and that views, windows and stacks of it then share; a plan may hold an atom more
// than once, never two atoms in the same bytes. So atoms that are needed at one moment take at
// least the sum of their bytes, in-place and windows as they may be.
//
// Marks are nodes of a chain, each of which every plan runs after the one before: the longest path
// of the step (any order of the nodes), or all nodes (the order at hand). At the moment when a
// mark runs first, what it depends on has run before and what depends on it has not. So an atom
// that was made before a mark and is read after it is there, or it is made again after the mark.
#pragma once
#include <cstdint>
#include <vector>

#include "memory/front/least_times.h"
#include "memory/plan/plan.h"

namespace pal {

using AtomId = Id<struct Atom>;

// A mark of the chain, by its number.
using Mark = int32_t;
constexpr Mark kUnread = -2;

struct Atom {
  int64_t bytes = 0, bits = 0;  // as it is; a bit for each element
  NodeId maker = kNone;
  Mark made = 0;  // the first mark after its maker
  // The last mark before a reader of its values (of an output: the last of all), and before one
  // that asks a predicate, for which bits do. kUnread: there is no such reader.
  Mark values = kUnread, predicates = kUnread;
  bool again = false;  // its maker may run again

  bool spans(Mark mark) const { return made <= mark && mark <= values; }
  bool bits_span(Mark mark) const { return made <= mark && mark <= predicates; }
};

struct BoundOptions {
  bool any_order = true;  // else the order of the program alone
  bool bits = true;       // some plans keep bits where gradients ask for no more
  bool in_place = true;   // some plans write a result over an operand
};

class BoundGraph {
 public:
  BoundGraph(const Program& parts, const StateLayout& layout, const LeastTimes& times,
             const BoundOptions& options);

  const Program& program() const { return program_; }
  const LeastTimes& times() const { return times_; }
  const std::vector<NodeId>& chain() const { return chain_; }
  const Indexed<AtomId, Atom>& atoms() const { return atoms_; }
  // Of a node's operands: the atoms whose values it reads, and those of which it asks a predicate.
  const std::vector<AtomId>& reads(NodeId n) const { return reads_[n]; }
  const std::vector<AtomId>& asks(NodeId n) const { return asks_[n]; }
  // The first mark that runs after the node, and the last that runs before it; in both cases
  // marks at which nothing is known of it lie between.
  Mark after(NodeId n) const { return after_[n]; }
  Mark before(NodeId n) const { return before_[n]; }

  // By mark: bytes that are there in any case, and those that are there where nothing is made
  // again.
  const std::vector<int64_t>& fixed() const { return fixed_; }
  // Of these, what no copy to the host takes away: state, inputs, and what the mark itself
  // touches.
  const std::vector<int64_t>& touched() const { return touched_; }
  const std::vector<int64_t>& kept() const { return kept_; }
  // The mark is one node in every plan, so that what it touches is there with it.
  bool is_firm(Mark mark) const;

 private:
  void find_atoms();
  void find_marks(bool any_order);
  void find_readers(bool bits);
  void count(bool in_place);
  // f(operand, how it is read) for every operand that the node cannot do without.
  template <class F> void for_read(NodeId n, F&& f) const;
  // What is there beside what spans the mark: operands and results of the node itself.
  int64_t beside(Mark mark, bool in_place) const;

  const Program& program_;
  const LeastTimes& times_;
  int64_t always_ = 0;  // state and inputs
  std::vector<NodeId> chain_;
  Indexed<AtomId, Atom> atoms_;
  ByValue<std::vector<AtomId>> of_;  // atoms of values
  ByNode<std::vector<AtomId>> reads_, asks_, makes_;
  ByNode<Mark> after_, before_;
  std::vector<int64_t> fixed_, kept_, touched_;
};

}  // namespace pal
