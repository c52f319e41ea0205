// pal reproduce: a paper's tables and figures, as text or as JSON.
#include "train/papers/reproduce.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "train/commands/command.h"
#include "train/commands/commands.h"
#include "train/config/profile.h"
#include "train/config/wording.h"

namespace pal {
namespace {

// Characters as a terminal counts them: bytes that do not continue one.
size_t width_of(const std::string& text) {
  return size_t(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

void print(const ReproducedTable& table) {
  std::vector<size_t> widths(table.columns.size());
  auto widen = [&](const std::vector<std::string>& row) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  };
  widen(table.columns);
  for (const auto& row : table.rows) widen(row);
  auto line = [&](const std::vector<std::string>& row) {
    std::string text = " ";
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string pad(widths[i] - width_of(row[i]), ' ');
      text += i == 0 ? " " + row[i] + pad : "  " + pad + row[i];
    }
    while (!text.empty() && text.back() == ' ') text.pop_back();
    std::puts(text.c_str());
  };
  std::printf("\n%s\n", table.title.c_str());
  line(table.columns);
  for (const auto& row : table.rows) line(row);
  for (const std::string& note : table.notes) std::printf("  %s\n", note.c_str());
}

nlohmann::ordered_json as_json(const ReproducedTable& table) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const auto& row : table.rows) {
    nlohmann::ordered_json object;
    for (size_t i = 0; i < row.size(); ++i) object[i == 0 ? "row" : table.columns[i]] = row[i];
    rows.push_back(object);
  }
  return {{"title", table.title}, {"rows", rows}, {"notes", table.notes}};
}

// Settings that were given, by the names that Reproduction::takes has.
void check_settings(const Reproduction& r, const MeasureSettings& given) {
  const std::pair<const char*, bool> flags[] = {{"batch", given.batch.has_value()},
                                                {"steps", given.steps.has_value()},
                                                {"seeds", given.seeds.has_value()},
                                                {"config", !given.config.empty()},
                                                {"set", !given.sets.empty()}};
  for (const auto& [flag, is_given] : flags) {
    if (!is_given || (" " + std::string(r.takes) + " ").find(" " + std::string(flag) + " ") !=
                         std::string::npos) {
      continue;
    }
    throw UsageError("reproduce " + std::string(r.name) + ": takes no --" + flag +
                     (*r.takes ? "; of these flags it takes " + std::string(r.takes)
                               : "; it is predicted, nothing is run"));
  }
}

void check_densities(const Reproduction& r, const MeasureSettings& given) {
  if (given.densities.empty() || r.by_density) return;
  throw UsageError("reproduce " + std::string(r.name) +
                   ": takes no --density; nothing in it depends on one");
}

DeviceProfile profile_for(const Reproduction& r, const std::string& asked) {
  if (!asked.empty()) return load_profile(asked);
  if (r.profile) return load_profile(r.profile);
  return r.measure ? default_profile() : load_profile(kDefaultProfile);
}

}  // namespace

int run_reproduce(const ReproduceArgs& args) {
  const std::vector<Reproduction> list = reproductions();
  if (args.list) {
    for (const Reproduction& each : list) std::printf("%-14s %s\n", each.name, each.what);
    return kExitDone;
  }
  const auto found = std::find_if(list.begin(), list.end(),
                                  [&](const Reproduction& r) { return args.name == r.name; });
  if (found == list.end()) {
    std::vector<std::string> names;
    for (const Reproduction& each : list) names.emplace_back(each.name);
    const std::string near = nearest(args.name, names);
    throw UsageError("reproduce: there is no '" + args.name + "'" +
                     (near.empty() ? "" : "; did you mean " + near + "?") +
                     " (pal reproduce --list names them all)");
  }
  check_settings(*found, args.measure);
  check_densities(*found, args.measure);
  const DeviceProfile device = profile_for(*found, args.profile);
  const std::vector<ReproducedTable> tables =
      found->measure                   ? found->measure(device, args.measure)
      : args.measure.densities.empty() ? found->make(device)
                                       : found->by_density(device, args.measure.densities);
  if (args.json) {
    nlohmann::ordered_json json{{"name", found->name},
                                {"what", found->what},
                                {"profile", device.name},
                                {"tables", nlohmann::json::array()}};
    for (const ReproducedTable& table : tables) json["tables"].push_back(as_json(table));
    std::puts(json.dump().c_str());
    return kExitDone;
  }
  std::printf("%s\nOurs: %s %s. Theirs: from the paper.\n", found->what,
              found->measure ? "measured on this machine; what is predicted, for"
                             : "bytes planned, times predicted for",
              device.name.c_str());
  for (const ReproducedTable& table : tables) print(table);
  return kExitDone;
}

namespace {

struct ReproduceFlags {
  ReproduceArgs args;
  ConfigFlags config;

  void declare(Flags& flags) {
    flags.add("NAME", args.name, "echo-fig15, ...", {.type = "NAME"});
    flags.add("--list", args.list, "the names there are", {.excludes = "NAME"});
    flags.add("--profile", args.profile, "device that times are predicted for", {.type = "NAME"});
    flags.add("--batch", args.measure.batch, "of what is measured: samples a step", {.type = "N"});
    flags.add("--steps", args.measure.steps, "of what is measured: steps that are run",
              {.type = "N"});
    flags.add("--seeds", args.measure.seeds, "of what is trained: runs from other weights",
              {.type = "N"});
    flags.add("--density", args.measure.densities,
              "nonzero part of the maps that sparse encodings store: a number, or the folder of a "
              "run that logged them, whose network alone the table then has (repeatable)",
              {.type = "D", .repeatable = true});
    config.add(flags);
    add_json(flags, args.json);
  }
  Request read() {
    if (args.name.empty() && !args.list) {
      throw UsageError("reproduce: which one? pal reproduce --list names them all");
    }
    const MeasureSettings& m = args.measure;
    if (m.batch) check_range("--batch", *m.batch, 1, 100'000);
    if (m.steps) check_range("--steps", *m.steps, 1, 100'000'000);
    if (m.seeds) check_range("--seeds", *m.seeds, 1, 1000);
    args.measure.config = config.config, args.measure.sets = config.set;
    return request<run_reproduce>(args);
  }
};

}  // namespace

Command reproduce_command() {
  return command<ReproduceFlags>("reproduce", "a paper's table or figure, ours beside theirs");
}

}  // namespace pal
