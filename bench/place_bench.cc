// Placement on problems with seeds: perfect packings, of which the share that is solved to the
// optimum and how long that takes, and lifetimes as training has them, of which how far above the
// bound.
//
//   bench_place_bench [--seeds N] [--first SEED] [--seconds S] [--n N] [--shape NAME] [--training]
//                     [--csv SHAPE,N,SEED]
//
// --csv writes one packing as a file for pal place.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "core/clock.h"
#include "memory/place/place.h"
#include "tests/support/lifetimes.h"
#include "tests/support/perfect_packing.h"

namespace {

using namespace pal;

struct Args {
  int seeds = 5, first = 0, n = 0;
  double seconds = 10;
  std::string shape, csv;
  bool training = false;
};

Placement place_within(const std::vector<Buffer>& buffers, double limit, double& seconds) {
  const auto start = Clock::now();
  PlaceOptions options;
  options.deadline =
      start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(limit));
  const Placement p = place(buffers, options);
  seconds = seconds_since(start);
  check_placement(buffers, p.offset);
  return p;
}

void packings(const Args& args) {
  std::printf("%-18s %5s %8s %9s %9s %10s\n", "packing", "n", "solved", "median s", "max s",
              "worst");
  for (const test::PackingShape& shape : test::packing_shapes()) {
    if (!args.shape.empty() && args.shape != shape.name) continue;
    for (int n : {150, 200, 300, 450}) {
      if (args.n && n != args.n) continue;
      std::vector<double> times;
      int solved = 0;
      double worst = 0;
      for (int seed = 0; seed < args.seeds; ++seed) {
        const auto buffers = test::perfect_packing(shape, n, uint64_t(args.first + seed));
        times.emplace_back();
        const Placement p = place_within(buffers, args.seconds, times.back());
        solved += p.height == shape.height;
        worst = std::max(worst, 100.0 * (double(p.height) / double(shape.height) - 1));
      }
      std::sort(times.begin(), times.end());
      std::printf("%-18s %5d %4d/%-3d %9.3f %9.3f %8.2f %%\n", shape.name, n, solved, args.seeds,
                  times[times.size() / 2], times.back(), worst);
      std::fflush(stdout);
    }
  }
}

void training(const Args& args) {
  std::printf("%-18s %6s %9s %9s %10s\n", "training", "n", "median s", "max s", "worst");
  for (bool chopped : {false, true}) {
    for (int n : {2000, 20'000, 60'000}) {
      std::vector<double> times;
      double worst = 0;
      for (int seed = 0; seed < args.seeds; ++seed) {
        const auto buffers =
            test::training_lifetimes(uint64_t(args.first + seed), n, {.chopped = chopped});
        times.emplace_back();
        const Placement p = place_within(buffers, args.seconds / 2, times.back());
        worst = std::max(worst, 100.0 * (double(p.height) / double(p.lower_bound) - 1));
      }
      std::sort(times.begin(), times.end());
      std::printf("%-18s %6d %9.3f %9.3f %8.3f %%\n", chopped ? "chopped" : "whole", n,
                  times[times.size() / 2], times.back(), worst);
      std::fflush(stdout);
    }
  }
}

int write_csv(const std::string& what) {
  char name[64];
  int n = 0;
  unsigned long long seed = 0;
  if (std::sscanf(what.c_str(), "%63[^,],%d,%llu", name, &n, &seed) != 3) return 2;
  for (const test::PackingShape& shape : test::packing_shapes()) {
    if (std::strcmp(shape.name, name) != 0) continue;
    std::printf("id,lower,upper,size\n");
    int id = 0;
    for (const Buffer& b : test::perfect_packing(shape, n, seed))
      std::printf("%d,%lld,%lld,%lld\n", id++, static_cast<long long>(b.lower),
                  static_cast<long long>(b.upper), static_cast<long long>(b.size));
    return 0;
  }
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  Args args;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : "";
    if (flag.starts_with("--benchmark_list")) return 0;  // Google Benchmark's: nothing to list
    if (flag.starts_with("--benchmark_")) continue;
    if (flag == "--training") {
      args.training = true;
      continue;
    }
    ++i;
    if (flag == "--seeds")
      args.seeds = std::atoi(value);
    else if (flag == "--first")
      args.first = std::atoi(value);
    else if (flag == "--seconds")
      args.seconds = std::atof(value);
    else if (flag == "--n")
      args.n = std::atoi(value);
    else if (flag == "--shape")
      args.shape = value;
    else if (flag == "--csv")
      args.csv = value;
    else
      return std::fprintf(stderr, "place_bench: unknown flag %s\n", flag.c_str()), 2;
  }
  if (!args.csv.empty()) return write_csv(args.csv);
  if (args.training)
    training(args);
  else
    packings(args);
}
