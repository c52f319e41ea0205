// A training run as the command line asks for it.
#pragma once
#include <filesystem>
#include <memory>
#include <string>

#include "core/ranks/group.h"
#include "train/config/config.h"

namespace pal {

struct TrainArgs {
  Config config;              // read, overridden by --set, --steps and --device, and checked
  std::string name;           // the configuration's name: nmt_small
  std::filesystem::path out;  // the run's folder; runs/NAME unless told
  bool resume = false;
  bool dry_run = false;  // plan, print, and train nothing
  bool json = false;
  std::shared_ptr<Group> group = nullptr;  // the ranks that train together; null: it is alone
};

}  // namespace pal
