// The bytes of a step as Gist (Jain et al. 2018) counts them, so that its figures can be set beside
// ours: feature maps and gradient maps, with their encoded and decoded copies; no state, weight
// gradients, inputs, workspace (section V-A). Everything follows from the recorded program and from
// the table of baselines.h; no layer is named. Sizes are bytes as they are, not aligned.
//
//   cntk           What the maps share by CNTK's allocator (section IV-C): sharing_groups() below.
//   investigation  The same, and what is stashed shares with nothing (section V-A).
//   dynamic        The most bytes that live at once (section V-H).
//
// Of one program dynamic <= cntk, since groups are one way to place the maps. The order of the
// nodes is the program's. The rules say which program it is: as recorded and with the default
// rules, it is the paper's CNTK baseline. A program with encode and decode nodes gives the paper's
// footprints after encoding.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/program.h"
#include "memory/place/buffers/buffer.h"

namespace pal {

struct GistRules {
  // A node may write over an operand that dies there (section III-C); never a gradient over a
  // feature map.
  bool inplace = false;
  // Max pooling keeps the map of its maxima, as ours is recorded. Off: it keeps its operand and its
  // result instead, as CNTK does (section IV-A). Where these are stashed encoded, its gradient
  // reads the copy that was decoded last, for as long.
  bool pool_map = false;
  // Off: kernels read encoded maps themselves, which live until then, and a decoded copy costs
  // nothing (the optimized software of section V-H).
  bool decoded_copies = true;
};

// What a map is to the paper (section II-A, figure 1).
enum class MapUse : uint8_t {
  stashed,    // a feature map of the forward phase that is read after it
  immediate,  // a feature map that is read in its own phase alone
  gradient,
  encoded,  // stashed in another form
  decoded   // made again of an encoded one
};
inline constexpr size_t kMapUses = size_t(MapUse::decoded) + 1;
const char* to_string(MapUse use);
// Stashed for the backward phase, in one form or another.
inline bool is_stash(MapUse use) { return use == MapUse::stashed || use == MapUse::encoded; }

using BytesByUse = std::array<int64_t, kMapUses>;

// Bytes that live and die together: a value with its views, and what is written over it.
struct GistMap {
  ValueId value;  // the one that decides its use; of several, the last made
  MapUse use;
  Buffer buffer;  // moments of memory/storages/lifetimes.h; bytes
  // The gap between the two uses (figure 2): the last node of the forward phase that touches it, an
  // encode among them, and the first node after that phase. kNone: there is none.
  NodeId first_use = kNone, second_use = kNone;
};

struct GistFootprint {
  int64_t cntk = 0, investigation = 0, dynamic = 0;  // bytes
  // The first two by use: a group counts as what its largest member is.
  BytesByUse cntk_by_use{}, investigation_by_use{};
  std::vector<GistMap> maps;  // in order of production

  int64_t bytes_of(MapUse use) const;  // the sum of all such maps, nothing shared
};
GistFootprint gist_footprint(const Program& program, const GistRules& rules = {});

// A stash in another form.
struct EncodedMap {
  ValueId value;    // a GistMap's
  int64_t bytes;    // of the encoded form
  bool is_decoded;  // off: kernels read the encoded form
};
// The footprint with stashes encoded, as the paper's liveness analysis has it (sections III and
// IV-B, figure 2): the dense map lives until its first use is over, the encoded form from there to
// the second use, a decoded copy from there on. Where kernels read the encoded form it lives to the
// end, without a copy. What nobody reads in the forward phase is made encoded. A simulation on
// lifetimes: no node is inserted, and in-place stays as it was. Values that are not stashed stay.
GistFootprint with_encoded(const GistFootprint& footprint, std::span<const EncodedMap> encoded);

// CNTK's static memory sharing (section IV-C; its class MatrixPool): the largest buffer first,
// those of one size in the order of their beginning, each joins a group none of whose members is
// alive with it, the smallest such group; where there is none, it begins one. A group costs its
// largest member.
struct SharingGroups {
  std::vector<int32_t> of;      // by buffer; -1: it is empty
  std::vector<size_t> largest;  // by group: the buffer that began it
  int64_t bytes = 0;
};
SharingGroups sharing_groups(std::span<const Buffer> buffers);

// No encoding of stashes goes below what one node reads and writes: the most bytes of floats among
// the maps that a node touches, in place where the operators allow it. Bytes that are touched twice
// count once, and of a storage those alone that the node's operands and results have, not what lies
// beside a window. An operand of which a predicate is asked counts nothing: a bit will do.
struct GistFloor {
  int64_t bytes = 0;
  NodeId node = kNone;
};
GistFloor gist_floor(const Program& program);

// What a step has beside its maps (figure 1), in bytes. The workspace is one for all nodes: the
// largest.
struct BesideMaps {
  int64_t weights = 0, weight_gradients = 0, optimizer_state = 0, workspace = 0;
};
BesideMaps beside_maps(const Program& program, const ByNode<int64_t>& workspace_bytes = {});

}  // namespace pal
