// How feature maps may be kept between their last reader in the forward phase and their first after
// it, and which of these forms suit whom: what memory/passes/encode.h then does.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "core/op.h"
#include "core/program.h"
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
  // Where values are rounded: without what depends on counts of nonzeros. A run has plans with it
  // and without it, which have to round the same values.
  Encodings without_counts() const {
    Encodings out = *this;
    if (is_lossy()) out.ssdc = out.observe = false;
    return out;
  }
};
// Of these, echo takes what lowers the peak.
inline const Encodings kBits{.binarize = true, .dropout_bits = true};

// What readers ask of a value. Later ones: its elements (`values`), or a predicate, on which they
// may agree. `always`: the forward phase asks no more than that either. `mixed`: a reader of the
// forward phase comes after a later one, or runs again in a clone; from rounded values a clone
// would give other predicates and other places of maxima.
struct Asked {
  bool values = false, agree = true, always = true, mixed = false;
  bool exact = false;  // a later one's values may not be rounded
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
// of what its node reads or makes is a statistic. UsageError where dpr_layers names no layer.
Forms choose_forms(const Program& program, const Encodings& encodings, Reasons* reasons = nullptr);
// The same forms, and sparse codes of the values whose storage then shrinks further.
Forms add_sparse(const Program& program, const Encodings& encodings, const Forms& forms,
                 Reasons* reasons = nullptr);
size_t count_encoded(const Forms& forms);
// Of the sparse forms with room for this density the one of fewer bytes.
SsdcAttrs least_sparse(const Encodings& encodings, int64_t elements, DType type, double density,
                       SsdcValues values);

// The values whose nonzeros are worth counting: those that could be kept sparse here, or in the
// same step that keeps others encoded.
ByValue<char> values_to_count(const Program& program);

// The operators of a form's codes, what they are told, and what the codes are.
struct Codes {
  const OpDef *encode, *decode;
  Attrs attrs;
  TensorSpec spec;
};
Codes codes_of(const Form& form, const TensorSpec& dense);

// Of a view of all elements of a value with codes like its own: that value, whose codes will do for
// both, since the view can be made again of the decoded copy. Of any other value: itself.
ByValue<ValueId> owners_of_codes(const Program& program, const Forms& forms);

// Nodes after the forward phase, and those that make a gate.
bool is_later(const Node& node);
bool makes_gate(const Program& program, const Node& node);

// Scope and operator of a node: "features/3 relu"; where it has no scope, that of what it reads:
// "relu after conv1_1".
std::string layer_of(const Program& program, const Node& node);

}  // namespace pal
