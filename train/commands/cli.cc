// The list of commands, and the command line by CLI11.
#include "train/commands/cli.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <new>
#include <optional>

#include "core/accelerator.h"
#include "core/error.h"
#include "core/ranks/launch.h"
#include "core/version.h"
#include "train/commands/commands.h"
#include "train/config/wording.h"

namespace pal {

// The commands, in the order of the help: a row each. The file score.cc defines score_command().
#define PAL_COMMANDS(row)                                                                       \
  row(train) row(corun) row(plan) row(bench) row(reproduce) row(place) row(translate) row(eval) \
      row(classify) row(transcribe) row(average) row(score) row(config_reference)

#define PAL_DECLARE(name) Command name##_command();
PAL_COMMANDS(PAL_DECLARE)

namespace {

namespace fs = std::filesystem;

#define PAL_POINTER(name) name##_command,
constexpr Command (*kCommands[])() = {PAL_COMMANDS(PAL_POINTER)};

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

// CLI11 would answer an unknown command or flag without saying what was near.
void check_words(CLI::App& app, const std::vector<std::string>& args) {
  if (args.empty() || args[0].empty() || args[0][0] == '-') return;
  std::vector<std::string> names = command_names(app);
  if (std::find(names.begin(), names.end(), args[0]) == names.end()) {
    throw UsageError("'" + one_line(args[0]) + "' is not a command of this version" +
                     did_you_mean(nearest(args[0], names)) + " (there are: " + comma_list(names) +
                     ")");
  }
  CLI::App* command = app.get_subcommand(args[0]);
  std::vector<std::string> flags{"--help"};
  for (const CLI::Option* option : command->get_options()) flags.push_back(option->get_name());
  for (size_t i = 1; i < args.size(); ++i) {
    std::string flag = args[i].substr(0, args[i].find('='));
    if (flag.rfind("--", 0) != 0 || std::count(flags.begin(), flags.end(), flag)) continue;
    throw UsageError(args[0] + ": there is no " + one_line(flag) +
                     did_you_mean(nearest(flag, flags)) + " (pal " + args[0] +
                     " --help lists the flags)");
  }
}

}  // namespace

int print(const std::string& text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (!written || std::fflush(stdout) != 0 || std::ferror(stdout)) {
    throw Error(kExitFailed,
                std::string("standard output: cannot be written: ") + std::strerror(errno));
  }
  return kExitDone;
}

int run_print(const PrintText& args) { return print(args.text); }

Failure failure_at_hand() {
  try {
    throw;
  } catch (const DeviceError& e) {
    return {e.exit_code, e.what(), true};
  } catch (const Error& e) {
    return {e.exit_code, e.what()};
  } catch (const std::bad_alloc&) {
    return {kExitFailed, "out of memory"};
  } catch (const fs::filesystem_error& e) {
    const std::error_condition why = e.code().default_error_condition();
    const bool given = why == std::errc::permission_denied || why == std::errc::not_a_directory ||
                       why == std::errc::no_such_file_or_directory;
    return {given ? kExitUsage : kExitFailed, e.path1().string() + ": " + e.code().message()};
  } catch (const std::exception& e) {
    return {kExitFailed, e.what()};
  }
}

Request parse_command_line(const std::string& program, const std::vector<std::string>& given) {
  std::vector<std::string> args = given;
  if (fs::path(program).filename() == "train") args.insert(args.begin(), "train");
  auto show = [](const std::string& text) { return request<run_print>(PrintText{text}); };
  CLI::App app("Palimpsest trains deep networks in planned memory.", "pal");
  app.require_subcommand(0, 1);
  app.set_version_flag("--version", std::string("pal ") + kVersion);
  std::map<const CLI::App*, std::function<Request()>> read;
  for (const auto& make : kCommands) {
    const Command command = make();
    CLI::App* sub = app.add_subcommand(command.name, command.help);
    Flags flags(*sub);
    read[sub] = command.declare(flags);
  }
  app.add_subcommand("help", "print this");
  if (args.empty() || args[0] == "help") return show(app.help());
  check_words(app, args);
  try {
    app.parse(std::vector<std::string>(args.rbegin(), args.rend()));
  } catch (const CLI::CallForHelp&) {
    auto used = app.get_subcommands();
    return show(used.empty() ? app.help() : used[0]->help("pal"));
  } catch (const CLI::CallForVersion& e) {
    return show(std::string(e.what()) + "\n");
  } catch (const CLI::ParseError& e) {
    std::string command = args[0][0] == '-' ? "" : args[0];
    throw UsageError((command.empty() ? "" : command + ": ") + one_line(e.what()) + " (see pal " +
                     (command.empty() ? "" : command + " ") + "--help)");
  }
  auto used = app.get_subcommands();
  if (used.empty()) return show(app.help());
  const std::optional<Launch> launch = launch_at_hand();
  if (launch && launch->ranks > 1 && used[0]->get_name() != "train" &&
      used[0]->get_name() != "bench") {
    throw UsageError(used[0]->get_name() + ": " + launch->by + " says that this is one of " +
                     std::to_string(launch->ranks) +
                     " processes, and only train and bench --link have ranks");
  }
  return read.at(used[0])();
}

}  // namespace pal
