// The arena and its canaries.
#include "memory/static_plan.h"

#include <cstdlib>
#include <cstring>
#include <string>

#include "core/error.h"

namespace pal {
namespace {

constexpr size_t kPage = 4096;

// Differs from place to place, so that no copied or computed block matches it by chance.
uint64_t canary(int64_t offset) { return 0xC0DED00DFEEDFACEull ^ (uint64_t(offset) * 0x9E3779B97F4A7C15ull); }

}  // namespace

void Arena::Free::operator()(std::byte* p) const { std::free(p); }

void Arena::reserve(Space space, int64_t bytes) {
  Block& block = blocks_[region_of(space)];
  if (bytes <= block.bytes) return;
  const size_t size = (size_t(bytes) + kPage - 1) / kPage * kPage;
  std::unique_ptr<std::byte[], Free> data(static_cast<std::byte*>(std::aligned_alloc(kPage, size)));
  if (!data) {
    throw BudgetError("the machine has no " + std::to_string(size) +
                      " bytes for the arena; lower memory.budget or the batch");
  }
  if (block.bytes) std::memcpy(data.get(), block.data.get(), size_t(block.bytes));
  std::memset(data.get() + block.bytes, 0, size - size_t(block.bytes));
  block = {std::move(data), bytes};
}

void Arena::fill_canary(Space space, int64_t from) {
  Block& block = blocks_[region_of(space)];
  for (int64_t i = align_up(from); i + 8 <= block.bytes; i += 8) {
    const uint64_t pattern = canary(i);
    std::memcpy(block.data.get() + i, &pattern, 8);
  }
}

int64_t Arena::touched(Space space, int64_t from) const {
  const Block& block = blocks_[region_of(space)];
  for (int64_t i = block.bytes / 8 * 8 - 8; i >= align_up(from); i -= 8) {
    const uint64_t pattern = canary(i);
    if (std::memcmp(block.data.get() + i, &pattern, 8) != 0) return align_up(i + 8);
  }
  return from;
}

StaticPlan::StaticPlan(const Storages& storages, const Plan& plan, Arena& arena)
    : storages_(storages), plan_(plan), arena_(arena) {
  for (Space space : {Space::device, Space::host}) {
    const int64_t needed = plan.regions[region_of(space)].bytes;
    if (arena.bytes(space) < needed) {
      throw ProgramError("the arena has " + std::to_string(arena.bytes(space)) +
                         " bytes, the plan needs " + std::to_string(needed) + ": reserve them first");
    }
  }
}

int64_t StaticPlan::capacity() const {
  return arena_.bytes(Space::device) + arena_.bytes(Space::host);
}

std::byte* StaticPlan::input_address(StorageId id, int slot) const {
  const Storage& storage = storages_[id];
  std::byte* base = arena_.base(storage.space) + plan_.offset[size_t(id)];
  return storage.input ? base + slot * plan_.regions[region_of(storage.space)].inputs : base;
}

}  // namespace pal
