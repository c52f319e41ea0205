// What a plan says of its encodings: bytes by form, each map's form or the reason why it has none,
// and what no encoding goes below. As lines, as JSON, and as a table of the plan's page.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "memory/compile.h"
#include "train/report/plan_facts.h"

namespace pal {

// Each is empty where no encoding was asked for.
std::vector<std::string> encoding_lines(const Compiled& step, const PlanFacts& facts = {});
nlohmann::ordered_json encoding_json(const Compiled& step, const PlanFacts& facts = {});
std::string encoding_html(const Compiled& step, const PlanFacts& facts = {});

}  // namespace pal
