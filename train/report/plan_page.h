// `pal plan --html`: where a step's memory goes, on one page. Self-contained: no script, nothing
// from a network.
#pragma once
#include <filesystem>
#include <string>

#include "memory/compile.h"
#include "train/report/plan_facts.h"

namespace pal {

struct PlanPage {
  std::string name;    // of the configuration
  std::string what;    // "bucket 100,100, batch 128"
  std::string config;  // YAML, resolved
};

std::string plan_html(const Compiled& compiled, const PlanPage& page, const PlanFacts& facts = {});

// Replaces the file as a whole. Error with kExitFailed when it cannot be written.
void save_plan_page(const std::filesystem::path& file, const Compiled& compiled,
                    const PlanPage& page, const PlanFacts& facts = {});

}  // namespace pal
