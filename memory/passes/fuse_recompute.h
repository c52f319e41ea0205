// Folds recomputed nodes into the kernels of their readers (the hand-tuned kernels that Echo's
// paper writes for its Figure 15, found by a pass).
//
// An operator that can do the work of several nodes says so as a pattern (core/rewrite.h): the
// nodes as a small program, with clones among them. Where the step contains such nodes, and nobody
// else reads what the gradient nodes among them hand to each other, one node takes their place.
// What was recomputed for it never exists in memory (a clone that others read too stays for them),
// and results are the same bits. The pass knows no operator: it compares operators, attributes,
// specs and edges.
//
// The rewrites that say `first` are found before anything is chosen, so that all choices are made
// by what the node asks for: of a map that no gradient reads any more, nothing is kept. They may
// tell by nodes that stay, whoever else reads them, what a value is.
//
// The rewrites that say `always`, relu behind a matrix product for one, are found by a second pass,
// whether something is recomputed or not. There nobody else may read what is inside, so that
// nothing is made twice. One node of a pattern may stay where it is, with other attributes: a
// pool's, so that its gradient has done what relu's would.
#pragma once
#include <span>
#include <string>

#include "core/program.h"
#include "core/rewrite.h"

namespace pal {

// The step with every pattern of `rewrites` fused that it contains, or as it was where there is
// none. `note` says how many nodes became how many, and what they move. ProgramError never; verify
// after.
Program fuse_recompute(Program program, std::string* note = nullptr,
                       std::span<const Rewrite* const> rewrites = all_rewrites());
// The same with those that say `first`.
Program fuse_first(Program program, std::string* note = nullptr,
                   std::span<const Rewrite* const> rewrites = all_rewrites());
// The same with those that say `always`.
Program fuse_epilogues(Program program, std::string* note = nullptr,
                       std::span<const Rewrite* const> rewrites = all_rewrites());
// By both, as far as a plan has them.
struct Fusions {
  bool recomputed = true, epilogues = true;
};
constexpr Fusions kNoFusions{.recomputed = false, .epilogues = false};
Program fused_by(const Fusions& which, Program program);
// The same with those that say `encoded`.
Program fuse_encoders(Program program, std::string* note = nullptr,
                      std::span<const Rewrite* const> rewrites = all_rewrites());

}  // namespace pal
