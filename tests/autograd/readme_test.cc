// The model of README.md is the one recorded here, and the program printed there is its own.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "autograd/differentiate.h"
#include "autograd/optimizer.h"
#include "core/builder.h"
#include "core/print.h"
#include "core/scalars.h"
#include "ops/elementwise/activations.h"
#include "ops/products/matmul.h"
#include "ops/sums/reduce.h"
#include "ops/tensors/transfers.h"

namespace pal {
namespace {

std::string readme() {
  std::ifstream file(PAL_SOURCE_DIR "/README.md");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string indented(const std::string& text) {
  std::istringstream lines(text);
  std::string out;
  for (std::string line; std::getline(lines, line);) out += "    " + line + "\n";
  return out;
}

TEST(Readme, PrintsTheProgramOfItsModel) {
  Builder b;
  Val scalars = step_scalars(b.input("scalars", scalars_spec(), Space::host));
  Val x = b.input("x", {{32, 784}});
  Val w1 = b.weight("w1", {{784, 128}}, {}), w2 = b.weight("w2", {{128, 10}}, {});
  Val loss;
  {
    Builder::Within layer(b, "mlp");
    Val hidden = relu(matmul(x, w1));
    loss = sum_all(matmul(hidden, w2));
  }
  b.output("loss", loss);
  std::vector<Val> weights{w1, w2}, gradients = differentiate(b, loss, weights);
  apply_optimizer(b, {.kind = OptimizerSpec::Kind::sgd}, weights, gradients, scalars, {});
  const std::string printed = print(b.program());
  EXPECT_NE(readme().find(indented(printed)), std::string::npos) << printed;
}

}  // namespace
}  // namespace pal
