// Replaces operator new in this test binary, to count.
#include "tests/probes/allocations.h"

#include <dlfcn.h>
#include <unwind.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

// A sanitizer brings its own allocator. How GCC says so, and how clang does.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PAL_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define PAL_SANITIZED
#endif
#endif

namespace pal::test {
namespace {

// operator new is global, so its counters are.
std::atomic<bool> counting{false};
std::atomic<int64_t> ours{0}, theirs{0};
std::atomic<void*> first_ours{nullptr}, first_theirs{nullptr};

struct Walk {
  void* caller;  // where operator new returns to: frames before it are the counter's
  bool begun = false;
  void* owner = nullptr;  // the first frame outside of the language's libraries
};

bool language_library(const char* path) {
  return std::strstr(path, "libstdc++") || std::strstr(path, "libc.so") ||
         std::strstr(path, "libgcc_s");
}

_Unwind_Reason_Code step(_Unwind_Context* context, void* data) {
  auto& walk = *static_cast<Walk*>(data);
  void* at = reinterpret_cast<void*>(_Unwind_GetIP(context));
  walk.begun |= at == walk.caller;
  Dl_info info;
  if (!walk.begun || (dladdr(at, &info) && language_library(info.dli_fname))) return _URC_NO_REASON;
  walk.owner = at;
  return _URC_END_OF_STACK;
}

void* base_of(void* at) {
  Dl_info info;
  return at && dladdr(at, &info) ? info.dli_fbase : nullptr;
}

void count(void* caller) {
  if (!counting.load(std::memory_order_relaxed)) return;
  Walk walk{caller};
  _Unwind_Backtrace(step, &walk);
  void* owner = walk.owner ? walk.owner : caller;
  const bool mine = base_of(owner) == base_of(reinterpret_cast<void*>(&count));
  ++(mine ? ours : theirs);
  void* none = nullptr;
  (mine ? first_ours : first_theirs).compare_exchange_strong(none, owner);
}

std::string describe(void* at) {
  Dl_info info;
  if (!at || !dladdr(at, &info)) return "";
  char text[256];
  std::snprintf(text, sizeof text, "%s+0x%zx %s", info.dli_fname,
                size_t(static_cast<char*>(at) - static_cast<char*>(info.dli_fbase)),
                info.dli_sname ? info.dli_sname : "");
  return text;
}

[[maybe_unused]] void* allocate(size_t bytes, size_t alignment, void* caller) {
  count(caller);
  void* p = alignment <= __STDCPP_DEFAULT_NEW_ALIGNMENT__
                ? std::malloc(bytes ? bytes : 1)
                : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (!p) throw std::bad_alloc();
  return p;
}

}  // namespace

Allocations count_allocations(const std::function<void()>& work) {
  ours = theirs = 0;
  first_ours = first_theirs = nullptr;
  counting = true;
  try {
    work();
  } catch (...) {
    counting = false;
    throw;
  }
  counting = false;
  return {ours, theirs, describe(first_ours), describe(first_theirs)};
}

#ifdef PAL_SANITIZED
bool can_count_allocations() { return false; }
#else
bool can_count_allocations() { return true; }
#endif

}  // namespace pal::test

#ifndef PAL_SANITIZED
using pal::test::allocate;
[[gnu::noinline]] void* operator new(size_t n) {
  return allocate(n, 0, __builtin_return_address(0));
}
[[gnu::noinline]] void* operator new[](size_t n) {
  return allocate(n, 0, __builtin_return_address(0));
}
[[gnu::noinline]] void* operator new(size_t n, std::align_val_t a) {
  return allocate(n, size_t(a), __builtin_return_address(0));
}
[[gnu::noinline]] void* operator new[](size_t n, std::align_val_t a) {
  return allocate(n, size_t(a), __builtin_return_address(0));
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }
void operator delete[](void* p, size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, size_t, std::align_val_t) noexcept { std::free(p); }
#endif
