// Which values share bytes: one storage per value, then state, windows and in-place (Chen et al.
// 2016; Gist, section III-C) merge them.
//
// Rules, in the order in which they are applied:
//   state    an update's output lies where the operand lies that it writes; a slot's value at start
//            and at end are one persistent storage. Nobody else writes state.
//   windows  a view's output is a window of its operand. A gathering operator's operand becomes a
//            window of its output when it is a whole storage made by nodes, neither state, input
//            nor program output: its producers then write straight into the large one. A value that
//            is gathered twice lies in one of the places; the kernel copies it to the other.
//   in-place an output takes the bytes of an operand whose whole storage is of its size and dead
//            after the node: no later reader of any value in it, no state, input or program output,
//            and the node's queue has waited for all its readers.
//
// A view of state that is read after the state is written is not a window: its kernel copies.
// Inputs are never written, so that they can be read again by a replayed node.
#pragma once
#include <span>
#include <vector>

#include "core/memory.h"
#include "core/op.h"
#include "core/program.h"

namespace pal {

struct StorageOptions {
  bool inplace = true;
  bool windows = true;
  // A gradient may be written over a feature map that dies there. Frameworks kept feature maps
  // apart.
  bool over_feature_maps = true;
  // Storages without a map (is_map) are not counted: footprints, peaks, and what passes make of
  // them, are those of maps alone. A step is counted so, and not run.
  bool maps_alone = false;
};

// What Gist counts (section V-A): a feature map or a gradient map, or an encoded or decoded copy,
// that a node makes on the device. No state, inputs, weight gradients, statistics' roles, or what
// updates make.
bool is_map(const Program& program, ValueId value);

// What sharing saved, for the report.
struct StorageEffect {
  int inplace = 0, windows = 0;  // values that took another's bytes
  int64_t inplace_bytes = 0;     // the size of those in place
};

// `workspace_bytes` by node (0: none), or empty. ProgramError when an update cannot share bytes
// with the state it writes: sizes differ, or the old value is read after it.
Storages assign_storages(const Program& program, const ByNode<int64_t>& workspace_bytes = {},
                         const StorageOptions& options = {}, StorageEffect* effect = nullptr);

// The nodes that touch a storage (read, write, or use it as workspace), in order, by storage.
ByStorage<std::vector<NodeId>> touches_of(const Program& program, const Storages& storages);

// Whether the window's bytes are where they belong.
bool lies_in_place(const Storages& storages, const NodeWindow& window);

// By output of a node: the bytes of it that lie where they belong without the node's doing, because
// it is a view of an operand, or its operands were written straight into it.
std::vector<int64_t> bytes_in_place(const Program& program, const Storages& storages, NodeId node);

// The nodes that change bytes of a storage, in order, by storage: without views, and without
// gathering nodes all of whose operands are in place.
ByStorage<std::vector<NodeId>> writers_of(const Program& program, const Storages& storages);

// "decoder/rnn/0 t=3 sigmoid#1 f32[8,16] (value 42)": how errors and reports name a value.
std::string name_of(const Program& program, ValueId value);
// The storage by its first value, or by the node whose workspace it is.
std::string name_of(const Program& program, const Storages& storages, StorageId storage);

}  // namespace pal
