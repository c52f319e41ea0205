// States as JSON.
#include "train/loop/trainer_state.h"

#include <exception>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "train/run_files/json_numbers.h"

namespace pal {
namespace {

// No run counts so far; what is added to such numbers still fits.
constexpr int64_t kMost = int64_t{1} << 53;

}  // namespace

std::string TrainerState::to_json() const {
  nlohmann::json json{{"step", step},
                      {"epoch", epoch},
                      {"position", position},
                      {"best", best},
                      {"has_best", has_best},
                      {"stale", plateau.stale},
                      {"waited", plateau.waited},
                      {"decays", plateau.decays}};
  if (!rounded.empty()) json["rounded"] = rounded;
  if (valid_due) json["valid_due"] = true;
  return json.dump();
}

TrainerState TrainerState::from_json(const std::string& text, const std::string& file) {
  try {
    const auto json = nlohmann::json::parse(text);
    return {.step = whole_number(json.at("step"), 0, kMost),
            .epoch = number_from_0(json.at("epoch")),
            .position = json.at("position"),
            .best = json.at("best"),
            .has_best = json.at("has_best"),
            .plateau = {.stale = whole_number(json.at("stale"), 0, kMost),
                        .waited = whole_number(json.at("waited"), 0, kMost),
                        .decays = whole_number(json.at("decays"), 0, kMost)},
            .rounded = json.value("rounded", std::map<std::string, std::string>()),
            .valid_due = json.value("valid_due", false)};
  } catch (const std::exception&) {
    throw UsageError(file + ": the trainer's state in it cannot be read; start the run anew");
  }
}

}  // namespace pal
