// Launches are counted where they run. What a kernel moves is followed access by access, for all of
// a small grid and for windows of neighbouring blocks of a large one.
#include "tests/emulation/counting.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "tests/emulation/emulation.h"
#include "tests/emulation/memory.h"

namespace pal::emulation {

constexpr uint32_t kSector = 32;  // bytes
// What a block comes back to before its threads have touched so many sectors is in a cache still.
// An assumption: of an H200's 50 MiB each of 8 blocks on each of 132 processors has 48 KiB, and
// what several threads touch counts several times.
constexpr int64_t kKept = (128 << 10) / kSector;
constexpr unsigned kWindow = 16;     // neighbouring blocks that share what they move
constexpr unsigned kWindows = 6;     // of a large grid, evenly spread;
constexpr unsigned kFewWindows = 2;  // of one whose first makes more accesses than this
constexpr int64_t kManyAccesses = 2 << 20;
constexpr int64_t kWholeThreads = 65536;  // a grid of at most so many is run whole
constexpr size_t kDoneBytes = 1 << 20;    // copies and fills of at most so many are done
constexpr int64_t kSmall = 8 << 20;       // bytes of an operand that stays in a cache of 50 MiB
constexpr int kFollowed = 64;             // accesses of a thread whose warp's sectors are counted

// The accesses of a window of blocks. A block's threads run one behind the other, as if each had
// the block's cache to itself: a thread's own accesses, times the threads, stand for the time.
class Accesses {
 public:
  Accesses() : slots_(size_t(1) << 14) {}

  void begin_window() {
    if (used_ > 0) std::fill(slots_.begin(), slots_.end(), Slot{});
    used_ = 0, block_ = 0;
  }
  void begin_block(int threads) {
    ++block_, threads_ = threads;
    std::fill(std::begin(bytes_), std::end(bytes_), 0);
    std::fill(std::begin(accesses_), std::end(accesses_), 0);
    for (std::vector<uintptr_t>& sectors : warp_sectors_) sectors.clear();
    first_block_ = block_ == 1;
  }
  void touch(const void* p, size_t bytes, bool writes) {
    int64_t& mine = bytes_[threadIdx.x];
    const int64_t now = mine * threads_ / kSector;
    mine += int64_t(bytes), ++made;
    const auto at = reinterpret_cast<uintptr_t>(p);
    const int number = accesses_[threadIdx.x]++;
    if (first_block_ && number < kFollowed) follow(at, bytes, number);
    for (uintptr_t s = at / kSector; s <= (at + bytes - 1) / kSector; ++s) touch(s, now, writes);
  }
  void begin_launch(const std::vector<KernelCounter::Bytes>& operands) {
    small_.clear();
    for (const KernelCounter::Bytes& o : operands) {
      if (o.at && o.size <= kSmall) small_.push_back({reinterpret_cast<uintptr_t>(o.at), o.size});
    }
    read = written = flops = asked = 0, made = 0, followed_blocks = 0;
  }
  void end_block() { followed_blocks += first_block_; }
  // What is read by a launch of which so many times more blocks ran, or would have.
  double all_read(double scale) const {
    double all = read * scale;
    for (const Small& o : small_) all += std::min(o.read * scale, double(o.size));
    return all;
  }
  double read = 0, written = 0, flops = 0;  // read: of others than small operands
  double asked = 0;                         // in the first block of each window: so many of them
  int64_t made = 0, followed_blocks = 0;

 private:
  struct Small {
    uintptr_t at;
    int64_t size;
    double read = 0;
  };
  // When a sector was in the cache, since a block has brought it.
  struct Passes {
    static constexpr int kMost = 4;
    int64_t begin[kMost] = {}, end[kMost] = {};
    int count = 0, most = 0;  // of this block; the most of any of the window

    bool has(int64_t now) {
      for (int i = 0; i < std::min(count, kMost); ++i) {
        if (now < begin[i] - kKept || now > end[i] + kKept) continue;
        begin[i] = std::min(begin[i], now), end[i] = std::max(end[i], now);
        return true;
      }
      return false;
    }
    bool is_new(int64_t now) {  // that it is moved again, in this block and in the window
      if (has(now)) return false;
      // The last of very many stands for the latest.
      begin[std::min(count, kMost - 1)] = end[std::min(count, kMost - 1)] = now;
      if (++count <= most) return false;
      most = count;
      return true;
    }
  };
  struct Slot {
    uintptr_t sector = 0;
    unsigned block = 0;
    Passes reads, writes;
  };

  void touch(uintptr_t sector, int64_t now, bool writes) {
    Slot& slot = find(sector);
    if (slot.block != block_) slot.block = block_, slot.reads.count = slot.writes.count = 0;
    if (writes) {
      if (slot.writes.is_new(now)) written += kSector;
    } else if (!slot.writes.has(now) && slot.reads.is_new(now)) {
      count_read(sector * kSector);
    }
  }
  // Access `number` of each of a warp's threads is one instruction.
  void follow(uintptr_t at, size_t bytes, int number) {
    const size_t instruction = size_t(threadIdx.x / 32) * kFollowed + size_t(number);
    std::vector<uintptr_t>& sectors = warp_sectors_[instruction];
    for (uintptr_t s = at / kSector; s <= (at + bytes - 1) / kSector; ++s) {
      if (std::find(sectors.begin(), sectors.end(), s) != sectors.end()) continue;
      sectors.push_back(s), asked += kSector;
    }
  }
  void count_read(uintptr_t at) {
    for (Small& o : small_) {
      if (at + kSector > o.at && at < o.at + uintptr_t(o.size)) {
        o.read += kSector;
        return;
      }
    }
    read += kSector;
  }
  Slot& find(uintptr_t sector) {
    const size_t mask = slots_.size() - 1;
    size_t i = (sector * 0x9E3779B97F4A7C15u >> 20) & mask;
    while (slots_[i].sector != sector) {
      if (slots_[i].sector == 0) {
        if (++used_ * 2 > slots_.size()) return grow(), find(sector);
        slots_[i].sector = sector;
        break;
      }
      i = (i + 1) & mask;
    }
    return slots_[i];
  }
  void grow() {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    used_ = 0;
    for (const Slot& slot : old) {
      if (slot.sector) find(slot.sector) = slot;
    }
  }

  std::vector<Small> small_;
  std::vector<Slot> slots_;
  size_t used_ = 0;
  unsigned block_ = 0;
  int64_t threads_ = 1;
  int64_t bytes_[1024] = {};  // that each thread of the block has touched
  int accesses_[1024] = {};   // of each
  bool first_block_ = false;  // of its window
  std::vector<uintptr_t> warp_sectors_[32 * kFollowed];
};

void touch(Accesses& accesses, const void* p, size_t bytes, bool writes) {
  accesses.touch(p, bytes, writes);
}

namespace {

struct Counted {
  std::vector<LaunchCount> launches = {};
  std::deque<std::string> places = {};  // of launches that are queued
  std::vector<KernelCounter::Bytes> operands = {};
  Accesses accesses = {};
};
Counted* counted = nullptr;

class Counter final : public KernelCounter {
 public:
  std::vector<LaunchCount> count(const std::function<void()>& work,
                                 const std::vector<Bytes>& operands) override {
    const auto held = hold();
    cudaDeviceSynchronize();
    Counted mine;
    mine.operands = operands;
    counted = &mine;
    try {
      work();
      cudaDeviceSynchronize();
    } catch (...) {
      counted = nullptr;
      throw;
    }
    counted = nullptr;
    return std::move(mine.launches);
  }
  void write(void* to, const void* from, int64_t bytes) override {
    const Reach reach;
    std::memcpy(to, from, size_t(bytes));
  }
};

}  // namespace

bool counting() { return counted != nullptr; }

void count_place(const char* file, int line) {
  if (!counted) return;
  const std::string path = file;
  counted->places.push_back(path.substr(path.find_last_of('/') + 1) + ":" + std::to_string(line));
}

void count_grid(unsigned blocks, int threads, const std::function<void(unsigned)>& run) {
  LaunchCount launch{.blocks = blocks, .threads = threads};
  if (!counted->places.empty()) {
    launch.where = counted->places.front();
    counted->places.pop_front();
  }
  Accesses& accesses = counted->accesses;
  accesses.begin_launch(counted->operands);
  watching = &accesses;
  unsigned ran = 0;
  const auto window = [&](unsigned from, unsigned to) {
    accesses.begin_window();
    for (unsigned b = from; b < to; ++b, ++ran) {
      accesses.begin_block(threads);
      run(b);
      accesses.end_block();
    }
  };
  try {
    if (int64_t(blocks) * threads <= kWholeThreads || blocks <= kWindow * kWindows) {
      for (unsigned b = 0; b < blocks; b += kWindow) window(b, std::min(b + kWindow, blocks));
    } else {
      unsigned windows = kWindows;
      for (unsigned w = 0; w < windows; ++w) {
        const auto from = unsigned(uint64_t(blocks - kWindow) * w / (windows - 1));
        window(from, from + kWindow);
        if (accesses.made > kManyAccesses) windows = kFewWindows;
      }
    }
  } catch (...) {
    watching = nullptr;
    throw;
  }
  watching = nullptr;
  const double scale = double(blocks) / double(ran);
  launch.read = accesses.all_read(scale), launch.written = accesses.written * scale;
  launch.asked =
      accesses.asked * double(blocks) / double(std::max<int64_t>(accesses.followed_blocks, 1));
  launch.product_flops = accesses.flops * scale, launch.accesses = double(accesses.made) * scale;
  counted->launches.push_back(std::move(launch));
}

void count_library(const char* name, double read, double written, double flops) {
  counted->launches.push_back({.kind = LaunchCount::Kind::library,
                               .where = name,
                               .read = read,
                               .written = written,
                               .product_flops = flops});
}

bool count_bytes(LaunchCount::Kind kind, size_t bytes) {
  const bool copies = kind == LaunchCount::Kind::copy;
  if (counted) {
    counted->launches.push_back({.kind = kind,
                                 .where = copies ? "copy" : "fill",
                                 .read = copies ? double(bytes) : 0,
                                 .written = double(bytes)});
  }
  return settings().untouched && bytes > kDoneBytes;
}

bool count_product(double flops) {
  if (watching) watching->flops += flops;
  return watching != nullptr;
}

}  // namespace pal::emulation

std::unique_ptr<pal::KernelCounter> pal::make_kernel_counter() {
  emulation::Settings& settings = emulation::settings();
  settings.untouched = true, settings.memory = int64_t(1) << 37;
  return std::make_unique<emulation::Counter>();
}
