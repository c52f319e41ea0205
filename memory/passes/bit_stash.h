// One bit an element in place of a feature map (Gist's Binarize, Echo's layer specifics).
//
// Where everybody who reads a value after the forward phase asks of it the same predicate (x > 0
// for ReLU, an interval for Hardtanh and ReLU6, the mask for dropout), an encode node writes the
// answers as bits right after the value is made, and those readers read the bits. Kernels that
// declare a predicate (OpDef::reads) take either, and give the same result for both. No operator is
// named.
#pragma once
#include "core/op.h"
#include "core/program.h"

namespace pal {

// What readers of v after the forward phase have in common: a predicate, or values where they ask
// for more, or for different things, or where there are none.
Reads later_reads(const Program& program, const Readers& readers, ValueId v);

// Bytes of a value as bits.
int64_t bit_bytes(const TensorSpec& spec);

// The step with bits stashed for every feature map that they can stand for: made by a forward node
// on the compute queue, of floats, in a storage that no node needs after the forward phase
// otherwise. `count` is how many, where it is not null.
Program stash_bits(const Program& program, int* count = nullptr);
// How many those would be.
int count_bits(const Program& program);

}  // namespace pal
