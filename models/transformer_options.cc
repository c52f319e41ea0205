// Which sizes of the Transformer fit each other.
#include "models/transformer_options.h"

#include "ops/attention/attention_kernel.h"

namespace pal {

std::string fault(const TransformerOptions& o) {
  const bool divides = o.hidden % o.heads == 0;
  if (divides && o.hidden / o.heads <= kWidestHead) return "";
  return "model.heads: " + std::to_string(o.heads) + " do not divide model.hidden " +
         std::to_string(o.hidden) + " into at most " + std::to_string(kWidestHead) +
         " columns each; " + (divides ? "use more heads" : "change one of them");
}

Rules<TransformerOptions> TransformerOptions::rules() {
  return {{"model.heads, model.hidden", "the heads divide hidden, into 256 columns each at most",
           fault}};
}

}  // namespace pal
