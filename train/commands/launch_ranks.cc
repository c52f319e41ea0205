// fork, mpirun, wait.
#include "train/commands/launch_ranks.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>

#include "core/error.h"

namespace pal {
namespace {

constexpr int kStops[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1};
volatile pid_t launcher = 0;  // read by the handler

// mpirun passes SIGUSR1 on to all ranks, which take it as they take SIGTERM.
void pass_on(int) {
  if (launcher > 0) kill(launcher, SIGUSR1);
}

}  // namespace

int launch_ranks(int64_t ranks, const std::vector<std::string>& arguments) {
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe");
  // Ranks may be more than cores, and each has threads: MPI is not to bind them.
  std::vector<std::string> words{
      "mpirun", "-n", std::to_string(ranks), "--oversubscribe", "--bind-to", "none", "--quiet"};
  if (geteuid() == 0) words.push_back("--allow-run-as-root");
  words.push_back(program.string());
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  // Until the launcher is there a signal has nobody to go to.
  sigset_t stops, before;
  sigemptyset(&stops);
  for (const int signal : kStops) sigaddset(&stops, signal);
  sigprocmask(SIG_BLOCK, &stops, &before);
  int failed[2];  // exec's error, if it has one
  if (pipe2(failed, O_CLOEXEC) != 0) throw Error(kExitFailed, "--ranks: no pipe");
  const pid_t child = fork();
  if (child < 0) throw Error(kExitFailed, "--ranks: no process: " + std::string(strerror(errno)));
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);  // nobody would be left to stop it
    setpgid(0, 0);  // what a terminal sends to all comes by way of the parent alone
    sigprocmask(SIG_SETMASK, &before, nullptr);
    execvp(argv[0], argv.data());
    const int error = errno;
    [[maybe_unused]] const ssize_t written = write(failed[1], &error, sizeof error);
    _exit(127);
  }
  launcher = child;
  for (const int signal : kStops) std::signal(signal, pass_on);
  sigprocmask(SIG_SETMASK, &before, nullptr);
  close(failed[1]);
  int error = 0;
  const bool none = read(failed[0], &error, sizeof error) == sizeof error;
  close(failed[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  launcher = 0;
  if (none) {
    throw UsageError("--ranks: mpirun cannot be started (" + std::string(strerror(error)) +
                     "); install openmpi-bin and libopenmpi-dev, and build again");
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : kExitFailed;
}

}  // namespace pal
