// Which sizes of BERT fit each other.
#include "models/bert_options.h"

namespace pal {

std::string fault(const BertOptions& o) {
  if (o.hidden % o.heads == 0) return "";
  return "model.heads: " + std::to_string(o.heads) + " do not divide model.hidden, " +
         std::to_string(o.hidden);
}

Rules<BertOptions> BertOptions::rules() {
  return {{"model.heads, model.hidden", "of bert: the heads divide hidden", fault}};
}

}  // namespace pal
