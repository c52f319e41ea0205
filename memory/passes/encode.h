// Feature maps kept in another form from their last reader in the forward phase to their first
// after it (Gist, section IV: the Schedule Builder). No operator is named.
//
// A form is bits or codes. Bits: where readers after the forward phase ask the same predicate of a
// value (x > 0 for relu, an interval for relu6, the mask for dropout), an encode node writes the
// answers, one bit an element, right after the value is made, and those readers read the bits.
// Kernels that declare a predicate (OpDef::reads) take either, and give the same result for both.
// Codes: an encode node writes them after the last reader of the forward phase (before it, where it
// may write over the value), and a decode node makes the values again before each group of later
// readers that are near each other; kernels that read codes (OpDef::reads_codes) take them as they
// are. Codes are rounded (ops/encodings/dpr.h), sparse (ops/encodings/ssdc.h), or both. Where they
// are rounded, a predicate is still answered by bits of the exact values, and what a clone reads is
// not rounded. A view of all elements of a value with codes like its own has none: it is made again
// of the decoded copy.
//
// Sparse codes have a capacity, from the nonzeros that were seen before. A step that has more of
// them shuts all its gates, so that no state changes, and says so in its output `overflow`.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/op.h"
#include "core/program.h"
#include "memory/storages/storages.h"
#include "ops/encodings/dpr.h"
#include "ops/encodings/ssdc_layout.h"

namespace pal {

// What may be done to a step (memory.encode).
struct Encodings {
  bool binarize = false;                  // bits of values that the forward phase reads as values
  bool dropout_bits = false;              // bits of values of which no reader ever asks more
  std::optional<Dpr> dpr;                 // rounded codes
  std::map<std::string, Dpr> dpr_layers;  // of the values below these scopes, in place of `dpr`

  // Sparse codes of maps whose density is known: the part of their elements that is not zero.
  bool ssdc = false;
  std::optional<SsdcForm> ssdc_form;  // none: the one that takes fewer bytes
  double ssdc_margin = 1.25;          // capacity, by the density
  std::map<ValueId, double> density;  // by Value::origin
  // Of maps that `density` does not name, and whose makers tell of zeros (OpDef::zeros).
  std::optional<double> assumed_density;
  bool observe = false;  // counts nonzeros, for `density`

  bool direct = false;  // kernels read codes where they can: on the processor

  bool any() const { return binarize || dropout_bits || is_lossy() || ssdc || observe; }
  bool is_lossy() const { return dpr || !dpr_layers.empty(); }  // rounds
  bool keeps_codes() const { return is_lossy() || (ssdc && (assumed_density || !density.empty())); }
};
// Of these, echo takes what lowers the peak.
inline const Encodings kBits{.binarize = true, .dropout_bits = true};

// What readers ask of a value. Later ones: its elements (`values`), or a predicate, on which they
// may agree. `always`: the forward phase asks no more than that either. `mixed`: a reader of the
// forward phase comes after a later one, or runs again in a clone; from rounded values a clone
// would give other predicates and other places of maxima.
struct Asked {
  bool values = false, agree = true, always = true, mixed = false;
  std::optional<Reads> predicate;

  bool bits_will_do() const { return predicate && agree && !values; }
};
Asked asked_of(const Program& program, const Readers& readers, ValueId v);
// Somebody reads it after the forward phase.
bool is_read_later(const Program& program, const Readers& readers, ValueId v);

// Bytes of a value as bits.
int64_t bit_bytes(const TensorSpec& spec);

// How one value is kept: as bits for those who ask a predicate, as codes for all others, or both.
struct Form {
  std::optional<Reads> bits;
  std::optional<Dpr> dpr;           // codes are rounded
  std::optional<SsdcAttrs> sparse;  // and they are those of the nonzeros

  bool direct = false;  // codes go to kernels that can read them (OpDef::reads_codes)

  bool has_codes() const { return dpr || sparse; }
  bool is_dense() const { return !bits && !has_codes(); }
};
using Forms = ByValue<Form>;
// Bytes of a value that is kept so.
int64_t bytes_of(const TensorSpec& spec, const Form& form);

// Of a value that is read after the forward phase and has no form: why, in a few words; else null.
using Reasons = ByValue<const char*>;

// The bits and rounded codes that the encodings allow, for values whose storage then shrinks:
// floats in a plain layout, made by a node of the forward phase, and read by one after it; no
// state, input or output. Rounded are only maps: a value with less than a sixteenth of the elements
// of what its node reads or makes is a statistic.
Forms choose_forms(const Program& program, const Encodings& encodings, Reasons* reasons = nullptr);
// The same forms, and sparse codes of the values whose storage then shrinks further.
Forms add_sparse(const Program& program, const Encodings& encodings, const Forms& forms,
                 Reasons* reasons = nullptr);
size_t count_encoded(const Forms& forms);
// Of the sparse forms with room for this density the one of fewer bytes.
SsdcAttrs least_sparse(const Encodings& encodings, int64_t elements, DType type, double density,
                       SsdcValues values);

// Gives up forms of `forms`, for those of `instead`, whose decoded copy is alive at the peak and
// raises it. `storages`: what is counted.
Forms lowered(const Program& program, Forms forms, const Forms& instead,
              const StorageOptions& storages = {});

// The step with these forms. Encode nodes have Phase::encode, decode nodes Phase::decode.
Program encode(const Program& program, const Forms& forms);
// What the encodings allow, lowered; `allowed` is what it was before. UsageError where dpr_layers
// names no layer.
Forms lowered_forms(const Program& program, const Encodings& encodings,
                    const StorageOptions& storages = {}, Forms* allowed = nullptr);
// "3 values kept as bits, 2 rounded, 1 sparse: 1.20 MB instead of 4.80 MB".
std::string describe(const Program& program, const Forms& forms);

// The step that also counts the nonzeros of every map that could be kept sparse: read later, itself
// or in the form that it has here.
Program count_nonzeros_of_maps(const Program& program);

// Scope and operator of a node: "features/3 relu"; where it has no scope, that of what it reads:
// "relu after conv1_1".
std::string layer_of(const Program& program, const Node& node);

// A map whose nonzeros a step counts.
struct CountedMap {
  std::string output;  // i32, of which the first is the count
  ValueId origin;
  std::string layer;  // layer_of() its producer
  int64_t elements;
  DType type;
  std::optional<SsdcAttrs> sparse;  // how it is kept; none: dense
};
std::vector<CountedMap> counted_maps(const Program& program);
inline constexpr const char* kOverflowOutput = "overflow";  // a gate (ops/kernels/gate.h)

// The rounded values of a step and their formats as 16 hexadecimal digits, "" where none is: two
// plans of one program with the same digits give the same results.
std::string rounding_of(const Program& program);

}  // namespace pal
