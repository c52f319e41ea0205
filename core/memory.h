// Where the bytes of a running step live. The runner asks; StaticPlan and SharedPlan (in
// memory/run) answer.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "core/program.h"

namespace pal {

// Bytes that live and die together: one value with all its windows, and whatever shares its bytes.
struct Storage {
  int64_t bytes = 0;
  Space space = Space::device;
  bool persistent = false;      // state: alive from step to step
  bool input = false;           // filled before the step
  bool output = false;          // read after the step
  NodeId workspace_of = kNone;  // the node whose scratch memory this is
  bool counted = true;          // off: footprints and peaks are without it

  bool is_transient() const { return !persistent && !input; }  // born and dead within the step
};

// The storage of every value: made by memory/storages/storages.cc from a program, after the last
// pass.
struct Storages {
  ByStorage<Storage> list;
  ByValue<StorageId> of;
  ByValue<int64_t> offset;       // bytes into the storage
  ByNode<StorageId> workspace;   // kNone where it needs none
  std::vector<ValueId> values;   // those of one storage after those of another
  ByStorage<size_t> values_end;  // into `values`

  const Storage& operator[](StorageId s) const { return list[s]; }
  // In order of production; none for a workspace.
  std::span<const ValueId> values_of(StorageId s) const {
    const size_t begin = s == 0 ? 0 : values_end[s - 1];
    return {values.data() + begin, values_end[s] - begin};
  }
};

// acquire(storage) before each node that touches it, once per storage and node; the address holds
// until the matching release. Called from the queue's own thread.
class Memory {
 public:
  virtual ~Memory() = default;
  virtual void begin_step() {}
  virtual void end_step() {}  // also where the step failed
  // Told before a node runs, and before its storages are acquired; it may wait.
  virtual void before_node(NodeId, QueueId) {}
  virtual std::byte* acquire(StorageId storage, QueueId queue) = 0;
  virtual void release(StorageId, QueueId) {}
  // Told when a node has run, before its storages are released.
  virtual void after_node(NodeId, QueueId) {}
  // The address of a storage that the caller fills before the step (inputs, state) or reads after
  // it (outputs, state).
  virtual std::byte* outside_step(StorageId storage) = 0;
  // Bytes this memory holds, all told.
  virtual int64_t capacity() const = 0;

  // For steps that an accelerator records: what was recorded holds for one version, within a step.
  virtual int64_t version() const { return 0; }
  // Whether before_node() of the node, or after_node() of the node before it, ever does anything.
  // What is recorded ends there, and they are called between two recordings.
  virtual bool is_edge(NodeId) const { return false; }
  // Whether an accelerator is to begin the node before others' that wait too (Accelerator::prefer);
  // within a step.
  virtual bool goes_first(NodeId) const { return false; }
};

}  // namespace pal
