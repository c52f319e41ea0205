// The templates of Booth and Lueker, from the root down: the trees here have some dozens of leaves.
#include "memory/place/search/pq_tree.h"

#include <algorithm>

namespace pal {
namespace {

uint64_t mixed(uint64_t h) {
  h = (h ^ h >> 31) * 0x9e3779b97f4a7c15u;
  h = (h ^ h >> 29) * 0xbf58476d1ce4e5b9u;
  return h ^ h >> 32;
}

template <class List> void append_reversed(List& to, const List& from) {
  to.insert(to.end(), from.rbegin(), from.rend());
}

}  // namespace

PqTree::PqTree(std::span<const Leaf> leaves) {
  root_ = any_order(leaves);
  tidy();
}

int16_t PqTree::add(Node node) {
  nodes_.push_back(node);
  return int16_t(nodes_.size() - 1);
}

int16_t PqTree::any_order(std::span<const Leaf> leaves) {
  if (leaves.size() == 1) return add({.leaf = leaves[0]});
  int16_t next = -1;
  for (size_t i = leaves.size(); i-- > 0;) next = add({.next = next, .leaf = leaves[i]});
  return add({.first = next, .type = kP});
}

// Of one child nothing is made, and of two a Q node says no more than a P node.
int16_t PqTree::join(Type type, std::span<const int16_t> children) {
  if (children.size() == 1) return children[0];
  for (size_t i = 0; i + 1 < children.size(); ++i) at(children[i]).next = children[i + 1];
  at(children.back()).next = -1;
  return add({.first = children[0], .type = children.size() == 2 ? kP : type});
}

void PqTree::mark(std::span<const Leaf> leaves, std::vector<char>& marked) {
  for (Leaf leaf : leaves) marked[leaf] = 1;
  for (Node& node : nodes_) node.marked = 0;
  for (Node& node : nodes_) {
    if (node.type != kLeaf || !marked[node.leaf]) continue;
    ++node.marked;
    for (int16_t n = node.parent; n >= 0; n = at(n).parent) ++at(n).marked;
  }
  for (Leaf leaf : leaves) marked[leaf] = 0;
}

bool PqTree::straighten(int16_t n, Line& line) {
  std::vector<int16_t> children;
  if (at(n).type == kP) {
    std::vector<int16_t> full;
    int16_t partial = -1;
    for (int16_t c = at(n).first; c >= 0; c = at(c).next) {
      const Colour is = colour(c);
      if (is == kPartial && partial >= 0) return false;
      if (is == kPartial) partial = c;
      if (is == kEmpty) children.push_back(c);
      if (is == kFull) full.push_back(c);
    }
    if (!children.empty()) line.empty.push_back(join(kP, children));
    if (partial >= 0 && !straighten(partial, line)) return false;
    if (!full.empty()) line.full.push_back(join(kP, full));
    return true;
  }
  for (int16_t c = at(n).first; c >= 0; c = at(c).next) children.push_back(c);
  if (colour(children.front()) == kFull || colour(children.back()) == kEmpty)
    std::reverse(children.begin(), children.end());
  size_t i = 0;
  while (i < children.size() && colour(children[i]) == kEmpty) line.empty.push_back(children[i++]);
  if (i < children.size() && colour(children[i]) == kPartial && !straighten(children[i++], line))
    return false;
  for (; i < children.size(); ++i) {
    if (colour(children[i]) != kFull) return false;
    line.full.push_back(children[i]);
  }
  return true;
}

// The lowest node above all `count` marked leaves.
int16_t PqTree::root_of_marked(size_t count) const {
  int16_t root = root_;
  for (bool down = true; down && colour(root) == kPartial;) {
    down = false;
    for (int16_t c = at(root).first; c >= 0 && !down; c = at(c).next) {
      if (at(c).marked == int16_t(count)) root = c, down = true;
    }
  }
  return root;
}

// The full children and at most two partial ones as two lines, whose full ends meet; `beside` are
// those without marks, which need not lie in the line.
bool PqTree::straighten_p(int16_t root, Line& left, Line& right, std::vector<int16_t>& beside) {
  std::vector<int16_t> partial, full;
  for (int16_t c = at(root).first; c >= 0; c = at(c).next)
    (colour(c) == kEmpty ? beside : colour(c) == kFull ? full : partial).push_back(c);
  if (partial.size() > 2) return false;
  if (!partial.empty() && !straighten(partial[0], left)) return false;
  if (!full.empty()) left.full.push_back(join(kP, full));
  return partial.size() < 2 || straighten(partial[1], right);
}

// All children as two lines, whose full ends meet.
bool PqTree::straighten_q(int16_t root, Line& left, Line& right) {
  std::vector<int16_t> children;
  for (int16_t c = at(root).first; c >= 0; c = at(c).next) children.push_back(c);
  size_t i = 0, end = children.size();
  while (colour(children[i]) == kEmpty) left.empty.push_back(children[i++]);
  while (colour(children[end - 1]) == kEmpty) right.empty.push_back(children[--end]);
  if (colour(children[i]) == kPartial && !straighten(children[i++], left)) return false;
  if (colour(children[end - 1]) == kPartial && !straighten(children[--end], right)) return false;
  for (; i < end; ++i) {
    if (colour(children[i]) != kFull) return false;
    left.full.push_back(children[i]);
  }
  return true;
}

bool PqTree::reduce(std::span<const Leaf> leaves, std::span<const Leaf> by,
                    std::vector<char>& marked) {
  mark(leaves, marked);
  const int16_t root = root_of_marked(leaves.size());
  Line left, right;
  std::vector<int16_t> beside;
  if (colour(root) == kFull) {
    if (by.empty()) return true;
  } else if (at(root).type == kP) {
    if (!straighten_p(root, left, right, beside)) return false;
  } else {
    if (!straighten_q(root, left, right)) return false;
  }
  std::vector<int16_t> line = std::move(left.empty);
  if (by.empty()) {
    line.insert(line.end(), left.full.begin(), left.full.end());
    append_reversed(line, right.full);
  } else {
    line.push_back(any_order(by));
  }
  append_reversed(line, right.empty);
  int16_t result = join(kQ, line);
  if (!beside.empty()) {
    beside.push_back(result);
    result = join(kP, beside);
  }
  const int16_t next = at(root).next;
  at(root) = at(result);  // what was the result is no more
  at(root).next = next;
  tidy();
  return true;
}

// What lies side by side in all orders of the other: the leaves below a node, and those below two
// neighbours in a Q node.
bool PqTree::intersect(const PqTree& other, std::vector<char>& marked) {
  for (size_t n = other.nodes_.size(); n-- > 1;) {
    const Node& node = other.nodes_[n];
    if (node.type != kLeaf && !gather(other.below(int16_t(n)), marked)) return false;
  }
  for (const Node& node : other.nodes_) {
    if (node.type != kQ) continue;
    for (int16_t c = node.first; other.at(c).next >= 0; c = other.at(c).next) {
      std::vector<Leaf> two = other.below(c);
      for (Leaf leaf : other.below(other.at(c).next)) two.push_back(leaf);
      if (!gather(two, marked)) return false;
    }
  }
  return true;
}

// The nodes below one come right after it.
std::vector<PqTree::Leaf> PqTree::below(int16_t n) const {
  std::vector<Leaf> out;
  for (size_t i = size_t(n); int16_t(out.size()) < at(n).size; ++i) {
    if (nodes_[i].type == kLeaf) out.push_back(nodes_[i].leaf);
  }
  return out;
}

double PqTree::log_orders(std::span<const double> log_factorial) const {
  return log_orders(root_, log_factorial);
}

double PqTree::log_orders(int16_t n, std::span<const double> log_factorial) const {
  double sum = 0;
  size_t children = 0;
  for (int16_t c = at(n).first; c >= 0; c = at(c).next, ++children) {
    if (at(c).type != kLeaf) sum += log_orders(c, log_factorial);
  }
  return sum + log_factorial[at(n).type == kQ ? 2 : children];
}

uint64_t PqTree::hash(int16_t n, std::span<const uint64_t> kind) const {
  const Node& node = at(n);
  if (node.type == kLeaf) return kind[node.leaf];
  if (node.type == kP) {
    uint64_t sum = 17;
    for (int16_t c = node.first; c >= 0; c = at(c).next) sum += mixed(hash(c, kind));
    return mixed(sum);
  }
  // One and the same from both ends: sums of what each child and each pair of neighbours are.
  uint64_t sum = 5, before = 0;
  for (int16_t c = node.first; c >= 0; c = at(c).next) {
    const uint64_t h = mixed(hash(c, kind));
    sum += mixed(h + before) + h, before = h;
  }
  return mixed(sum + mixed(before));
}

void PqTree::append(int16_t n, std::span<const int32_t> rank, std::vector<Leaf>& out) const {
  const Node& node = at(n);
  if (node.type == kLeaf) return out.push_back(node.leaf);
  std::vector<std::pair<int32_t, int16_t>> children;
  for (int16_t c = node.first; c >= 0; c = at(c).next) {
    int16_t leaf = c;
    while (at(leaf).type != kLeaf) leaf = at(leaf).first;
    children.emplace_back(rank[at(leaf).leaf], c);
  }
  auto less = [](auto& a, auto& b) { return a.first < b.first; };
  if (node.type == kP)
    std::stable_sort(children.begin(), children.end(), less);
  else if (less(children.back(), children.front()))
    std::reverse(children.begin(), children.end());
  for (auto& child : children) append(child.second, rank, out);
}

std::vector<PqTree::Leaf> PqTree::order(std::span<const int32_t> rank) const {
  std::vector<Leaf> out;
  append(root_, rank, out);
  return out;
}

int16_t PqTree::copy_into(std::vector<Node>& out, int16_t n, int16_t parent) const {
  const auto copy = int16_t(out.size());
  out.push_back({.parent = parent, .leaf = at(n).leaf, .type = at(n).type});
  if (at(n).type == kLeaf) return copy;
  int16_t last = -1, size = 0;
  for (int16_t c = at(n).first; c >= 0; c = at(c).next) {
    const int16_t child = copy_into(out, c, copy);
    (last < 0 ? out[copy].first : out[last].next) = child;
    size = int16_t(size + out[child].size);
    last = child;
  }
  out[copy].size = size;
  return copy;
}

// Drops what is no more, and makes the rest as it is to be.
void PqTree::tidy() {
  std::vector<Node> out;
  out.reserve(nodes_.size());
  copy_into(out, root_, -1);
  nodes_ = std::move(out);
  root_ = 0;
}

}  // namespace pal
