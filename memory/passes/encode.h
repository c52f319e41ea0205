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
#include <string>

#include "memory/passes/forms.h"
#include "memory/storages/storages.h"

namespace pal {

// Gives up forms of `forms`, for those of `instead`, whose decoded copy is alive at the peak and
// raises it. `storages`: what is counted.
Forms lowered(const Program& program, Forms forms, const Forms& instead,
              const StorageOptions& storages = {});

// The step with these forms. Encode nodes have Phase::encode, decode nodes Phase::decode.
Program encode(const Program& program, const Forms& forms);
// What the encodings allow, lowered; `allowed` is what it was before.
Forms lowered_forms(const Program& program, const Encodings& encodings,
                    const StorageOptions& storages = {}, Forms* allowed = nullptr);
// "3 values kept as bits, 2 rounded, 1 sparse: 1.20 MB instead of 4.80 MB".
std::string describe(const Program& program, const Forms& forms);

// The rounded values of a step and their formats as 16 hexadecimal digits, "" where none is: two
// plans of one program with the same digits give the same results.
std::string rounding_of(const Program& program);

}  // namespace pal
