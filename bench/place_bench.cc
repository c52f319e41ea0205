// Placement on problems with seeds: perfect packings, of which the share that is solved to the
// optimum and how long that takes, and lifetimes as training has them, of which how far above the
// bound.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "bench/run_bench.h"
#include "core/clock.h"
#include "memory/place/place.h"
#include "tests/support/lifetimes.h"
#include "tests/support/perfect_packing.h"

namespace {

using namespace pal;

struct Args {
  int seeds = 5, first = 0, n = 0;
  double seconds = 10;
  std::string shape;
};

Placement place_within(const std::vector<Buffer>& buffers, double limit, double& seconds) {
  const auto start = Clock::now();
  PlaceOptions options;
  options.deadline =
      start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(limit));
  Placement p = place(buffers, options);
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

int run(int argc, char** argv) {
  CLI::App app("Placement on problems with seeds.");
  Args args;
  bool lifetimes = false;
  std::string csv;
  app.add_option("--seeds", args.seeds, "problems of each kind");
  app.add_option("--first", args.first, "the first seed");
  app.add_option("--seconds", args.seconds, "limit of a placement");
  app.add_option("--n", args.n, "buffers of a packing; 0: 150 to 450");
  app.add_option("--shape", args.shape, "one kind of packing");
  app.add_flag("--training", lifetimes, "lifetimes as training has them, instead of packings");
  app.add_option("--csv", csv, "SHAPE,N,SEED: print that packing as a file for pal place");
  CLI11_PARSE(app, argc, argv);
  if (!csv.empty()) return write_csv(csv);
  lifetimes ? training(args) : packings(args);
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return pal::run_bench("place_bench", run, argc, argv); }
