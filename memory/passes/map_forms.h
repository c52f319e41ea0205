// How each feature map of a compiled step is kept from the forward phase to its readers after it,
// and of those that stay dense, why.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/program.h"
#include "memory/passes/encode.h"

namespace pal {

// Why maps stay dense, by their numbers in the recorded step (Value::origin): the reason by which
// the choice of forms (memory/passes/forms.h) left each of them out. None where it allows a form.
using DenseReasons = std::map<ValueId, std::string>;
// Of the program that the pass is handed.
DenseReasons dense_reasons(const Program& program, const Encodings& encodings);

struct MapForm {
  ValueId value = kNone;
  std::string layer;  // layer_of() its producer
  TensorSpec spec;
  Form form;
  int64_t dense_bytes = 0;  // as the layer wrote it; of its bytes those that no map above counts
  int64_t bytes = 0;        // as it is kept; a dense one's are dense_bytes
  std::string reason;       // of a dense one; "" where it is encoded
};

// Of a program after all passes, in order of production: the feature maps that are read after the
// forward phase, and those that are encoded; without those of less than 65 bytes. A view has a
// row where it has a form of its own.
// A dense map without a reason is one that the pass might have encoded: "the peak would be no
// lower, or its copy would raise it".
std::vector<MapForm> map_forms(const Program& final, const DenseReasons& reasons);

// "dense", "bits", "fp16", "bits, csr fp8": the kind of a form, without its room.
std::string kind_of(const Form& form);
// The same with the room of sparse codes, by the map's elements: "bits, csr 0.58 fp8".
std::string describe(const Form& form, const TensorSpec& spec);

}  // namespace pal
