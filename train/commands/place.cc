// pal place: offsets for lifetimes from a file, whatever program they come from.
#include "memory/place/place.h"

#include <charconv>
#include <chrono>
#include <cstdio>
#include <fstream>

#include "core/clock.h"
#include "core/error.h"
#include "train/commands/command.h"
#include "train/commands/commands.h"
#include "train/commands/place_csv.h"
#include "train/config/wording.h"

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
  options.effort.nodes = hopeless ? 0 : INT64_MAX;  // what cannot fit is not worth a search
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

namespace {

// The whole of `text` as a number.
template <class T> bool read_number(const std::string& text, T& value) {
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value);
  return read.ec == std::errc() && read.ptr == end;
}

struct PlaceFlags {
  PlaceArgs args;
  std::string capacity, time_limit;

  void declare(Flags& flags) {
    flags.add("FILE", args.file, "id,lower,upper,size; lifetimes half-open",
              {.type = "CSV", .required = true});
    flags.add("--capacity", capacity, "stop at a placement within N bytes", {.type = "N"});
    flags.add("--time-limit", time_limit, "seconds to search for (10)", {.type = "S"});
    flags.add("--out", args.out, "write FILE with an offset column", {.type = "FILE"});
    add_json(flags, args.json);
  }
  Request read() {
    int64_t bytes = 0;
    if (!capacity.empty()) {
      if (!read_number(capacity, bytes) || bytes < 0) {
        throw UsageError("--capacity: '" + one_line(capacity) + "' is not a number of bytes");
      }
      args.capacity = bytes;
    }
    // A year is as good as any limit, and fits a clock.
    if (!time_limit.empty() && (!read_number(time_limit, args.time_limit) ||
                                !(args.time_limit >= 0 && args.time_limit <= 31'536'000))) {
      throw UsageError("--time-limit: '" + one_line(time_limit) +
                       "' is not a number of seconds, 0 to 31536000");
    }
    return request<run_place>(args);
  }
};

}  // namespace

Command place_command() {
  return command<PlaceFlags>("place", "place lifetimes from a file in least memory");
}

}  // namespace pal
