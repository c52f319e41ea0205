// What the nodes of a program do, one after the other: work_of() (predict.h) without its lists
// being made anew for each.
#pragma once
#include "core/op.h"
#include "memory/price/predict.h"

namespace pal {

class Works {
 public:
  // Without `storages`, views and stacks count as in place.
  Works(const Program& program, const Storages* storages)
      : program_(program), storages_(storages) {}
  Work of(NodeId node);

 private:
  int64_t copied_bytes(NodeId node) const;

  const Program& program_;
  const Storages* storages_;
  SpecList in_, out_;
};

}  // namespace pal
