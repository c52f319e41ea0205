// fork, mpirun, wait. An mpirun that does not end after its ranks is ended: Open MPI's can hang in
// a lock of its own once a rank has been killed.
#include "train/commands/launch_ranks.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>

#include "core/error.h"

namespace pal {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int kStops[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1};
volatile pid_t launcher = 0;  // read by the handler

// mpirun passes SIGUSR1 on to all ranks, which take it as they take SIGTERM.
void pass_on(int) {
  if (launcher > 0) kill(launcher, SIGUSR1);
}

// Between two looks at what the launcher has started, and for a launcher that has no ranks any
// more.
constexpr std::chrono::milliseconds kLook{50};
constexpr std::chrono::seconds kPatience{5};

// A process that has ended and that nobody has asked for its exit code runs no more.
bool runs(pid_t process) {
  std::ifstream in("/proc/" + std::to_string(process) + "/stat");
  std::string line;
  std::getline(in, line);
  const size_t name_ends = line.rfind(") ");  // the name may hold anything
  return name_ends != std::string::npos && line[name_ends + 2] != 'Z';
}

// Whether any process runs that one of the threads of `parent` has started.
bool has_running_children(pid_t parent) {
  std::error_code gone;
  fs::directory_iterator thread("/proc/" + std::to_string(parent) + "/task", gone);
  for (; !gone && thread != fs::directory_iterator(); thread.increment(gone)) {
    std::ifstream in(thread->path() / "children");
    for (pid_t child; in >> child;) {
      if (runs(child)) return true;
    }
  }
  return false;
}

// Waits for the launcher, and ends it where it outlives its ranks. Returns how it ended (waitpid),
// none if it had to be ended.
std::optional<int> await(pid_t child) {
  const int ended = int(syscall(SYS_pidfd_open, child, 0));  // readable at its end
  bool had_ranks = false;
  Clock::time_point ranks_ran{};
  for (;;) {
    int status = 0;
    if (waitpid(child, &status, WNOHANG) == child) {
      if (ended >= 0) close(ended);
      return status;
    }
    if (has_running_children(child)) {
      had_ranks = true;
      ranks_ran = Clock::now();
    } else if (had_ranks && Clock::now() - ranks_ran > kPatience) {
      break;
    }
    pollfd end{ended, POLLIN, 0};  // without one of these it is a sleep
    poll(&end, 1, int(kLook.count()));
  }
  kill(child, SIGKILL);
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  if (ended >= 0) close(ended);
  return {};
}

}  // namespace

int launch_ranks(int64_t ranks, const std::vector<std::string>& arguments) {
  const fs::path program = fs::read_symlink("/proc/self/exe");
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
  const std::optional<int> status = await(child);
  launcher = 0;
  if (none) {
    throw UsageError("--ranks: mpirun cannot be started (" + std::string(strerror(error)) +
                     "); install openmpi-bin and libopenmpi-dev, and build again");
  }
  if (!status) {
    throw Error(
        kExitFailed,
        "--ranks: mpirun has not ended, though its ranks have, and was killed; a run that was "
        "not at its last step goes on with --resume");
  }
  return WIFEXITED(*status) ? WEXITSTATUS(*status) : kExitFailed;
}

}  // namespace pal
