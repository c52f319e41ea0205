// What a command is: a name, a line of help, its flags, and what it does with them. A new command
// is a file that defines such a function as `Command score_command()`, and its row in cli.cc.
#pragma once
#include <any>
#include <functional>
#include <memory>
#include <utility>

#include "train/commands/flags.h"

namespace pal {

// What a command line asks for: the arguments of a command (TrainArgs, ...) and its function.
struct Request {
  std::any args;
  int (*act)(const std::any& args);
  bool many_teams = false;  // of OpenMP's threads: several threads start some each

  // Returns the exit code, or throws pal::Error.
  int run() const { return act(args); }
};
template <auto run, class Args> Request request(Args args) {
  return {std::move(args), [](const std::any& a) { return run(*std::any_cast<Args>(&a)); }};
}

struct Command {
  const char* name;
  const char* help;  // one line
  // Declares the flags. What it returns is called when they are read; it throws UsageError when a
  // value will not do.
  std::function<Request()> (*declare)(Flags& flags);
};

// The command whose flags fill a Given: Given::declare(Flags&) declares them, Given::read() makes
// the request of what was given.
template <class Given> Command command(const char* name, const char* help) {
  return {name, help, [](Flags& flags) -> std::function<Request()> {
            auto given = std::make_shared<Given>();
            given->declare(flags);
            return [given] { return given->read(); };
          }};
}

}  // namespace pal
