// A value in a program that is being built, as model code, operators and gradients hold it.
#pragma once
#include "core/program.h"

namespace pal {

class Builder;

// Null (no id) means absent.
struct Val {
  Builder* builder = nullptr;
  ValueId id = kNone;

  explicit operator bool() const { return id != kNone; }
  const TensorSpec& spec() const;
  const Shape& shape() const { return spec().shape; }
};

}  // namespace pal
