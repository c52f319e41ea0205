// Feature maps kept in another form from their last reader in the forward phase to their first
// after it (Gist, section IV: the Schedule Builder). No operator is named.
//
// A form is bits or codes. Bits: where readers after the forward phase ask the same predicate of a
// value (x > 0 for relu, an interval for relu6, the mask for dropout), an encode node writes the
// answers, one bit an element, right after the value is made, and those readers read the bits.
// Kernels that declare a predicate (OpDef::reads) take either, and give the same result for both.
// Codes: an encode node writes them after the last reader of the forward phase (before it, where it
// may write over the value), and a decode node
// makes the values again before each group of later readers that are near each other. Where codes
// are rounded, a predicate is still answered by bits of the exact values, and what a clone reads is
// not rounded.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/op.h"
#include "core/program.h"
#include "ops/encodings/dpr.h"

namespace pal {

// What may be done to a step (memory.encode).
struct Encodings {
  bool binarize = false;                  // bits of values that the forward phase reads as values
  bool dropout_bits = false;              // bits of values of which no reader ever asks more
  std::optional<Dpr> dpr;                 // rounded codes
  std::map<std::string, Dpr> dpr_layers;  // of the values below these scopes, in place of `dpr`

  bool any() const { return binarize || dropout_bits || is_lossy(); }
  bool is_lossy() const { return dpr || !dpr_layers.empty(); }
};
// Of these, echo takes what lowers the peak.
inline const Encodings kBits{.binarize = true, .dropout_bits = true};

// What readers of v after the forward phase have in common: a predicate, or values where they ask
// for more, or for different things, or where there are none.
Reads later_reads(const Program& program, const Readers& readers, ValueId v);

// Bytes of a value as bits.
int64_t bit_bytes(const TensorSpec& spec);

// How one value is kept: as bits for those who ask a predicate, as codes for all others, or both.
struct Form {
  std::optional<Reads> bits;
  std::optional<Dpr> dpr;

  bool is_dense() const { return !bits && !dpr; }
};
using Forms = ByValue<Form>;

// The forms that the encodings allow, for values whose storage then shrinks: floats in a plain
// layout, made by a node of the forward phase, and read by one after it; no state, input or output.
// Rounded are only maps: a value with less than a sixteenth of the elements of what its node reads
// or makes is a statistic.
Forms choose_forms(const Program& program, const Encodings& encodings);
int count_encoded(const Forms& forms);

// The step with these forms. Encode nodes have Phase::encode, decode nodes Phase::decode.
Program encode(const Program& program, const Forms& forms);

// The step with the forms that the encodings allow, less those whose decoded copy is alive at the
// peak and raises it. `note`: how many values are kept how, in how many bytes instead of how many.
Program encode(const Program& program, const Encodings& encodings, std::string* note);

}  // namespace pal
