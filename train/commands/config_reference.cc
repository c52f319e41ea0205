// pal config-reference: the page docs/configuration.md.
#include "train/commands/command.h"
#include "train/commands/commands.h"

namespace pal {

namespace {

struct ConfigReferenceFlags {
  void declare(Flags&) {}
  Request read() { return request<run_print>(PrintText{config_reference()}); }
};

}  // namespace

Command config_reference_command() {
  return command<ConfigReferenceFlags>("config-reference", "print docs/configuration.md");
}

}  // namespace pal
