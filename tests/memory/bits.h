// Runs programs of real operators on made-up numbers, for comparing what comes out bit for bit.
#pragma once
#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/op.h"
#include "core/program.h"
#include "core/scalars.h"
#include "tests/support/eval.h"

namespace pal::test {

// Floats in [-1, 1) with a few zeros of either sign, or small whole numbers; the same for a name.
inline std::vector<float> made_up(const std::string& name, const TensorSpec& spec) {
  uint32_t state = 12345;
  for (char c : name) state = state * 31 + uint32_t(c);
  std::vector<float> out;
  for (int64_t i = 0; i < spec.numel(); ++i) {
    state = state * 1664525u + 1013904223u;
    const uint32_t r = state >> 8;
    if (spec.dtype == DType::i32)
      out.push_back(float(r % 5));
    else if (r % 17 == 0)
      out.push_back(r & 32 ? 0.0f : -0.0f);
    else
      out.push_back(float(int(r % 20001) - 10000) * 1e-4f);
  }
  return out;
}

// Outputs, and state at the end, after one step from inputs and state made up by name. All numbers
// are finite: what is not a number is easily the same bits.
using Bits = std::map<std::string, std::vector<std::byte>>;
inline Bits bits_of(const Program& program) {
  Evaluator eval(program);
  for (auto& in : program.inputs) {
    const TensorSpec& spec = program.value(in.value).spec;
    if (spec == scalars_spec()) {
      *eval.as<StepScalars>(in.value) = {
          .learning_rate = 0.1f, .step = 3, .seed_low = 7, .tokens = 9};
    } else {
      eval.set(in.value, made_up(in.name, spec));
    }
  }
  for (auto& slot : program.state) {
    eval.set(slot.start, made_up(slot.name, program.value(slot.start).spec));
  }
  eval.run();
  Bits out;
  auto keep = [&](const std::string& name, ValueId v) {
    out[name] = eval.bytes(v);
    const DType type = program.value(v).spec.dtype;
    if (type != DType::f32 && type != DType::bf16 && type != DType::f16) return;
    for (float x : eval.floats(v)) {
      if (!std::isfinite(x)) throw ProgramError(name + " is not finite");
    }
  };
  for (auto& o : program.outputs) keep(o.name, o.value);
  for (auto& slot : program.state) keep(slot.name, slot.end);
  return out;
}

// The first name whose bits differ; "" where all are the same.
inline std::string difference_of(const Program& program, const Bits& a, const Bits& b) {
  if (a.size() != b.size()) return "other outputs";
  for (auto& [name, bytes] : a) {
    auto other = b.find(name);
    if (other == b.end()) return name + " is missing";
    if (bytes == other->second) continue;
    for (auto& o : program.outputs) {
      if (o.name == name) {
        return name + " " + first_difference(program.value(o.value).spec, bytes, other->second);
      }
    }
    return name;
  }
  return "";
}

// The largest difference of an output beside its largest number; infinite where one is no number.
inline double largest_difference(const Program& program, const Bits& a, const Bits& b) {
  double most = 0;
  for (const NamedValue& output : program.outputs) {
    const TensorSpec& spec = program.value(output.value).spec;
    const std::vector<float> x = decode(spec, a.at(output.name)),
                             y = decode(spec, b.at(output.name));
    double largest = 1e-6, difference = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      if (!std::isfinite(x[i]) || !std::isfinite(y[i])) return INFINITY;
      largest = std::max(largest, double(std::abs(x[i])));
      difference = std::max(difference, double(std::abs(x[i] - y[i])));
    }
    most = std::max(most, difference / largest);
  }
  return most;
}

inline int count_of(const Program& program, const std::string& op) {
  int count = 0;
  for (const Node& node : program.nodes) count += op == node.op->name;
  return count;
}

// Op names in order; clones are marked *, encoders +.
inline std::string ops_in(const Program& program) {
  std::string out;
  for (const Node& node : program.nodes) {
    out += out.empty() ? "" : " ";
    out += node.phase == Phase::recompute ? "*" : node.phase == Phase::encode ? "+" : "";
    out += node.op->name;
  }
  return out;
}

}  // namespace pal::test
