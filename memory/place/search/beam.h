// Packings without a hole, filled from below: beam search over skylines, of which those are kept
// that what is left is most likely to fit.
#pragma once
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "memory/place/place.h"
#include "memory/place/search/search.h"

namespace pal {

// Whether the buffers fill the capacity at all times between the first and the last.
bool fills(std::span<const Buffer> buffers, int64_t capacity);

class BeamSearch {
 public:
  // None of the buffers empty; they fill `capacity`.
  BeamSearch(std::span<const Buffer> buffers, int64_t capacity);

  // From bottom to top with `width` skylines kept for each number of buffers placed; the seed draws
  // noise, and which valley is filled first. A guess: finds offsets or gives up.
  SearchResult run(int width, uint64_t seed, const SearchLimits& limits);

 private:
  // With no hole the floors follow from which buffers are placed.
  struct State {
    std::vector<int64_t> floor;    // by section
    std::vector<uint64_t> placed;  // one bit a buffer
    double cost = 0;               // of its steps
    uint64_t hash = 0;
    int32_t step = -1;  // into steps_
  };
  struct Step {  // how a state came about
    int32_t before, buffer;
    int64_t at;
  };
  struct Child {
    double rank, cost;
    uint64_t hash;
    int32_t state, buffer;
    int64_t at;
  };
  bool is_placed(const State& s, int32_t b) const {
    return s.placed[size_t(b) / 64] >> (size_t(b) % 64) & 1;
  }
  void expand(const State& state, int32_t index);
  double step_cost(const State& s, int32_t time, int64_t left, int64_t right, int32_t but) const;
  void child(const State& of, const Child& c, State& out);

  int64_t capacity_;
  int32_t sections_ = 0;
  std::vector<int32_t> lower_, upper_;
  std::vector<int64_t> size_;
  std::vector<uint64_t> kind_;                       // a number that buffers alike share
  std::vector<std::vector<int32_t>> starts_, ends_;  // by time
  std::vector<Step> steps_;
  std::vector<Child> children_;
  std::mt19937_64 random_;
  double noise_ = 0, area_ = 0;
  bool fewest_ = false;
  int64_t nodes_ = 0;
};

}  // namespace pal
