// How oneDNN 2.6.3 cuts the sums of its products on AMX: what is one sum for any number of threads.
#pragma once
#include <cstdint>
#include <functional>

namespace pal {

struct TileSum {
  int64_t batch = 1, m = 0, n = 0, k = 0;
  bool accumulate = false, to_f32 = true;  // c += instead of c =; c is f32, else bf16
};

// Up to how many threads each sum over k is one, in one order: it has no part that is added on at
// another place, wherever the kernel cuts m and n for so many. 0: already two threads may add in
// another order than one.
int threads_of_tile_sum(const TileSum& sum);

// The longest piece of k, a multiple of 32, whose sum is one for up to threads_of_tile_sum()
// threads, also where it is added onto what is there. 0 where pieces would be too short to be fast.
int64_t tile_piece(int64_t m, int64_t n);

// What a processor says of itself: the words of a leaf at an index, false where it has no such
// leaf.
struct CpuidWords {
  unsigned a = 0, b = 0, c = 0, d = 0;
};
using Cpuid = std::function<bool(unsigned leaf, unsigned index, CpuidWords& words)>;

// Of its second cache a core's share, as oneDNN reckons it (xbyak's Cpu::setCacheHierarchy); 512
// KiB where the processor says nothing.
int64_t second_cache(const Cpuid& cpuid);

}  // namespace pal
