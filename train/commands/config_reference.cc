// pal config-reference: the page docs/configuration.md.
#include "train/commands/command.h"
#include "train/commands/commands.h"

namespace pal {

Command config_reference_command() {
  return {"config-reference", "print docs/configuration.md",
          [](Flags&) -> std::function<Request()> {
            return [] { return request<run_print>(PrintText{config_reference()}); };
          }};
}

}  // namespace pal
