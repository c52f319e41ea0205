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

}  // namespace

int run_reproduce(const ReproduceArgs& args) {
  const std::vector<Reproduction> list = reproductions();
  if (args.list) {
    for (const Reproduction& each : list) std::printf("%-12s %s\n", each.name, each.what);
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
  const DeviceProfile device = load_profile(args.profile.empty() ? kDefaultProfile : args.profile);
  const std::vector<ReproducedTable> tables = found->make(device);
  if (args.json) {
    nlohmann::ordered_json json{{"name", found->name},
                                {"what", found->what},
                                {"profile", device.name},
                                {"tables", nlohmann::json::array()}};
    for (const ReproducedTable& table : tables) json["tables"].push_back(as_json(table));
    std::puts(json.dump().c_str());
    return kExitDone;
  }
  std::printf("%s\nOurs: bytes planned, times predicted for %s. Theirs: from the paper.\n",
              found->what, device.name.c_str());
  for (const ReproducedTable& table : tables) print(table);
  return kExitDone;
}

namespace {

struct ReproduceFlags {
  ReproduceArgs args;

  void declare(Flags& flags) {
    flags.add("NAME", args.name, "echo-fig15, ...", {.type = "NAME"});
    flags.add("--list", args.list, "the names there are", {.excludes = "NAME"});
    flags.add("--profile", args.profile, "device that times are predicted for", {.type = "NAME"});
    add_json(flags, args.json);
  }
  Request read() const {
    if (args.name.empty() && !args.list) {
      throw UsageError("reproduce: which one? pal reproduce --list names them all");
    }
    return request<run_reproduce>(args);
  }
};

}  // namespace

Command reproduce_command() {
  return command<ReproduceFlags>("reproduce", "a paper's table or figure, ours beside theirs");
}

}  // namespace pal
