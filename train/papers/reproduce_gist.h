// What Gist's tables are made of, beside memory/price/gist_baseline.h.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "core/program.h"
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
  bool inplace = false;
  const char* dpr = nullptr;      // format of the other stashes and of csr's values; null: f32
  double density = kGistDensity;  // assumed, of what csr stores
  bool decoded_copies = true;     // off: the optimized software of section V-H
};
// The footprint with them, on lifetimes alone (with_encoded). ReLU-join is among the others, as in
// the paper.
GistFootprint gist_simulation(const Program& program, const GistEncodings& with);

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

// The smallest format that trains the network as f32 does (figure 12): "fp8". NiN's is unnamed in
// the paper and assumed to be fp16, like that of networks apart.
const char* smallest_format(const std::string& network);

}  // namespace pal
