// Device and pinned memory as two halves of one reserved range of addresses, so that one comparison
// tells them from the host's. Device memory is mapped for nobody outside of draining: the host that
// touches it is stopped by the fault, which says so. The compiler calls __asan_load4_noabort and
// its kind before each access of a kernel; here they refuse what a GPU could not reach.
#include "tests/emulation/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/emulation/counting.h"
#include "tests/emulation/emulation.h"
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

// Of the program's file: where it lies, where what can be written begins; and what kernels share.
extern "C" {
extern char __executable_start, __data_start, _end;
extern char __start_emulated_gpu, __stop_emulated_gpu;
}

namespace pal::emulation {
namespace {

constexpr size_t kHalf = size_t(1) << 38;  // addresses, not bytes
constexpr size_t kPage = 4096, kBoundary = 256;
constexpr size_t kOnes = size_t(1) << 26;

size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

const void* range_base = nullptr;  // of Range, where every access can look
struct sigaction before_us;

// Prints without asking for memory, and lets the fault be one.
void on_fault(int signal, siginfo_t* info, void* context);

class Range {
 public:
  Range() {
    void* const at =
        mmap(nullptr, 2 * kHalf, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) throw std::runtime_error("emulation: no addresses for its memory");
    range_base = at;
    struct sigaction action = {};
    action.sa_sigaction = on_fault, action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, &before_us);
  }

  bool has(const void* p, size_t bytes) const {
    const uintptr_t offset = offset_of(p);
    return offset < 2 * kHalf && bytes <= 2 * kHalf - offset;
  }
  bool is_device(const void* p) const { return offset_of(p) < kHalf; }

  void* allocate(Kind kind, size_t bytes) {
    // Pages apart, or a boundary; device memory ends where a page does.
    const bool device = kind == Kind::device;
    const size_t used = round_up(bytes, kBoundary);
    const size_t room = device ? round_up(used, kPage) + kPage : used + kBoundary;
    auto& blocks = blocks_[device];
    size_t at = device ? kPage : kHalf + kBoundary;
    for (const auto& [begin, block] : blocks) {
      if (begin >= at + room) break;
      at = begin + block.room;
    }
    if (at + room > (device ? kHalf : 2 * kHalf)) return nullptr;
    Block block{bytes, used, room, device ? round_up(used, kPage) - used : 0};
    if (device) {
      if (settings().untouched && !fill_with_ones(at, block)) return nullptr;
      if (!protect(at, block, open_ > 0)) return nullptr;
    } else if (!pin(at + used)) {
      return nullptr;
    }
    blocks.emplace(at, block);
    void* const p = address(at + block.skipped);
    poison(at, room, true), poison(at + block.skipped, bytes, false);
    return p;
  }
  size_t size_of(Kind kind, void* p) { return find(kind, p)->second.bytes; }
  void release(Kind kind, void* p) {
    const auto it = find(kind, p);
    const auto& [at, block] = *it;
    poison(at, block.room, true);
    if (kind == Kind::device) {
      mmap(address(at), block.skipped + block.used, PROT_NONE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    } else if (block.used >= size_t(1) << 20) {  // whole pages of it
      const size_t from = round_up(at, kPage), to = (at + block.used) / kPage * kPage;
      madvise(address(from), to - from, MADV_DONTNEED);
    }
    blocks_[kind == Kind::device].erase(it);
  }

  void open() {
    if (open_++ == 0) protect_all(true);
  }
  void close() {
    if (--open_ == 0) protect_all(false);
  }

 private:
  struct Block {
    size_t bytes, used, room, skipped;  // skipped: before it, so that it ends where a page does
  };
  static uintptr_t base() { return reinterpret_cast<uintptr_t>(range_base); }
  static uintptr_t offset_of(const void* p) { return reinterpret_cast<uintptr_t>(p) - base(); }
  static void* address(size_t offset) { return reinterpret_cast<void*>(base() + offset); }
  std::map<size_t, Block>::iterator find(Kind kind, void* p) {
    auto& blocks = blocks_[kind == Kind::device];
    auto it = blocks.upper_bound(offset_of(p));
    if (it == blocks.begin() || offset_of(p) != (--it)->first + it->second.skipped) {
      throw std::runtime_error("emulation: memory is freed that was not allocated");
    }
    return it;
  }
  bool protect(size_t at, const Block& block, bool reachable) {
    return mprotect(address(at), block.skipped + block.used,
                    reachable ? PROT_READ | PROT_WRITE : PROT_NONE) == 0;
  }
  // Nobody's numbers: ones of bf16, and close to ones of f32, of which no byte is there before it
  // is written. A file of some of them, again and again.
  static int ones() {
    static const int file = [] {
      const int made = memfd_create("ones", 0);
      const std::vector<uint16_t> some(kOnes / sizeof(uint16_t), 0x3F80);
      return write(made, some.data(), kOnes) == ssize_t(kOnes) ? made : -1;
    }();
    return file;
  }
  static bool fill_with_ones(size_t at, const Block& block) {
    const size_t end = at + block.skipped + block.used;
    for (size_t from = at; from < end; from += kOnes) {
      if (mmap(address(from), std::min(kOnes, end - from), PROT_NONE,
               MAP_PRIVATE | MAP_NORESERVE | MAP_FIXED, ones(), 0) == MAP_FAILED) {
        return false;
      }
    }
    return true;
  }
  void protect_all(bool reachable) {
    for (const auto& [at, block] : blocks_[true]) protect(at, block, reachable);
  }
  // Pinned memory stays the processor's once it was.
  bool pin(size_t end) {
    if (end <= pinned_end_) return true;
    const size_t from = pinned_end_;
    pinned_end_ = round_up(end, size_t(1) << 26);
    return mprotect(address(from), pinned_end_ - from, PROT_READ | PROT_WRITE) == 0;
  }
  void poison([[maybe_unused]] size_t at, [[maybe_unused]] size_t bytes,
              [[maybe_unused]] bool on) const {
#ifdef __SANITIZE_ADDRESS__
    if (on)
      ASAN_POISON_MEMORY_REGION(address(at), bytes);
    else
      ASAN_UNPOISON_MEMORY_REGION(address(at), bytes);
#endif
  }

  std::map<size_t, Block> blocks_[2];  // pinned ones, device ones; by offset
  size_t pinned_end_ = kHalf;
  int open_ = 0;
};

// Never destroyed: a static may hold a device until the end. Made when memory is first asked for.
Range* made = nullptr;
Range& range() {
  if (!made) made = new Range;
  return *made;
}

void on_fault(int signal, siginfo_t* info, void* context) {
  const void* const at = info->si_addr;
  if (made->is_device(at)) {
    char text[200];
    const int length =
        running ? std::snprintf(text, sizeof text,
                                "emulation: a kernel leaves the device's memory, at %p\n", at)
                : std::snprintf(text, sizeof text,
                                "emulation: the host touches the device's memory, at %p: it is "
                                "there for kernels and copies\n",
                                at);
    if (write(STDERR_FILENO, text, size_t(length)) < 0) _exit(3);
    std::abort();
  }
  if (before_us.sa_flags & SA_SIGINFO) return before_us.sa_sigaction(signal, info, context);
  std::signal(signal, SIG_DFL);  // it comes again
}

#ifdef PAL_EMULATION_CHECKS
bool lies_in(const void* p, size_t bytes, const void* from, size_t size) {
  const auto offset = reinterpret_cast<uintptr_t>(p) - reinterpret_cast<uintptr_t>(from);
  return offset < size && bytes <= size - offset;
}
bool lies_between(const void* p, size_t bytes, const char& from, const char& to) {
  return lies_in(p, bytes, &from, size_t(&to - &from));
}
// Not inlined: whoever calls has checked what most accesses are.
[[gnu::noinline]] void check_others(const Own& own, const void* p, size_t bytes) {
  for (const Own::Span& span : {own.parameters, own.body, own.brought}) {
    if (lies_in(p, bytes, span.at, span.bytes)) return;
  }
  if (lies_between(p, bytes, __executable_start, __data_start)) return;  // constants
  refuse_access(p);
}
void check(const void* p, size_t bytes, bool writes) {
  const Own* const own = running;
  if (!own) return;
  if (lies_in(p, bytes, range_base, 2 * kHalf)) {
    if (watching) touch(*watching, p, bytes, writes);
    return;
  }
  if (lies_between(p, bytes, __start_emulated_gpu, __stop_emulated_gpu) ||
      lies_in(p, bytes, own->stack.at, own->stack.bytes)) {
    return;
  }
  check_others(*own, p, bytes);
}
#endif

}  // namespace

void* allocate(Kind kind, size_t bytes) { return range().allocate(kind, bytes); }
size_t size_of(Kind kind, void* block) { return range().size_of(kind, block); }
void release(Kind kind, void* block) { range().release(kind, block); }

bool is_reachable(const void* p, size_t bytes) { return range().has(p, bytes); }
bool is_device(const void* p) { return range().is_device(p); }
void require_reachable(const void* p, const char* what) {
  if (!p || is_reachable(p, 1)) return;
  throw std::runtime_error(std::string("emulation: ") + what + " lies in the host's memory");
}

Reach::Reach() { range().open(); }
Reach::~Reach() { range().close(); }

}  // namespace pal::emulation

#ifdef PAL_EMULATION_CHECKS
extern "C" {
#define PAL_CHECK(bytes)                                                                       \
  void __asan_load##bytes##_noabort(const void* p) { pal::emulation::check(p, bytes, false); } \
  void __asan_store##bytes##_noabort(const void* p) { pal::emulation::check(p, bytes, true); }
PAL_CHECK(1)
PAL_CHECK(2)
PAL_CHECK(4)
PAL_CHECK(8)
PAL_CHECK(16)
#undef PAL_CHECK
void __asan_loadN_noabort(const void* p, size_t bytes) { pal::emulation::check(p, bytes, false); }
void __asan_storeN_noabort(const void* p, size_t bytes) { pal::emulation::check(p, bytes, true); }
void __asan_handle_no_return() {}
void __asan_before_dynamic_init(const char*) {}
void __asan_after_dynamic_init() {}
}
#endif
