// What ranks exchange, as nodes: a pass sees them, a plan holds their bytes, a price counts what
// crosses the link. A node takes any number of tensors, each by itself, so that small ones travel
// together and none is copied for it. Every rank has the same program: shapes do not depend on the
// rank.
#pragma once
#include <vector>

#include "core/op.h"
#include "core/val.h"
#include "ops/exchange/exchange_attrs.h"
#include "ops/kernels/ranks.h"

namespace pal {

extern const OpDef all_gather_op, all_reduce_op, all_to_all_op, gather_state_op, own_piece_op,
    pairwise_sum_op, reduce_scatter_op;

// Defined where the CUDA device is part of the build.
[[gnu::weak]] extern const Backend all_gather_cuda, all_reduce_cuda, all_to_all_cuda,
    gather_state_cuda, own_piece_cuda, pairwise_sum_cuda, reduce_scatter_cuda;

// Each x, any shape, of floats -> (ranks, piece): row q is rank q's part of what is this rank's
// piece of x. Elements beyond x's end are zero.
std::vector<Val> all_to_all(const std::vector<Val>& xs, int64_t ranks);
// The same in two calls, where sums are made in between: of each x -> (per_node, nodes, piece), at
// (i, k) what the i-th rank of this machine has of x's piece that is of the rank like this one on
// machine k. And of each x of those sums, (nodes, piece) -> (nodes, piece), row k what the rank
// like this one on machine k has of this one's piece of `wholes`.
std::vector<Val> all_to_all_inside(const std::vector<Val>& xs, int64_t ranks, int64_t per_node);
std::vector<Val> all_to_all_between(const std::vector<Val>& xs, std::vector<Shape> wholes,
                                    int64_t ranks, int64_t per_node);
// Each piece, any shape, of every rank -> the whole, where rank 0's piece comes first.
std::vector<Val> all_gather(const std::vector<Val>& pieces, std::vector<Shape> wholes,
                            int64_t ranks);
// Each x, f32 -> the sum of all ranks' x; the library chooses the order.
std::vector<Val> all_reduce(const std::vector<Val>& xs, int64_t ranks);
// Likewise -> this rank's piece of the sum.
std::vector<Val> reduce_scatter(const std::vector<Val>& xs, int64_t ranks);

// x, any shape -> (piece), this rank's part; zeros beyond x's end.
Val own_piece(Val x, int64_t ranks);
// (n, ..), rows in f32 or 16 bits -> f32 (..): their sum along a fixed binary tree, the one that
// aligned pairs make: ((0 1)(2 3))((4 5)(6 7)).. What is left over at a level goes up as it is.
// So the sum over all is that over blocks of a power of two rows, summed the same way.
Val pairwise_sum(Val rows);
// Updates: each state, of which every rank has changed its own piece, as all have changed it.
void gather_state(const std::vector<Val>& states, int64_t ranks);

}  // namespace pal
