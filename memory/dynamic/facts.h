// What a dynamic manager knows of a step before it decides anything: who touches and writes which
// storage, how long nodes take, and until when a storage can be made again.
#pragma once
#include <cstdint>
#include <vector>

#include "core/memory.h"
#include "core/program.h"
#include "memory/price/predict.h"

namespace pal {

struct StepFacts {
  // The program has one queue and its last pass behind it. Both must outlive this.
  StepFacts(const Program& program, const Storages& storages, const DeviceProfile& device);

  const Program& program;
  const Storages& storages;

  // Storages that come and go: transient, on the device, no output of the program.
  ByStorage<int64_t> bytes;  // in whole pieces of 64; 0: it does not come and go
  ByStorage<std::vector<NodeId>> uses, writers;
  ByStorage<NodeId> last_use;
  // With its first k writers done, a storage can be made again up to and including node
  // remakable[s][k - 1]. kNone: never.
  ByStorage<std::vector<NodeId>> remakable;

  ByNode<double> ms;
  ByNode<char> is_free;  // a view, or a gathering of what lies in place: nothing runs
  ByNode<std::vector<StorageId>> touches, reads, writes;  // of storages that come and go
  ByStorage<std::vector<StorageId>> parents, children;    // what it is made of, what is made of it
  double step_ms = 0;

  double copy_ms(StorageId s) const;  // over the link, one way
  double move_ms(StorageId s) const;  // on the device

  int64_t fixed_bytes = 0;    // of outputs, which lie before everything that comes and goes
  int64_t largest_bytes = 0;  // what the largest node touches
  NodeId largest = kNone;

  bool comes_and_goes(StorageId s) const { return bytes[s] > 0; }

 private:
  void find_remakable();

  const DeviceProfile device_;
};

}  // namespace pal
