// The nodes of the largest feature maps run on some of the batch's examples at a time, so that only
// so many examples' maps are there at once: a convolutional network's first layers, or a
// Transformer's hidden layers, whose maps are larger than all others, in a quarter or a sixteenth
// of their bytes.
//
// Rows are those of the leading axis: a batch's examples, or a Transformer's places. At the node
// that touches most bytes of maps is a map whose maker and readers all take it by rows
// (OpDef::rows), or nothing is split. Such maps of as many rows, larger than one part of the
// largest at that node, are split, with the nodes that make or read them. Such nodes that follow
// each other are a run: the first part goes through all of them, then the second, and so on. What a
// run reads of other nodes are slices, and what others read of it is put together again; both are
// windows, which move nothing. What later runs read stays in parts, so that a gradient's part can
// have its own part made again.
//
// A sum over the batch is added up part after part, so that its last bits change; what belongs to
// one example is computed as before, by a kernel of another shape. A step in parts is therefore
// another recording of the model (train.batch_parts), not a lossless pass.
#pragma once
#include <cstdint>
#include <string>

#include "memory/passes/split_nodes.h"

namespace pal {

// A step as it was recorded, in at most so many parts: as many as divide the rows. Nodes that are
// in a run's way move before or behind it. ProgramError where a node waits that is no exchange, and
// something is split.
Program in_batch_parts(const Program& program, int64_t parts, BatchParts* done = nullptr);

// "16 parts of 11 rows: 67 nodes in 2 runs; what can be split touches up to 4.52 GB of maps, other
// nodes up to 35.5 MB", or why there is none.
std::string describe(const BatchParts& done);

}  // namespace pal
