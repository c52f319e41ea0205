// pal place: offsets for lifetimes from a file, whatever program they come from.
#include "memory/place/place.h"

#include <chrono>
#include <cstdio>
#include <fstream>

#include "core/clock.h"
#include "core/error.h"
#include "train/commands/commands.h"
#include "train/commands/place_csv.h"

namespace pal {
namespace {

void write_file(const std::filesystem::path& file, const std::string& text) {
  std::ofstream out(file, std::ios::binary);
  out << text;
  out.close();
  if (!out) throw ProgramError(file.string() + ": cannot be written; is there such a folder?");
}

}  // namespace

int run_place(const PlaceArgs& args) {
  const auto opened = Clock::now();
  const PlaceTable table = read_place_csv(args.file);
  const auto start = Clock::now();  // the limit is for what follows
  PlaceOptions options;
  options.enough = args.capacity.value_or(0);
  const int64_t bound = lower_bound_of(table.buffers);
  const auto check = 4 * (Clock::now() - start);  // about what the check will take
  const bool hopeless = args.capacity && *args.capacity < bound;
  options.nodes = hopeless ? 0 : INT64_MAX;  // what cannot fit is not worth a search
  options.deadline =
      start +
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(args.time_limit)) -
      check;
  const Placement p = place(table.buffers, options);
  check_placement(table.buffers, p.offset);
  const double seconds = std::chrono::duration<double>(Clock::now() - opened).count();
  const double used = std::chrono::duration<double>(Clock::now() - start).count();
  if (!args.out.empty()) write_file(args.out, place_csv(table, p.offset));

  const auto height = static_cast<long long>(p.height), lower = static_cast<long long>(bound);
  if (args.json) {
    std::printf(
        "{\"buffers\":%zu,\"lower_bound\":%lld,\"height\":%lld,\"optimal\":%s,"
        "\"seconds\":%.6f}\n",
        table.buffers.size(), lower, height, p.optimal() ? "true" : "false", seconds);
  } else {
    const double above = bound > 0 ? 100.0 * (double(p.height) / double(bound) - 1) : 0;
    std::printf("%zu buffers in %lld bytes; no placement is below %lld (%s%.3f %%); %.3f s\n",
                table.buffers.size(), height, lower, p.optimal() ? "optimal, " : "above by ", above,
                seconds);
  }
  std::fflush(stdout);
  if (used > args.time_limit && p.height > std::max(bound, args.capacity.value_or(0))) {
    std::fprintf(
        stderr,
        "pal place: --time-limit %g was not enough to search: to place %zu buffers once and "
        "to check them took %.2f s, after %.2f s of reading\n",
        args.time_limit, table.buffers.size(), used, seconds - used);
  }
  if (args.capacity && p.height > *args.capacity) {
    const std::string why =
        hopeless ? std::to_string(bound) + " bytes are alive at once"
        : p.proven > *args.capacity
            ? "a search shows that no placement is below " + std::to_string(p.proven)
            : "not found; the best placement takes " + std::to_string(p.height) +
                  ", and a longer --time-limit may find a lower one";
    throw BudgetError(args.file.string() + ": does not fit --capacity " +
                      std::to_string(*args.capacity) + ": " + why);
  }
  return kExitDone;
}

}  // namespace pal
