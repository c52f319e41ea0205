// Passes that have several answers and take the one that the rest of the list makes most of.
#pragma once
#include <optional>
#include <string>

#include "memory/pass.h"

namespace pal {

// Each is a Pass::run (memory/pass.h): the new program, or nothing.

// memory.recompute: mirror, sqrt, echo.
std::optional<Program> recompute_some(const Program& program, const PassContext& context,
                                      std::string* note);
// memory.fuse_recompute in a step with clones, and in one without.
std::optional<Program> fold_clones(const Program& program, const PassContext& context,
                                   std::string* note);
std::optional<Program> fold_plain(const Program& program, const PassContext& context,
                                  std::string* note);
// memory.fuse_epilogues.
std::optional<Program> fold_epilogues(const Program& program, const PassContext& context,
                                      std::string* note);
// memory.swap.
std::optional<Program> swap_some(const Program& program, const PassContext& context,
                                 std::string* note);
// memory.encode.
std::optional<Program> encode_maps(const Program& program, const PassContext& context,
                                   std::string* note);

}  // namespace pal
