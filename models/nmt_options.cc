// Which sizes of the recurrent translator fit each other.
#include "models/nmt_options.h"

#include "core/names.h"

namespace pal {

std::string fault(const NmtOptions& o) {
  if (o.bidirectional && o.hidden % 2 != 0) {
    return "model.hidden: " + std::to_string(o.hidden) +
           " is odd, but model.bidirectional gives each way half of it; make it even";
  }
  const bool output_tied = o.tie == NmtOptions::Tie::target || o.tie == NmtOptions::Tie::all;
  if (output_tied && o.hidden != o.embedding) {
    return "model.tie_embeddings: " + name_of(o.tie) +
           " needs model.hidden equal to model.embedding; change one of them";
  }
  return "";
}

namespace {

std::string whole_encoder_fault(const NmtOptions& o) {
  if (!o.whole_layers) return "";
  if (!o.fused) return kWholeLayersHaveNoParts;
  return o.layer_norm ? "model.whole_layers: not with model.layer_norm, whose cells are no plain "
                        "LSTM's"
                      : "";
}

}  // namespace

Rules<NmtOptions> NmtOptions::rules() {
  return {
      {"model.bidirectional, model.hidden", "a bidirectional layer needs an even hidden", fault},
      {"model.tie_embeddings, model.hidden, model.embedding",
       "target and all tie the output layer: hidden equals embedding", fault},
      {"model.whole_layers, model.fused, model.layer_norm",
       "whole layers are of fused cells without layer norm", whole_encoder_fault}};
}

}  // namespace pal
