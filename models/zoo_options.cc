// Which networks of the zoo leave a choice.
#include "models/zoo_options.h"

namespace pal {

Rules<ZooOptions> ZooOptions::rules() {
  return {{"model.norm, model.network", "false leaves batch norm out of googlenet alone",
           [](const ZooOptions& o) -> std::string {
             if (o.norm || o.network == "googlenet") return "";
             return "model.norm: false is for googlenet, which was published without batch norm, "
                    "not for " +
                    o.network + "; leave it out";
           }}};
}

}  // namespace pal
