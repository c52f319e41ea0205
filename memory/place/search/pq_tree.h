// The orders of a set in which some subsets lie side by side, all of them at once (Booth and
// Lueker, 1976): a tree whose leaves, read from left to right, are an order. The children of a P
// node may stand in any order, those of a Q node as they are or reversed.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace pal {

class PqTree {
 public:
  using Leaf = int16_t;
  PqTree() = default;
  explicit PqTree(std::span<const Leaf> leaves);  // in any order

  // From now on these lie side by side. False, and the tree is of no more use, if they cannot.
  // `marked`, here and below, is scratch: by leaf, 0 before and after.
  bool gather(std::span<const Leaf> leaves, std::vector<char>& marked) {
    return reduce(leaves, {}, marked);
  }
  // These lie side by side, and `by`, in any order, take their place.
  bool replace(std::span<const Leaf> leaves, std::span<const Leaf> by, std::vector<char>& marked) {
    return reduce(leaves, by, marked);
  }

  // Only the orders that the other allows too. False, and the tree is of no more use, if there are
  // none.
  bool intersect(const PqTree& other, std::vector<char>& marked);

  // Of the number of orders; by number: the logarithm of its factorial.
  double log_orders(std::span<const double> log_factorial) const;
  // The same for equal sets of orders of leaves alike.
  uint64_t hash(std::span<const uint64_t> kind_of_leaf) const { return hash(root_, kind_of_leaf); }
  // The order that agrees with these ranks, which is known to exist: of all leaves but those that
  // share a rank, which stand in any order beside each other.
  std::vector<Leaf> order(std::span<const int32_t> rank_of_leaf) const;

 private:
  enum Type : int8_t { kLeaf, kP, kQ };
  enum Colour : int8_t { kEmpty, kPartial, kFull };  // of the leaves below: none marked, some, all
  struct Node {
    int16_t first = -1, next = -1;  // child, sibling
    int16_t parent = -1;
    Leaf leaf = -1;
    int16_t marked = 0, size = 1;  // leaves below
    Type type = kLeaf;
  };

  Node& at(int16_t n) { return nodes_[n]; }
  const Node& at(int16_t n) const { return nodes_[n]; }
  int16_t add(Node node);
  int16_t any_order(std::span<const Leaf> leaves);
  int16_t join(Type type, std::span<const int16_t> children);
  Colour colour(int16_t n) const {
    const Node& node = at(n);
    return node.marked == 0 ? kEmpty : node.marked == node.size ? kFull : kPartial;
  }
  void mark(std::span<const Leaf> leaves, std::vector<char>& marked);
  void tidy();
  bool reduce(std::span<const Leaf> leaves, std::span<const Leaf> by, std::vector<char>& marked);
  int16_t root_of_marked(size_t count) const;
  // A partial node as a line of subtrees: those without marks, then those that are full.
  struct Line {
    std::vector<int16_t> empty, full;
  };
  bool straighten(int16_t n, Line& line);
  bool straighten_p(int16_t root, Line& left, Line& right, std::vector<int16_t>& beside);
  bool straighten_q(int16_t root, Line& left, Line& right);
  std::vector<Leaf> below(int16_t n) const;
  double log_orders(int16_t n, std::span<const double> log_factorial) const;
  uint64_t hash(int16_t n, std::span<const uint64_t> kind) const;
  void append(int16_t n, std::span<const int32_t> rank, std::vector<Leaf>& out) const;
  int16_t copy_into(std::vector<Node>& out, int16_t n, int16_t parent) const;

  std::vector<Node> nodes_;  // the root first; `parent` and `size` are right between operations
  int16_t root_ = 0;
};

}  // namespace pal
