// The program `pal` (and `train`): runs the command that the command line names, and turns every
// failure into one line on standard error and an exit code.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "core/error.h"
#include "core/ranks/launch.h"
#include "train/commands/cli.h"
#include "train/commands/commands.h"
#include "train/run_files/log.h"

namespace {

// Threads of a team without work spin for milliseconds, and keep another team from the processor,
// unless variables say otherwise. Those that sleep at once wake too late for the next kernel: steps
// in turns then take twice as long. These spin for a tenth of a millisecond; where there are more
// than processors, for a hundredth, which GCC's library does if the policy is "active". It reads
// that as it is loaded, so the program starts anew. Where it cannot, it is only slower.
void let_idle_threads_sleep_soon(char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") || std::getenv("GOMP_SPINCOUNT")) return;
  setenv("OMP_WAIT_POLICY", "active", 1);
  setenv("GOMP_SPINCOUNT", "10000", 1);
  std::error_code ignored;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", ignored);
  execv(program.c_str(), argv);
}

}  // namespace

int main(int argc, char** argv) {
  if (const auto launch = pal::launch_at_hand()) pal::log_as_rank(launch->rank);
  try {
    std::string program = argc > 0 ? argv[0] : "pal";
    const pal::Request request = pal::parse_command_line(program, {argv + (argc > 0), argv + argc});
    if (request.many_teams) let_idle_threads_sleep_soon(argv);
    const int code = request.run();
    pal::print("");  // what is still to be written, or the reason why it cannot be
    return code;
  } catch (...) {
    const pal::Failure failure = pal::failure_at_hand();
    pal::log_end(failure.what);
    return failure.exit_code;
  }
}
