// What a caching allocator would need for the same lifetimes: PyTorch's CUDACachingAllocator
// (c10/cuda/CUDACachingAllocator.cpp, release 2.x, default settings), simulated. The baseline that
// OLLA (section 5.4, figures 8 and 13) compares with.
//
// Requests are rounded up to 512 bytes. Up to 1 MiB they are served from segments of 2 MiB, above
// it from segments of 20 MiB, from 10 MiB on from segments of their own size rounded up to 2 MiB.
// The smallest free block that is large enough is taken, in ties the one reserved first; the rest
// of it is split off when that is at least 512 bytes (of small requests) or more than 1 MiB. Freed
// blocks join their free neighbours in the segment. Segments are never given back.
#pragma once
#include <cstdint>
#include <span>

#include "memory/place/place.h"

namespace pal {

struct CachingAllocation {
  int64_t reserved = 0;           // bytes of all segments: what the device must have
  int64_t allocated = 0;          // the most bytes asked for and alive at once
  int64_t allocated_at_peak = 0;  // of these when the last segment was reserved
  // The part of what is reserved that was not in use when the footprint was reached.
  double fragmentation() const {
    return reserved ? 1 - double(allocated_at_peak) / double(reserved) : 0;
  }
};

// Buffers are allocated at `lower` and freed at `upper`; at one moment frees come first, and
// allocations in the order given.
CachingAllocation caching_allocation(std::span<const Buffer> buffers);

}  // namespace pal
