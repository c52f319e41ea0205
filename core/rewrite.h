// Rewrites: one node that does the work of several, to the bit. An operator that can stand for
// nodes of others says so in a Rewrite in its file; all_rewrites() lists them, and passes look them
// up.
#pragma once
#include <algorithm>
#include <span>
#include <vector>

#include "core/op.h"

namespace pal {

// Nodes whose work one node of another operator does, with the same arithmetic in the same order,
// so that the results are the same bits. Written as a small program: recompute nodes of it stand
// for clones, backward ones for gradients, forward ones for nodes of any phase.
struct FusedPattern {
  Program program;
  std::vector<ValueId> in, out;  // of `program`, as the fused node has them; kNone: absent, unread
  Attrs attrs;                   // the fused node's
  // A node of `program` that stays where it is, with other attributes. What it makes for the others
  // then has no other readers, and may have other elements; all else that it makes is the same.
  struct Stays {
    NodeId node = kNone;
    Attrs attrs;
  } stays = {};
  // Of `first`: nodes of `program` that have to be there, and stay as they are, whoever else reads
  // what they make: the others know by them what a value is.
  std::vector<NodeId> given = {};

  bool is_given(NodeId n) const { return std::find(given.begin(), given.end(), n) != given.end(); }
};

struct Rewrite {
  // first       In every step, before anything is chosen in it (memory/passes/fuse_recompute.h): a
  //             node of `op` that asks less of the step than the pattern's nodes.
  // recomputed  A node of `op` takes the place of a pattern that contains clones
  //             (memory/passes/fuse_recompute.h); some fit without clones, too.
  // always      Likewise in every step, when that is done. What the pattern's nodes hand to each
  // other may then have
  //             no other readers, so that nothing is made twice.
  // encoded     The same for encode nodes: with the node whose result they keep in another form.
  // split       The other way: where something is recomputed, forward nodes of `op` are taken apart
  //             into the one pattern that there is, and a clone of its last node may do
  //             (memory/passes/parts.h).
  enum class When : uint8_t { first, recomputed, always, encoded, split };

  const OpDef* op = nullptr;
  const OpDef* anchor = nullptr;  // an operator of the patterns, where the search begins; split: op
  When when = When::recomputed;
  // Of `always`: a card's kernel is faster, a processor's no other than the two one by one, which
  // may then fuse with others.
  bool cards_alone = false;
  // The patterns around an anchor with these operands and attributes; the first that fits is taken.
  std::vector<FusedPattern> (*patterns)(SpecSpan in, const Attrs&) = nullptr;
};

// Every rewrite that there is; where two begin at the same node, the first is tried first.
std::span<const Rewrite* const> all_rewrites();

}  // namespace pal
