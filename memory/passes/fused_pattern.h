// Where the nodes of a small program (FusedPattern) occur in a large one.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "core/program.h"
#include "core/rewrite.h"

namespace pal {

// How to walk over a pattern from its anchor: each edge reaches a node through a value that is
// known by then, as its producer (of which there is one) or as a reader (any may be tried).
struct Walk {
  struct Edge {
    NodeId node;
    ValueId through;
    bool producer;
  };
  NodeId anchor = kNone;
  std::vector<Edge> edges;
  bool whole = false;  // every node is reached
};

struct Pattern {
  FusedPattern form;
  Walk walk;
  ByValue<char> interior;  // of the pattern: made in it, and no output of it
  ByValue<char> read;      // a node of the pattern reads it
};

// Pattern -> program.
struct Binding {
  ByNode<NodeId> node;     // of the pattern: the node of the step
  ByValue<ValueId> value;  // likewise
};

// Finds occurrences in one program by growing them from an anchor along edges.
class PatternFinder {
 public:
  PatternFinder(const Program& program, const Readers& readers) : p_(program), readers_(readers) {}

  // The patterns of `rewrite` where its anchor is this node; recorded once for equal anchors.
  const std::vector<Pattern>& patterns_of(const Node& anchor, const Rewrite& rewrite);
  // Every occurrence that has the pattern's anchor at this node.
  void find(const Pattern& pattern, NodeId anchor, const std::function<void(Binding)>& found) const;

 private:
  struct Known {
    const Rewrite* rewrite;
    Attrs attrs;
    Specs in;
    std::unique_ptr<const std::vector<Pattern>> patterns;
  };

  bool bind(const Pattern& pattern, NodeId from, NodeId to, Binding& b) const;
  bool bind_value(const Pattern& pattern, ValueId from, ValueId to, Binding& b) const;
  void grow(const Pattern& pattern, size_t edge, const Binding& b,
            const std::function<void(Binding)>& found) const;

  const Program& p_;
  const Readers& readers_;
  std::vector<Known> known_;
};

}  // namespace pal
