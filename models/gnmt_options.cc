// What does not go together in GNMT.
#include "models/gnmt_options.h"

namespace pal {

Rules<GnmtOptions> GnmtOptions::rules() {
  return {{"model.whole_layers, model.fused", "whole layers are of fused cells",
           [](const GnmtOptions& o) -> std::string {
             return o.whole_layers && !o.fused ? kWholeLayersHaveNoParts : "";
           }}};
}

}  // namespace pal
