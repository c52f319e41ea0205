// The nodes of the largest feature maps run on some of the batch's examples at a time, so that only
// so many examples' maps are there at once: a convolutional network's first layers, whose maps are
// larger than all the rest of the step, in a quarter or a sixteenth of their bytes.
//
// Split is what takes rows (OpDef::rows) and touches more than the largest node that does not, and
// more than one part of the largest, and sums of what is made in parts. Such nodes that follow each
// other are a run: the first part goes through all of them, then the second, and so on. What a run
// reads of other nodes are slices, and what others read of it is put together again; both are
// windows, which move nothing. What later runs read stays in parts, so that a gradient's part can
// have its own part made again.
//
// A sum over the batch is added up part after part, so that its last bits change; what belongs to
// one example is computed as before, by a kernel of another shape. A step in parts is therefore
// another recording of the model (train.batch_parts), not a lossless pass.
#pragma once
#include <cstdint>

#include "core/program.h"

namespace pal {

// What was done, for reports and tests.
struct BatchParts {
  int64_t parts = 1;      // that the batch was cut into; 1: the step is as it was
  int64_t examples = 0;   // of the batch
  int nodes = 0;          // that were split
  int runs = 0;           // of them
  int64_t most = 0;       // bytes that the largest of them touched
  int64_t most_else = 0;  // bytes that the largest other node touches
};

// A step of one queue, as it was recorded, in at most so many parts: as many as divide the batch.
// Of another order of nodes where what is in a run's way can move. ProgramError where nodes wait.
Program in_batch_parts(const Program& program, int64_t parts, BatchParts* done = nullptr);

}  // namespace pal
