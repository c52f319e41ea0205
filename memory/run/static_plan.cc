// The arena and its canaries.
#include "memory/run/static_plan.h"

#include <sanitizer/asan_interface.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "core/error.h"

namespace pal {
namespace {

// So many bytes in whole pages, and at least one byte behind them: the address sanitizer reports
// who touches what is behind.
size_t in_pages(int64_t bytes) {
  constexpr size_t kPage = 4096;
  return (size_t(bytes) / kPage + 1) * kPage;
}

// Anonymous pages: zero, and no memory at all until they are written. Those of `old`, if any, move
// to the new place as they are, so that an arena that grows is never in memory twice.
std::byte* map_pages(std::byte* old, int64_t had, int64_t bytes, Space space) {
  if (old) ASAN_UNPOISON_MEMORY_REGION(old, in_pages(had));
  void* const place = old ? ::mremap(old, in_pages(had), in_pages(bytes), MREMAP_MAYMOVE)
                          : ::mmap(nullptr, in_pages(bytes), PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (place == MAP_FAILED && errno == ENOMEM) {
    const std::string what = "the machine has no " + std::to_string(bytes) + " bytes for ";
    if (space == Space::host) throw HostBudgetError(what + "copies; lower memory.host_budget");
    throw BudgetError(what + "the arena; lower memory.budget or the batch");
  }
  if (place == MAP_FAILED) {
    throw Error(kExitFailed, "the arena's " + std::to_string(bytes) +
                                 " bytes could not be mapped: " + std::strerror(errno));
  }
  std::byte* const data = static_cast<std::byte*>(place);
  ASAN_POISON_MEMORY_REGION(data + bytes, in_pages(bytes) - size_t(bytes));
  return data;
}

void unmap_pages(std::byte* data, int64_t bytes) {
  ASAN_UNPOISON_MEMORY_REGION(data, in_pages(bytes));
  ::munmap(data, in_pages(bytes));
}

// Differs from place to place, so that no copied or computed block matches it by chance.
uint64_t canary(int64_t offset) {
  return 0xC0DED00DFEEDFACEull ^ (uint64_t(offset) * 0x9E3779B97F4A7C15ull);
}

}  // namespace

void Arena::reserve(Space space, int64_t bytes, int64_t keep) {
  Block& block = blocks_[region_of(space)];
  if (bytes <= block.bytes) return;
  if (!accelerator_) {
    std::byte* const pages = map_pages(block.data.get(), block.bytes, bytes, space);
    static_cast<void>(block.data.release());  // its pages have moved
    block = {{pages, [bytes](std::byte* p) { unmap_pages(p, bytes); }}, bytes};
    return;
  }
  const int64_t had = block.bytes;
  std::vector<std::byte> parked(size_t(std::min(keep, had)));
  accelerator_->copy(kComputeQueue, parked.data(), block.data.get(), int64_t(parked.size()));
  accelerator_->synchronize();  // the old block is about to be freed
  const auto hold = [&](int64_t so_many, bool again) {
    const auto release = [owner = accelerator_, space](std::byte* p) { owner->release(space, p); };
    block = {{accelerator_->allocate(space, so_many, again), release}, so_many};
    accelerator_->copy(kComputeQueue, block.data.get(), parked.data(), int64_t(parked.size()));
    accelerator_->synchronize();  // of pageable memory
  };
  block = {};
  try {
    hold(bytes, false);
  } catch (const BudgetError& refused) {
    if (had > 0) hold(had, true);
    if (space == Space::host) throw HostBudgetError(refused.what());
    throw;
  }
}

template <class F> void Arena::visit(Space space, int64_t from, bool write, F f) const {
  const Block& block = blocks_[region_of(space)];
  if (!accelerator_ || space == Space::host) {
    if (accelerator_) accelerator_->synchronize();
    f(block.data.get() + from, from, block.bytes - from);
    return;
  }
  std::vector<std::byte> some(size_t(1) << 20);
  for (int64_t end = block.bytes; end > from;) {
    const int64_t begin = std::max(from, end - int64_t(some.size()) / 64 * 64), n = end - begin;
    if (!write) accelerator_->copy(kComputeQueue, some.data(), block.data.get() + begin, n);
    accelerator_->synchronize();
    const bool stop = f(some.data(), begin, n);
    if (write) accelerator_->copy(kComputeQueue, block.data.get() + begin, some.data(), n);
    accelerator_->synchronize();
    if (stop) return;
    end = begin;
  }
}

void Arena::fill_canary(Space space, int64_t from) {
  visit(space, align_up(from), true, [](std::byte* bytes, int64_t at, int64_t n) {
    for (int64_t i = 0; i + 8 <= n; i += 8) {
      const uint64_t pattern = canary(at + i);
      std::memcpy(bytes + i, &pattern, 8);
    }
    return false;
  });
}

int64_t Arena::touched(Space space, int64_t from) const {
  int64_t highest = from;
  visit(space, align_up(from), false, [&](const std::byte* bytes, int64_t at, int64_t n) {
    for (int64_t i = n / 8 * 8 - 8; i >= 0; i -= 8) {
      const uint64_t pattern = canary(at + i);
      if (std::memcmp(bytes + i, &pattern, 8) == 0) continue;
      highest = align_up(at + i + 8);
      return true;
    }
    return false;
  });
  return highest;
}

StaticPlan::StaticPlan(const Storages& storages, const Plan& plan, Arena& arena)
    : storages_(storages), plan_(plan), arena_(arena) {
  for (Space space : {Space::device, Space::host}) {
    const int64_t needed = plan.regions[region_of(space)].bytes;
    if (arena.bytes(space) < needed) {
      throw ProgramError("the arena has " + std::to_string(arena.bytes(space)) +
                         " bytes, the plan needs " + std::to_string(needed) +
                         ": reserve them first");
    }
  }
}

int64_t StaticPlan::capacity() const {
  return arena_.bytes(Space::device) + arena_.bytes(Space::host);
}

std::byte* StaticPlan::input_address(StorageId id, int slot) const {
  const Storage& storage = storages_[id];
  std::byte* base = arena_.base(storage.space) + plan_.offset[id];
  return storage.input ? base + slot * plan_.regions[region_of(storage.space)].inputs : base;
}

}  // namespace pal
