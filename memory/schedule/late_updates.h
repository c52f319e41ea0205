// Weight updates and sums of squares that wait for their like, so that one node makes several
// (memory/passes/fuse_updates.h): as few nodes as the bytes allow.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "core/program.h"
#include "memory/storages/storages.h"

namespace pal {

// Those that may be made together (OpDef::arity) moved to where the last of them runs. Gradients
// wait there, so far as that leaves at most `limit` bytes alive at any moment; else updates come
// together in several places. Nothing where none move. Without `sums`, sums of squares stay, which
// a processor has in its cache then. `program`: on one queue, in its order.
std::optional<Program> late_updates(const Program& program, int64_t limit,
                                    const ByNode<int64_t>& workspace, const StorageOptions& options,
                                    std::string* note = nullptr, bool sums = true);

}  // namespace pal
