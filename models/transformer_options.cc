// Which sizes of the Transformer fit each other.
#include "models/transformer_options.h"

#include "ops/attention/attention_kernel.h"

namespace pal {

std::string fault(const TransformerOptions& o) {
  if (o.hidden % o.heads == 0 && o.hidden / o.heads <= kWidestHead) return "";
  return "model.heads: " + std::to_string(o.heads) + " do not divide model.hidden " +
         std::to_string(o.hidden) + " into at most " + std::to_string(kWidestHead) +
         " columns each; change one of them";
}

}  // namespace pal
