// What elementwise operators make of given numbers.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "core/builder.h"
#include "tests/support/eval.h"

namespace pal::test {

// f's outputs "y0", "y1", .. for inputs of one spec each.
inline std::vector<std::vector<float>> evaluate(
    const std::vector<std::pair<TensorSpec, std::vector<float>>>& inputs,
    std::vector<Val> (*f)(const std::vector<Val>&)) {
  Builder builder;
  std::vector<Val> in;
  for (size_t i = 0; i < inputs.size(); ++i) {
    in.push_back(builder.input("x" + std::to_string(i), inputs[i].first));
  }
  const std::vector<Val> out = f(in);
  for (size_t i = 0; i < out.size(); ++i) builder.output("y" + std::to_string(i), out[i]);
  Evaluator eval(builder.take());
  for (size_t i = 0; i < inputs.size(); ++i) eval.set("x" + std::to_string(i), inputs[i].second);
  eval.run();
  std::vector<std::vector<float>> results;
  for (size_t i = 0; i < out.size(); ++i) results.push_back(eval.floats("y" + std::to_string(i)));
  return results;
}

}  // namespace pal::test
