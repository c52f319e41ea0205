// Fronts as JSON.
#include "train/loop/front_text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/error.h"
#include "train/run_files/json_numbers.h"

namespace pal {
namespace {

using nlohmann::json;

json numbers_of(const std::vector<ValueId>& values) {
  json out = json::array();
  for (const ValueId v : values) out.push_back(int32_t(v));
  return out;
}

ValueId value_in(const json& number) {
  return ValueId(int32_t(whole_number(number, 0, INT32_MAX)));
}

std::vector<ValueId> values_in(const json& numbers) {
  std::vector<ValueId> out;
  for (const json& number : numbers) out.push_back(value_in(number));
  return out;
}

template <class Enum> Enum member_in(const json& number, Enum last) {
  return Enum(whole_number(number, 0, int64_t(last)));
}

// What logs and pages show.
std::string words_in(const json& text) {
  std::string words = text.get<std::string>();
  if (std::any_of(words.begin(), words.end(), [](unsigned char c) { return std::iscntrl(c); })) {
    throw UsageError("a name with control characters");
  }
  return words;
}

json options_json(const CompileOptions& o) {
  const RecomputeOptions& r = o.recompute_options;
  json out{{"recompute", int(o.recompute)},
           {"heavy", r.heavy},
           {"heavier", r.heavier},
           {"exchange", r.exchange},
           {"overhead", r.overhead},
           {"bits", r.bits},
           {"scopes", r.scopes},
           {"binarize", o.encode.binarize},
           {"dropout_bits", o.encode.dropout_bits},
           {"swap", int(o.swap.method)},
           {"vdnn", int(o.swap.vdnn)},
           {"place_rounds", o.place_effort.rounds},
           {"place_nodes", o.place_effort.nodes},
           {"place_slack", o.place_effort.slack},
           {"place_bytes_a_node", o.place_effort.bytes_a_node},
           {"must_fit", o.must_fit}};
  out["chosen"] = numbers_of(r.chosen);
  json reruns = json::array();
  for (const Rerun& each : r.reruns) {
    reruns.push_back({int32_t(each.makes), int32_t(each.before)});
  }
  out["reruns"] = std::move(reruns);
  if (o.swap.chosen) out["away"] = numbers_of(*o.swap.chosen);
  if (o.encode.dpr) out["dpr"] = int(*o.encode.dpr);
  if (o.budget) out["budget"] = *o.budget;
  return out;
}

CompileOptions options_in(const json& j, const CompileOptions& given, const FrontChoices& choices) {
  CompileOptions o = given;
  RecomputeOptions& r = o.recompute_options;
  o.recompute = member_in(j.at("recompute"), Recompute::reruns);
  r.heavy = number_from_0(j.at("heavy")), r.heavier = number_from_0(j.at("heavier"));
  r.exchange = number_from_0(j.at("exchange")), r.overhead = number_from_0(j.at("overhead"));
  r.bits = j.at("bits");
  r.scopes = j.at("scopes").get<std::vector<std::string>>();
  o.encode = {};
  o.encode.binarize = j.at("binarize"), o.encode.dropout_bits = j.at("dropout_bits");
  if (j.contains("dpr")) {
    if (!choices.lossy) throw UsageError("it rounds maps, which was not asked for");
    o.encode.dpr = member_in(j.at("dpr"), kDprFormats.back());
  }
  o.swap = {.method = member_in(j.at("swap"), Swap::planned),
            .vdnn = member_in(j.at("vdnn"), VdnnInputs::all)};
  if (j.contains("away")) o.swap.chosen = values_in(j.at("away"));
  r.chosen = values_in(j.at("chosen"));
  r.reruns.clear();
  for (const json& each : j.at("reruns")) {
    r.reruns.push_back({value_in(each.at(0)), value_in(each.at(1))});
  }
  const int most_rounds = std::max(PlaceEffort{}.rounds, given.place_effort.rounds);
  const int64_t most_nodes = std::max(PlaceEffort{}.nodes, given.place_effort.nodes);
  o.place_effort = {.rounds = int(whole_number(j.at("place_rounds"), 0, most_rounds)),
                    .nodes = whole_number(j.at("place_nodes"), 0, most_nodes),
                    .slack = number_from_0(j.at("place_slack")),
                    .bytes_a_node = whole_number(j.at("place_bytes_a_node"))};
  o.must_fit = j.at("must_fit");
  o.budget.reset();
  if (j.contains("budget")) o.budget = whole_number(j.at("budget"));
  return o;
}

FrontPoint point_in(const json& p, const CompileOptions& given, const FrontChoices& choices) {
  return {.options = options_in(p.at("options"), given, choices),
          .from = words_in(p.at("from")),
          .bytes = whole_number(p.at("bytes")),
          .step_ms = number_from_0(p.at("step_ms")),
          .bound_ms = number_from_0(p.at("bound_ms")),
          .kept = whole_number(p.at("kept")),
          .recomputed = whole_number(p.at("recomputed")),
          .encoded = whole_number(p.at("encoded")),
          .offloaded = whole_number(p.at("offloaded")),
          .host = whole_number(p.at("host"))};
}

// In the order that Front has them.
bool is_before(const FrontPoint& a, const FrontPoint& b) {
  return a.bytes <= b.bytes && a.step_ms >= b.step_ms;
}

}  // namespace

std::string text_of(const Front& front) {
  json out{{"plain_ms", front.plain_ms},
           {"floor", {{"bytes", front.floor.bytes}, {"node", front.floor.node}}},
           {"alone", json::array()},
           {"points", json::array()}};
  for (const FrontAlone& a : front.alone) out["alone"].push_back({a.from, a.bytes, a.step_ms});
  for (const FrontPoint& p : front.points) {
    out["points"].push_back({{"options", options_json(p.options)},
                             {"from", p.from},
                             {"bytes", p.bytes},
                             {"step_ms", p.step_ms},
                             {"bound_ms", p.bound_ms},
                             {"kept", p.kept},
                             {"recomputed", p.recomputed},
                             {"encoded", p.encoded},
                             {"offloaded", p.offloaded},
                             {"host", p.host}});
  }
  return out.dump() + "\n";
}

Front parse_front(const std::string& text, const CompileOptions& given,
                  const FrontChoices& choices) {
  const json j = json::parse(text);
  const json& floor = j.at("floor");
  Front front{.floor = {whole_number(floor.at("bytes")), words_in(floor.at("node"))},
              .plain_ms = number_from_0(j.at("plain_ms"))};
  for (const json& a : j.at("alone")) {
    front.alone.push_back({words_in(a.at(0)), whole_number(a.at(1)), number_from_0(a.at(2))});
  }
  for (const json& p : j.at("points")) front.points.push_back(point_in(p, given, choices));
  if (front.points.empty()) throw UsageError("it holds no plan");
  const auto unordered =
      std::adjacent_find(front.points.begin(), front.points.end(),
                         [](const FrontPoint& a, const FrontPoint& b) { return !is_before(a, b); });
  if (unordered != front.points.end()) throw UsageError("its plans are not in their order");
  return front;
}

}  // namespace pal
