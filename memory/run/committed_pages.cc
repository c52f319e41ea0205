// Reserving addresses, opening and closing their pages.
#include "memory/run/committed_pages.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "core/error.h"

namespace pal {
namespace {

constexpr size_t kPageBytes = 4096;

size_t whole_pages(int64_t bytes) {
  return (size_t(bytes) + kPageBytes - 1) / kPageBytes * kPageBytes;
}

void check_mapped(bool done, int64_t bytes) {
  if (done) return;
  if (errno == ENOMEM) {
    throw BudgetError("the machine has no " + std::to_string(bytes) +
                      " bytes for the jobs to share; lower --budget or the batches");
  }
  throw Error(kExitFailed,
              "the " + std::to_string(bytes) +
                  " bytes that the jobs share could not be mapped: " + std::strerror(errno));
}

}  // namespace

CommittedPages::~CommittedPages() {
  if (base_) ::munmap(base_, reserved_);
}

void CommittedPages::commit(int64_t bytes, int64_t addresses) {
  const size_t open = whole_pages(bytes);
  if (open > reserved_) {
    // Addresses without access count for nothing; only those that are opened do.
    const size_t wanted = std::max(open, whole_pages(addresses));
    void* const place = base_ ? ::mremap(base_, reserved_, wanted, MREMAP_MAYMOVE) : nullptr;
    void* const found = place && place != MAP_FAILED
                            ? place
                            : ::mmap(nullptr, wanted, PROT_NONE,
                                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    check_mapped(found != MAP_FAILED, bytes);
    if (base_ && found != place) {  // parts with other rights do not move as one
      check_mapped(
          ::mprotect(found, std::max<size_t>(open_, kPageBytes), PROT_READ | PROT_WRITE) == 0,
          bytes);
      std::memcpy(found, base_, open_);
      ::munmap(base_, reserved_);
    }
    base_ = static_cast<std::byte*>(found), reserved_ = wanted;
  }
  if (open > open_) {
    check_mapped(::mprotect(base_ + open_, open - open_, PROT_READ | PROT_WRITE) == 0, bytes);
  } else if (open < open_) {
    check_mapped(::madvise(base_ + open, open_ - open, MADV_DONTNEED) == 0, bytes);
    check_mapped(::mprotect(base_ + open, open_ - open, PROT_NONE) == 0, bytes);
  }
  open_ = open, bytes_ = bytes;
}

int64_t CommittedPages::resident() const {
  std::vector<unsigned char> pages(open_ / kPageBytes);
  if (pages.empty() || ::mincore(base_, open_, pages.data()) != 0) return 0;
  return int64_t(std::count_if(pages.begin(), pages.end(), [](auto p) { return p & 1; })) *
         int64_t(kPageBytes);
}

}  // namespace pal
