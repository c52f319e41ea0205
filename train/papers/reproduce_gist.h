// What Gist's tables are made of, beside memory/price/gist_baseline.h.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/program.h"
#include "memory/compile.h"
#include "memory/passes/map_forms.h"
#include "memory/price/gist_baseline.h"
#include "train/papers/gist_pairs.h"
#include "train/papers/reproduce.h"

namespace pal {

inline constexpr int64_t kGistBatch = 64;  // section II-A
// Of what csr stores, assumed where it was not measured.
inline constexpr double kGistDensity = 0.5;

// A network at the paper's batch as CNTK runs it.
struct GistBaseline {
  std::string name;
  bool apart = false;  // not one of the paper's five
  Program program;
  GistFootprint footprint;
  std::vector<GistStash> stashes;

  int64_t stashed(LayerPair pair) const;  // bytes, nothing shared
  int64_t stashed() const;
  int64_t pooled_of_relu() const;  // of what max pooling makes of ReLU-Pool's maps
  int64_t binarized_relu() const;  // of bits for ReLU-Pool, with four for each pooled element
};
// The five, then those apart where wanted.
std::vector<GistBaseline> gist_baselines(bool apart = true);
std::string label(const GistBaseline& network);  // its name, and whether it stands apart

// "conv1_1 relu": with the scope that the node has, or else its first operand's maker.
std::string node_name(const Program& program, NodeId node);
// What text of the paper says of a network, or "-".
std::string said(const std::string& network,
                 std::initializer_list<std::pair<const char*, const char*>> texts);

// Which of the paper's encodings a step is simulated with.
struct GistEncodings {
  bool binarize = false;  // bits for ReLU-Pool; max pooling keeps its map, of four bits
  bool ssdc = false;      // csr for ReLU-Conv and Pool-Conv
  bool mask = false;      // and mask where that takes fewer bytes (ours)
  bool inplace = false;
  const char* dpr = nullptr;      // format of the other stashes and of csr's values; null: f32
  double density = kGistDensity;  // assumed, of what csr stores
  // Measured, in place of that; what is not in it stays as it would without csr. Null: none.
  const std::map<ValueId, double>* measured = nullptr;
  bool decoded_copies = true;  // off: the optimized software of section V-H
};
// The footprint with them, on lifetimes alone (with_encoded). ReLU-join is among the others, as in
// the paper.
GistFootprint gist_simulation(const Program& program, const GistEncodings& with);

// The same by the passes that a step is compiled with: what they make of it with memory.encode,
// judging by maps alone, counted as the paper counts. Sparse forms have room for just what is
// stored. Without in-place, layers stay apart too (memory.fuse_epilogues). Where kernels read
// encoded maps (decoded_copies off), copies are taken out of the program that the passes made.
struct GistPlanned {
  GistFootprint footprint;
  std::vector<MapForm> maps;  // as they are kept
  MapsAlone step;
};
GistPlanned gist_planned(const Program& program, const GistEncodings& with, KernelCache& cache);
// What memory.encode would have to be. A density that is assumed is that of ReLU-Conv's and
// Pool-Conv's maps alone, as in the simulation; measured ones are of all maps.
Encodings as_options(const Program& program, const GistEncodings& with);

// What an operator's gradient reads of the operator's operands and results (figure 4), by its
// first example, recorded: "X, dY" or "Y (one bit), dY". Names by number.
std::string backward_reads(const OpDef& op, const std::vector<std::string>& operands,
                           const std::vector<std::string>& results);

// Bytes of a map of f32 in the encodings of figure 6, by the paper's formats.
int64_t binarized(int64_t bytes);                    // one bit an element
int64_t pool_map(int64_t result_bytes);              // four bits for each pooled element
int64_t reduced(int64_t bytes, const char* format);  // fp16, fp10, fp8: 2, 3, 4 in four bytes
// Values, reduced where there is a format, one-byte columns, and a row pointer for 256 elements.
int64_t ssdc_csr(int64_t bytes, double density, const char* format = nullptr);
// The smaller of that and a bit an element with the values (docs/encodings.md).
int64_t ssdc_smaller(int64_t bytes, double density, const char* format = nullptr);

// The smallest format that trains the network as f32 does (figure 12): "fp8". NiN's is unnamed in
// the paper and assumed to be fp16, like that of networks apart.
const char* smallest_format(const std::string& network);

// How many elements of a map csr stores: assumed, or what runs measured.
struct GistDensity {
  std::string what;                                           // "density 0.5", "measured"
  std::optional<double> assumed;                              // of every map
  std::map<std::string, std::map<ValueId, double>> measured;  // by network, by map

  void put_into(GistEncodings& with, const std::string& network) const;
};
// What --density asks for, and the networks that figures can have then: of numbers each by itself
// and all networks, of runs those that they trained. Nothing given: 0.5 and 0.2. UsageError where a
// run is of no such network, or of another model than its configuration says.
struct GistDensities {
  std::vector<GistDensity> each;
  std::vector<GistBaseline> networks;
  std::string said;  // for a note: where the densities are from
};
GistDensities gist_densities(const std::vector<std::string>& given, bool apart = true);

}  // namespace pal
