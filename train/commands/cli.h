// The command line as data: parsing has no effect but reading the configuration, so that it can be
// tested; main.cc acts on the result. CLI11 stays behind this header.
#pragma once
#include <string>
#include <vector>

#include "train/commands/command.h"

namespace pal {

// `program` is argv[0]: under the name `train`, `args` are those of `pal train`. UsageError, in one
// line, for anything that cannot be understood.
Request parse_command_line(const std::string& program, const std::vector<std::string>& args);

}  // namespace pal
