// The execution model: a grid's blocks one after the other, a block's threads as fibers that yield
// at barriers and shuffles. A block that cannot go on (threads that wait for others which ended, or
// wait elsewhere) is an error, as are shared memory touched outside what was asked for and vectors
// on wrong boundaries. Shared memory holds NaNs at first.
#include "tests/emulation/emulation.h"

#include <cuda_runtime.h>
#include <ucontext.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <numeric>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "tests/emulation/counting.h"
#include "tests/emulation/memory.h"
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

// What threads of a kernel may touch of the program's variables has a section of its own.
#define PAL_OF_THE_GPU __attribute__((section("emulated_gpu")))
PAL_OF_THE_GPU uint3 threadIdx{}, blockIdx{};
PAL_OF_THE_GPU dim3 blockDim, gridDim;

namespace pal {
constexpr size_t kMostShared = 48 << 10, kGuard = 256;
alignas(16) PAL_OF_THE_GPU unsigned char block_shared_memory[kMostShared + kGuard];

// Launches of core/cuda/launch.h report here.
void on_launch(const char* file, int line);
}  // namespace pal

namespace pal::emulation {
namespace {

// Stacks lie behind each other, with an odd number of cache lines between: their tops, which are
// all that most threads touch, would else share one set of each cache.
constexpr size_t kStack = 64 << 10, kLine = 64, kApart = kStack + 13 * kLine;
constexpr int kMostThreads = 1024, kWarp = 32;
constexpr unsigned char kGuardByte = 0xA7;

constexpr int kNobody = -1, kWholeWarp = -2;  // instead of a thread's number

enum class State : uint8_t { ready, at_barrier, at_warp_barrier, ended };

// A stack as the address sanitizer knows it, which has to be told when another one is taken up.
struct KnownStack {
  const void* bottom = nullptr;
  size_t size = 0;
  void* saved = nullptr;  // of who leaves it
  void enter([[maybe_unused]] KnownStack& from) const {
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(&from.saved, bottom, size);
#endif
  }
  void entered([[maybe_unused]] KnownStack& from) const {
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(saved, &from.bottom, &from.size);
#endif
  }
};

// A place to go on at. The compiler's jumps move three registers, where the library's look for
// handlers and signals each time.
using Place = void* [5];
void jump_to(Place to) { __builtin_longjmp(to, 1); }
// Called so that the compiler takes no register to be as it was.
void (*const volatile jump)(Place) = jump_to;

// A stack of its own, entered by a context once; from then on left and taken up by jumps, which
// unlike swapcontext ask nothing of the kernel. It runs body after body.
struct Fiber {
  ucontext_t context;
  Place where;
  char* stack = nullptr;
  KnownStack known = {};
  State state = State::ended;
  unsigned mask = 0;     // of the warp barrier
  int source = kNobody;  // whose value it waits for there
};

// What the emulation itself does on a fiber is not the kernel's, whoever compiled what it calls.
[[noreturn]] void broken(std::string_view what) {
  running = nullptr;
  throw std::runtime_error("emulation: " + std::string(what) + " in block " +
                           std::to_string(blockIdx.x) + "," + std::to_string(blockIdx.y) +
                           ", thread " + std::to_string(threadIdx.x));
}

// A copy into shared memory that is done when its thread waits; of zeros where `from` is null.
struct LateCopy {
  void* to;
  const void* from;
  size_t bytes;
};

// One block at a time.
class Machine {
 public:
  // After an error the fibers are stuck in the middle of their bodies: others take their place.
  void forget() {
    fibers_.clear(), stacks_.reset();
    for (auto& copies : late_) copies.clear();
  }

  void run_block(int threads, size_t shared, const std::function<void()>& body,
                 Own::Span parameters, Order order, std::mt19937& rng) {
    own_ = {.parameters = parameters,
            .body = {&body, sizeof body},
            .brought = {brought_, sizeof brought_}};
    body_ = &body, threads_ = threads, error_ = nullptr;
    if (fibers_.empty()) {
      fibers_ = std::vector<Fiber>(kMostThreads);
      stacks_ = std::make_unique_for_overwrite<char[]>(kMostThreads * kApart);
    }
    std::memset(block_shared_memory, 0xFF, shared);
    std::memset(block_shared_memory + shared, kGuardByte, kGuard);
    for (int t = 0; t < threads; ++t) start(t);
    std::vector<int> turn(static_cast<size_t>(threads));
    std::iota(turn.begin(), turn.end(), 0);
    if (order == Order::backward) std::reverse(turn.begin(), turn.end());
    if (order == Order::shuffled) std::shuffle(turn.begin(), turn.end(), rng);
    while (!all(State::ended)) {
      bool ran = false;
      // Warps go on at their own pace: in a shuffled turn some of them rest.
      const uint32_t rest = order == Order::shuffled ? uint32_t(rng()) : 0;
      for (int t : turn) {
        if (fibers_[size_t(t)].state != State::ready || rest >> (t / kWarp) & 1) continue;
        ran = true;
        resume(t);
        if (error_) std::rethrow_exception(error_);
      }
      if (release() || rest) continue;
      if (!ran) stuck();
    }
    for (const auto& copies : late_) {
      if (!copies.empty()) broken("copies that nobody has waited for");
    }
    for (size_t i = 0; i < kGuard; ++i) {
      if (block_shared_memory[shared + i] != kGuardByte) {
        broken("shared memory written " + std::to_string(i + 1) + " bytes past its end");
      }
    }
  }

  [[gnu::noinline]] void yield(State state, unsigned mask = 0, int source = kNobody) {
    running = nullptr;
    Fiber& me = fibers_[size_t(current_)];
    me.state = state, me.mask = mask, me.source = source;
    known_.enter(me.known);
    if (!__builtin_setjmp(me.where)) jump(scheduler_);
    me.known.entered(known_);
  }
  // The thread that runs does not go on, nor does its block.
  [[noreturn]] void end_with(const std::string& what) {
    error_ = std::make_exception_ptr(std::runtime_error(what));
    yield(State::ended);
    std::abort();
  }
  int current() const { return current_; }
  // What a thread gives to its warp, what it was given by another, and what its warp was.
  unsigned char* slot(int thread) { return slots_[thread]; }
  const unsigned char* given(int thread) const { return given_[thread]; }
  const unsigned char* brought(int warp) const { return brought_[warp]; }

  void copy_later(const LateCopy& copy) { late_[size_t(current_)].push_back(copy); }
  void copy_now() {
    for (const LateCopy& c : late_[size_t(current_)]) {
      c.from ? std::memcpy(c.to, c.from, c.bytes) : std::memset(c.to, 0, c.bytes);
    }
    late_[size_t(current_)].clear();
  }

  [[noreturn]] void live() {  // of a fiber
    for (;;) {
      try {
        (*body_)();
      } catch (...) {
        error_ = std::current_exception();
      }
      yield(State::ended);
    }
  }

 private:
  static void enter();
  void begin() {  // of a fiber
    fibers_[size_t(current_)].known.entered(known_);
    yield(State::ready);  // the first body comes with the first resume
    live();
  }

  [[gnu::noinline]] void begin_at(const ucontext_t& context) {
    if (!__builtin_setjmp(scheduler_)) setcontext(&context);
  }
  void start(int t) {
    Fiber& fiber = fibers_[size_t(t)];
    fiber.state = State::ready;
    if (fiber.stack) return;  // it waits where its last body ended
    fiber.stack = stacks_.get() + size_t(t) * kApart;
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack;
    fiber.context.uc_stack.ss_size = kStack;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, enter, 0);
    fiber.known = {fiber.stack, kStack};
    current_ = t;
    fiber.known.enter(known_);
    begin_at(fiber.context);
    known_.entered(fibers_[size_t(t)].known);
  }
  [[gnu::noinline]] void resume(int t) {
    current_ = t;
    threadIdx = {unsigned(t), 0, 0};
    own_.stack = {fibers_[size_t(t)].stack, kStack}, running = &own_;
    fibers_[size_t(t)].known.enter(known_);
    if (!__builtin_setjmp(scheduler_)) jump(fibers_[size_t(t)].where);
    known_.entered(fibers_[size_t(t)].known);
  }
  bool all(State state) const {
    for (int t = 0; t < threads_; ++t) {
      if (fibers_[size_t(t)].state != state) return false;
    }
    return true;
  }
  // Barriers that everybody has reached.
  bool release() {
    bool any = false;
    if (all(State::at_barrier)) {
      for (int t = 0; t < threads_; ++t) fibers_[size_t(t)].state = State::ready;
      return true;
    }
    for (int warp = 0; warp < threads_; warp += kWarp) {
      for (int lane = 0; lane < kWarp; ++lane) {
        const Fiber& first = fibers_[size_t(warp + lane)];
        if (first.state != State::at_warp_barrier) continue;
        const unsigned mask = first.mask;
        bool here = true;
        for (int l = 0; l < kWarp; ++l) {
          const Fiber& f = fibers_[size_t(warp + l)];
          if (mask >> l & 1) here &= f.state == State::at_warp_barrier && f.mask == mask;
        }
        if (!here) continue;
        hand_out(warp, mask, first.source);
        for (int l = 0; l < kWarp; ++l) {
          if (mask >> l & 1) fibers_[size_t(warp + l)].state = State::ready;
        }
        any = true;
      }
    }
    return any;
  }
  // When all have come, so that nobody's value is replaced before it was read.
  void hand_out(int warp, unsigned mask, int source) {
    if (source == kNobody) return;
    if (source == kWholeWarp) {
      std::memcpy(brought_[warp], slots_[warp], kWarp * kSlot);
      return;
    }
    for (int l = 0; l < kWarp; ++l) {
      if (!(mask >> l & 1)) continue;
      const int from = fibers_[size_t(warp + l)].source;
      if (from < 0) broken("threads of a warp shuffle while others of it only wait");
      std::memcpy(given_[warp + l], slots_[from], kSlot);
    }
  }
  [[noreturn]] void stuck() const {
    int at = 0, at_warp = 0, ended = 0;
    for (int t = 0; t < threads_; ++t) {
      const State state = fibers_[size_t(t)].state;
      at += state == State::at_barrier, at_warp += state == State::at_warp_barrier;
      ended += state == State::ended;
    }
    broken("the block cannot go on: " + std::to_string(at) + " threads wait at __syncthreads, " +
           std::to_string(at_warp) + " for their warp, " + std::to_string(ended) + " have ended,");
  }

  std::vector<Fiber> fibers_;
  std::unique_ptr<char[]> stacks_;
  unsigned char slots_[kMostThreads][kSlot], given_[kMostThreads][kSlot];
  unsigned char brought_[kMostThreads][kSlot];
  std::vector<std::vector<LateCopy>> late_ = std::vector<std::vector<LateCopy>>(kMostThreads);
  Place scheduler_;
  KnownStack known_;  // the scheduler's
  const std::function<void()>* body_ = nullptr;
  std::exception_ptr error_;
  int threads_ = 0, current_ = 0;
  Own own_;
};

Machine& machine() {
  static Machine one;
  return one;
}
void Machine::enter() { machine().begin(); }

std::set<std::pair<std::string, int>>& launch_list() {
  static std::set<std::pair<std::string, int>> list;
  return list;
}
int64_t grids_run = 0;

}  // namespace

void check_vector(const void* at, size_t boundary) {
  // Through memory: the compiler takes the boundary of a typed pointer for granted.
  volatile uintptr_t address = reinterpret_cast<uintptr_t>(at);
  if (address % boundary) broken("a vector off its boundary");
}

void refuse_access(const void* p) {
  running = nullptr;
  char text[100];
  std::snprintf(text, sizeof text, "emulation: a kernel touches the host's memory, at %p", p);
  machine().end_with(text);
}

int lane() { return machine().current() % kWarp; }

void exchange(unsigned mask, void* value, size_t bytes, int source) {
  Machine& m = machine();
  const int me = m.current(), warp = me / kWarp * kWarp;
  if (!(mask >> (me - warp) & 1)) broken("a thread shuffles that is not in the mask");
  if (!(mask >> source & 1)) broken("a shuffle reads a lane that is not in the mask");
  std::memcpy(m.slot(me), value, bytes);
  m.yield(State::at_warp_barrier, mask, warp + source);
  std::memcpy(value, m.given(me), bytes);
}

const unsigned char* bring(const void* value, size_t bytes) {
  Machine& m = machine();
  std::memcpy(m.slot(m.current()), value, bytes);
  m.yield(State::at_warp_barrier, 0xffffffffu, kWholeWarp);
  return m.brought(m.current() / kWarp * kWarp);
}
void all_have_read() { machine().yield(State::at_warp_barrier, 0xffffffffu); }

void copy_later(void* to, const void* from, size_t bytes) {
  check_vector(to, bytes);
  if (from) check_vector(from, bytes);
  if (from && watching) touch(*watching, from, bytes, false);
  machine().copy_later({to, from, bytes});
}
void wait_for_copies() { machine().copy_now(); }

void refuse(const char* what) { broken(what); }

void run_grid(dim3 grid, dim3 block, size_t shared, const std::function<void()>& body,
              const void* parameters, size_t bytes) {
  blockDim = block, gridDim = grid;
  if (block.x == 0 || block.x > kMostThreads || block.x % kWarp || block.y != 1 || block.z != 1) {
    broken("a block of " + std::to_string(block.x) + " threads");
  }
  if (grid.x == 0 || grid.y == 0 || grid.y > 65535) broken("a grid without blocks, or too large,");
  if (shared > kMostShared) broken(std::to_string(shared) + " bytes of shared memory");
  const Order order = settings().order;
  std::mt19937 rng(unsigned(grid.x * 31 + grid.y));
  const auto run_block = [&](unsigned b) {
    blockIdx = {b % grid.x, b / grid.x, 0};
    try {
      machine().run_block(int(block.x), shared, body, {parameters, bytes}, order, rng);
    } catch (...) {
      machine().forget();
      throw;
    }
  };
  ++grids_run;
  if (counting()) return count_grid(grid.x * grid.y, int(block.x), run_block);
  std::vector<unsigned> turn(size_t(grid.x) * grid.y);
  std::iota(turn.begin(), turn.end(), 0u);
  if (order == Order::backward) std::reverse(turn.begin(), turn.end());
  if (order == Order::shuffled) std::shuffle(turn.begin(), turn.end(), rng);
  for (unsigned b : turn) run_block(b);
}

namespace {

// Of a program that is no test.
Settings settings_of_environment() {
  Settings out;
  if (const char* devices = std::getenv("PAL_EMULATED_GPUS")) out.devices = std::atoi(devices);
  if (std::getenv("PAL_EMULATED_SHUFFLED")) out.order = Order::shuffled;
  if (const char* times = std::getenv("PAL_EMULATED_BLAS_MS")) {
    varied_sums = true;
    out.blas_ms.clear();
    std::istringstream in(times);
    for (int64_t ms = 0; in >> ms;) out.blas_ms.push_back(ms);
  }
  return out;
}

}  // namespace

Settings& settings() {
  static Settings one = settings_of_environment();
  return one;
}
std::unique_lock<std::recursive_mutex> hold() {
  static std::recursive_mutex one;
  return std::unique_lock(one);
}
const std::set<std::pair<std::string, int>>& launches() { return launch_list(); }
int64_t kernels_run() { return grids_run; }
bool real() { return false; }

}  // namespace pal::emulation

void __syncthreads() { pal::emulation::machine().yield(pal::emulation::State::at_barrier); }
void __syncwarp(unsigned mask) {
  pal::emulation::machine().yield(pal::emulation::State::at_warp_barrier, mask);
}

void pal::on_launch(const char* file, int line) {
  int64_t& good = emulation::good_launches;
  if (good >= 0 && good-- == 0) throw std::runtime_error("emulation: a launch fails");
  const std::string path = file;
  const auto held = emulation::hold();
  emulation::count_place(file, line);
  emulation::launch_list().emplace(path.substr(path.find_last_of('/') + 1), line);
}
