// The program `pal` (and `train`): runs the command that the command line names, and turns every
// failure into one line on standard error and an exit code.
#include <new>

#include "core/error.h"
#include "train/commands/cli.h"
#include "train/run_files/log.h"

int main(int argc, char** argv) {
  try {
    std::string program = argc > 0 ? argv[0] : "pal";
    return pal::parse_command_line(program, {argv + (argc > 0), argv + argc}).run();
  } catch (const pal::Error& e) {
    pal::log_error(e.what());
    return e.exit_code;
  } catch (const std::bad_alloc&) {
    pal::log_error("out of memory");
  } catch (const std::exception& e) {
    pal::log_error(e.what());
  }
  return pal::kExitFailed;
}
