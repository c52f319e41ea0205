// A tracer: stops at the calls that a seccomp filter names, and answers some of them itself.
#include "tests/support/syscall_faults.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <optional>
#include <system_error>

namespace pal::test {

namespace fs = std::filesystem;

#if defined(__x86_64__)
namespace {

struct Call {
  const char* name;
  int number;
  int descriptor;  // the argument that is one; -1: none
  int path;        // the argument that is the name of a file, or its new one; -1: none
};

constexpr Call kCalls[] = {
    {"write", SYS_write, 0, -1},         {"pwrite", SYS_pwrite64, 0, -1},
    {"writev", SYS_writev, 0, -1},       {"fsync", SYS_fsync, 0, -1},
    {"fdatasync", SYS_fdatasync, 0, -1}, {"ftruncate", SYS_ftruncate, 0, -1},
    {"mmap", SYS_mmap, 4, -1},           {"open", SYS_openat, -1, 1},
    {"rename", SYS_rename, -1, 1},       {"rename", SYS_renameat2, -1, 3},
    {"link", SYS_link, -1, 1},           {"link", SYS_linkat, -1, 3},
    {"unlink", SYS_unlink, -1, 0},       {"unlink", SYS_unlinkat, -1, 1},
    {"mkdir", SYS_mkdir, -1, 0},         {"mkdir", SYS_mkdirat, -1, 1},
};
constexpr size_t kCallCount = std::size(kCalls);

[[noreturn]] void fail(const char* doing) {
  throw std::system_error(errno, std::generic_category(), doing);
}

// In the child: nothing may be allocated here.
void trace_me() {
  std::array<sock_filter, kCallCount + 3> filter{};
  filter[0] = BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
  for (size_t i = 0; i < kCallCount; ++i) {
    const auto to_trace = static_cast<unsigned char>(kCallCount - i);
    filter[i + 1] =
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(kCalls[i].number), to_trace, 0);
  }
  filter[kCallCount + 1] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  filter[kCallCount + 2] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE);
  const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(98);
  raise(SIGSTOP);
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) _exit(98);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) _exit(98);
}

class Tracee {
 public:
  explicit Tracee(pid_t thread) : thread_(thread) {
    if (ptrace(PTRACE_GETREGS, thread, nullptr, &registers_) != 0) fail("reading registers");
  }

  unsigned long long argument(int i) const {
    const unsigned long long all[] = {registers_.rdi, registers_.rsi, registers_.rdx,
                                      registers_.r10, registers_.r8,  registers_.r9};
    return all[i];
  }
  const Call* call() const {
    const auto at = std::find_if(std::begin(kCalls), std::end(kCalls), [&](const Call& each) {
      return each.number == static_cast<int>(registers_.orig_rax);
    });
    return at == std::end(kCalls) ? nullptr : at;
  }
  // The file that the call would change, below `below`; none where it changes nothing there.
  std::optional<fs::path> file(const Call& call, const fs::path& below) const {
    if (call.number == SYS_openat && (argument(2) & (O_WRONLY | O_RDWR | O_CREAT)) == 0) return {};
    std::error_code fault;
    fs::path file;
    if (call.path >= 0) {
      file = text(argument(call.path));
      if (file.is_relative()) file = fs::read_symlink(own("cwd"), fault) / file;
    } else {
      const auto descriptor = static_cast<int>(argument(call.descriptor));
      if (descriptor < 0) return {};
      file = fs::read_symlink(own("fd/" + std::to_string(descriptor)), fault);
    }
    const fs::path relative = file.lexically_normal().lexically_relative(below);
    if (fault || relative.empty() || *relative.begin() == "..") return {};
    return relative;
  }
  void answer(int error) {
    registers_.orig_rax = static_cast<unsigned long long>(-1);
    registers_.rax = static_cast<unsigned long long>(-error);
    set();
  }
  void write_half() {
    if (registers_.rdx > 1) registers_.rdx /= 2;
    set();
  }

 private:
  void set() {
    if (ptrace(PTRACE_SETREGS, thread_, nullptr, &registers_) != 0) fail("writing registers");
  }
  std::string own(const std::string& what) const {
    return "/proc/" + std::to_string(thread_) + "/" + what;
  }
  std::string text(unsigned long long address) const {
    std::string out;
    const int memory = open(own("mem").c_str(), O_RDONLY | O_CLOEXEC);
    char byte = 0;
    while (memory >= 0 && pread(memory, &byte, 1, static_cast<off_t>(address)) == 1 && byte != 0) {
      out += byte;
      ++address;
    }
    if (memory >= 0) close(memory);
    return out;
  }

  pid_t thread_;
  user_regs_struct registers_{};
};

bool writes(const Call& call) { return call.number == SYS_write || call.number == SYS_pwrite64; }

// What can meet a full disk or a read-only one.
bool makes_bytes(const Call& call) {
  return call.number != SYS_mmap && call.number != SYS_unlink && call.number != SYS_unlinkat;
}

void meet(Tracee& tracee, const Call& call, const FaultAt& at, int64_t number, pid_t process) {
  const bool now = number == at.call, from_now = number >= at.call;
  switch (at.fault) {
    case Fault::none: break;
    case Fault::kill:
      if (now) kill(process, SIGKILL);
      break;
    case Fault::full:
      if (from_now && makes_bytes(call)) tracee.answer(ENOSPC);
      break;
    case Fault::read_only:
      if (from_now && call.number != SYS_mmap) tracee.answer(EROFS);
      break;
    case Fault::broken:
      if (now) tracee.answer(EIO);
      break;
    case Fault::interrupt:
      if (now && (call.descriptor == 0 || call.number == SYS_openat)) tracee.answer(EINTR);
      break;
    case Fault::part:
      if (now && writes(call)) tracee.write_half();
      break;
  }
}

pid_t start(const std::vector<std::string>& arguments, const fs::path& folder, const fs::path& out,
            const fs::path& err) {
  std::vector<char*> argv;
  for (const std::string& each : arguments) argv.push_back(const_cast<char*>(each.c_str()));
  argv.push_back(nullptr);
  const pid_t child = fork();
  if (child < 0) fail("forking");
  if (child == 0) {
    dup2(open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 1);
    dup2(open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 2);
    if (chdir(folder.c_str()) != 0) _exit(99);
    setenv("OMP_WAIT_POLICY", "passive", 0);
    trace_me();
    execv(argv[0], argv.data());
    _exit(99);
  }
  return child;
}

}  // namespace

TracedRun run_with_fault(const std::vector<std::string>& arguments, const fs::path& folder,
                         const fs::path& out, const fs::path& err, const FaultAt& at) {
  const pid_t child = start(arguments, folder, out, err);
  int status = 0;
  if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) {
    errno = EPERM;
    fail("tracing");
  }
  constexpr auto kOptions = PTRACE_O_TRACESECCOMP | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK |
                            PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
  if (ptrace(PTRACE_SETOPTIONS, child, nullptr, kOptions) != 0) fail("tracing");
  TracedRun run;
  ptrace(PTRACE_CONT, child, nullptr, nullptr);
  for (pid_t stopped = 0; (stopped = waitpid(-1, &status, __WALL)) > 0;) {
    if (WIFEXITED(status) || WIFSIGNALED(status)) {
      if (stopped != child) continue;
      run.status = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
      if (run.status == 98) {
        errno = EPERM;
        fail("tracing");
      }
      return run;
    }
    const int event = status >> 16, signal = WSTOPSIG(status);
    if (event == PTRACE_EVENT_SECCOMP) {
      Tracee tracee(stopped);
      const Call* call = tracee.call();
      if (call) {
        if (const auto file = tracee.file(*call, at.below)) {
          run.calls.push_back(std::string(call->name) + " " + file->string());
          meet(tracee, *call, at, int64_t(run.calls.size()) - 1, child);
        }
      }
    }
    // A new thread begins with a SIGSTOP, which is not for it.
    const bool for_it = event == 0 && signal != SIGSTOP && signal != SIGTRAP;
    ptrace(PTRACE_CONT, stopped, nullptr, static_cast<long>(for_it ? signal : 0));
  }
  fail("waiting");
}

bool can_trace_faults() {
  try {
    const TracedRun run =
        run_with_fault({"/bin/true"}, "/", "/dev/null", "/dev/null", {.below = "/nowhere"});
    return run.status == 0;
  } catch (const std::system_error&) {
    return false;
  }
}
#else
TracedRun run_with_fault(const std::vector<std::string>&, const fs::path&, const fs::path&,
                         const fs::path&, const FaultAt&) {
  throw std::system_error(ENOTSUP, std::generic_category(), "tracing");
}
bool can_trace_faults() { return false; }
#endif

}  // namespace pal::test
