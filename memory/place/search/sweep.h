// Packings without a hole, from one end of time towards the other: the column of what is alive is
// full at all times, so what ends leaves gaps that what begins must fill to the byte. Which group
// of buffers gives way to which is all that is chosen; the orders in which the column may then
// still stand are a PQ tree.
#pragma once
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "memory/place/buffers/buffer.h"
#include "memory/place/search/exchanges.h"
#include "memory/place/search/limits.h"
#include "memory/place/search/pq_tree.h"

namespace pal {

class ColumnSweep {
 public:
  using Leaf = PqTree::Leaf;
  struct State {
    PqTree tree;
    BufferSet out, in;  // still to change
    int32_t leaves;
    double score;
    uint64_t hash;
    int32_t origin;  // how it came about
  };

  // None of the buffers empty; they fill the same capacity at all times (fills() in load.h).
  // `backwards`: from the last moment on.
  ColumnSweep(std::span<const Buffer> buffers, bool backwards);

  // Beam search: of the states with equally many buffers still to change the `width` are kept that
  // leave most orders. The seed draws noise. Returns the nodes visited.
  int64_t run(size_t width, uint64_t seed, const SearchLimits& limits);
  // What was found of a column, the best first; empty where the search did not come.
  const std::vector<State>& states(size_t column) const { return states_[column]; }
  size_t columns() const { return borders_.size(); }
  // Offsets of what is alive in the columns up to this one, from an order that its state allows.
  void settle(size_t column, const State& state, std::span<const Leaf> order,
              std::vector<int64_t>& offset);

 private:
  struct Border {                     // between two moments
    std::vector<Leaf> out, in;        // largest first
    std::vector<Exchange> exchanges;  // fewest buffers first
  };
  struct Origin {  // how a state came about
    int32_t before;
    size_t border;
    Exchange exchange;
  };

  // States with equally many buffers still to change.
  struct Bucket {
    std::vector<State> states;
    double least = -std::numeric_limits<double>::infinity();  // no worse is of use
    void keep_best(size_t width);
  };

  void prepare(Border& border);
  std::vector<State> cross(size_t number, size_t width, const SearchLimits& limits);
  void list_options(const Border& border, BufferSet out, BufferSet in);
  static void list(const std::vector<Leaf>& of, BufferSet set, std::vector<Leaf>& out);

  std::vector<Buffer> buffers_;
  std::vector<Leaf> first_;      // alive at the beginning
  std::vector<Border> borders_;  // the first is before everything
  bool able_ = true;             // a BufferSet is large enough
  std::vector<uint64_t> kind_;   // a number that leaves alike share
  std::vector<double> log_factorial_;
  std::vector<std::vector<State>> states_;  // by column
  std::vector<Origin> origins_;
  std::mt19937_64 random_;
  double noise_ = 0;
  size_t unions_ = 0;  // of two exchanges that are tried at most
  int64_t nodes_ = 0;
  // Scratch.
  std::vector<char> marked_;  // by buffer
  std::vector<Leaf> going_, coming_;
  std::vector<Exchange> fitting_, options_;
};

}  // namespace pal
