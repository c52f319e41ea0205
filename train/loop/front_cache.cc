// Keys, and fronts as JSON.
#include "train/loop/front_cache.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "core/accelerator.h"
#include "core/error.h"
#include "core/op.h"
#include "data/atomic_file.h"
#include "memory/price/node_times.h"
#include "train/config/profile.h"
#include "train/config/wording.h"
#include "train/loop/program_fingerprint.h"
#include "train/run_files/cache_folder.h"
#include "train/run_files/fingerprint.h"
#include "train/run_files/log.h"

namespace pal {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// To be raised where make_front() gives other points, or their options mean other plans.
constexpr int64_t kPlannerVersion = 20;
// What is being written is done by then.
constexpr std::chrono::hours kLeftBehind{24};

void take_options(Fingerprint& f, const CompileOptions& o) {
  for (const bool on : {o.inplace, o.windows, o.fuse_recompute, o.fuse_epilogues, o.fuse_updates,
                        o.late_updates, o.layouts, o.profile && o.profile->elsewhere}) {
    f.take(on);
  }
  f.take(int64_t(o.schedule)), f.take(int64_t(o.swap.vdnn));
  f.take(o.host_budget.value_or(-1));
  if (!o.profile) return;
  f.take(profile_text(*o.profile, {}));
  if (!o.profile->times) return;
  f.take(std::bit_cast<int64_t>(o.profile->times->scale));
  for (const auto& [op, ratio] : o.profile->times->by_op) {
    f.take(op), f.take(std::bit_cast<int64_t>(ratio));
  }
  for (const auto& [key, ms] : o.profile->times->ms) {
    f.take(int64_t(key)), f.take(std::bit_cast<int64_t>(ms));
  }
}

json numbers_of(const std::vector<ValueId>& values) {
  json out = json::array();
  for (const ValueId v : values) out.push_back(int32_t(v));
  return out;
}

std::vector<ValueId> values_in(const json& numbers) {
  std::vector<ValueId> out;
  for (const json& number : numbers) out.push_back(ValueId(number.get<int32_t>()));
  return out;
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

CompileOptions options_of(const json& j, const CompileOptions& given) {
  CompileOptions o = given;
  RecomputeOptions& r = o.recompute_options;
  o.recompute = Recompute(j.at("recompute").get<int>());
  r.heavy = j.at("heavy"), r.heavier = j.at("heavier"), r.exchange = j.at("exchange");
  r.overhead = j.at("overhead"), r.bits = j.at("bits");
  r.scopes = j.at("scopes").get<std::vector<std::string>>();
  o.encode = {};
  o.encode.binarize = j.at("binarize"), o.encode.dropout_bits = j.at("dropout_bits");
  if (j.contains("dpr")) o.encode.dpr = Dpr(j.at("dpr").get<int>());
  o.swap = {.method = Swap(j.at("swap").get<int>()), .vdnn = VdnnInputs(j.at("vdnn").get<int>())};
  if (j.contains("away")) o.swap.chosen = values_in(j.at("away"));
  r.chosen = values_in(j.at("chosen"));
  r.reruns.clear();
  for (const json& each : j.at("reruns")) {
    r.reruns.push_back({ValueId(each.at(0).get<int32_t>()), ValueId(each.at(1).get<int32_t>())});
  }
  o.place_effort = {.nodes = j.at("place_nodes"),
                    .slack = j.at("place_slack"),
                    .bytes_a_node = j.at("place_bytes_a_node")};
  o.must_fit = j.at("must_fit");
  o.budget.reset();
  if (j.contains("budget")) o.budget = j.at("budget").get<int64_t>();
  return o;
}

json front_json(const Front& front) {
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
  return out;
}

Front front_of(const json& j, const CompileOptions& options) {
  Front front{.floor = {j.at("floor").at("bytes"), j.at("floor").at("node")},
              .plain_ms = j.at("plain_ms")};
  for (const json& a : j.at("alone")) {
    front.alone.push_back({a.at(0).get<std::string>(), a.at(1).get<int64_t>(), a.at(2)});
  }
  for (const json& p : j.at("points")) {
    front.points.push_back({.options = options_of(p.at("options"), options),
                            .from = p.at("from"),
                            .bytes = p.at("bytes"),
                            .step_ms = p.at("step_ms"),
                            .bound_ms = p.at("bound_ms"),
                            .kept = p.at("kept"),
                            .recomputed = p.at("recomputed"),
                            .encoded = p.at("encoded"),
                            .offloaded = p.at("offloaded"),
                            .host = p.at("host")});
  }
  return front;
}

// "palimpsest front KEY SUM", and the front behind it.
std::string head_of(uint64_t key, const std::string& body) {
  Fingerprint sum;
  sum.take(body);
  return printed("palimpsest front %016llx %016llx\n", static_cast<unsigned long long>(key),
                 static_cast<unsigned long long>(sum.value()));
}

}  // namespace

uint64_t front_key(const Program& recorded, const StateLayout& layout,
                   const CompileOptions& options, const Device& device,
                   const FrontChoices& choices) {
  Fingerprint f;
  f.take(kPlannerVersion);
  take_program(f, recorded);
  for (const Space space : {Space::device, Space::host}) {
    f.take(layout.bytes(space)), f.take(layout.inputs(space));
  }
  take_options(f, options);
  f.take(choices.lossy);
  f.take(int64_t(device.kind)), f.take(device.threads);
  f.take(int64_t(device.algorithms != nullptr) * 4 + int64_t(device.tf32) * 2 +
         int64_t(device.cudnn));
  if (device.accelerator) f.take(device.accelerator->description());
  return f.value();
}

fs::path FrontCache::usual_folder() {
  const fs::path cache = cache_folder();
  return cache.empty() ? cache : cache / "fronts";
}

fs::path FrontCache::file_of(uint64_t key) const {
  return folder_ / printed("%016llx.json", static_cast<unsigned long long>(key));
}

std::optional<Front> FrontCache::find(uint64_t key, const CompileOptions& options) const {
  if (folder_.empty()) return {};
  const fs::path file = file_of(key);
  std::ifstream in(file, std::ios::binary);
  if (!in) return {};
  std::ostringstream text;
  text << in.rdbuf();
  const std::string all = text.str();
  const size_t line = all.find('\n');
  const std::string body = line == std::string::npos ? "" : all.substr(line + 1);
  try {
    if (all != head_of(key, body) + body) throw UsageError("its sum is not that of its text");
    Front front = front_of(json::parse(body), options);
    if (front.points.empty()) throw UsageError("it holds no plan");
    std::error_code ignored;
    fs::last_write_time(file, fs::file_time_type::clock::now(), ignored);
    return front;
  } catch (const std::exception& fault) {
    log_info(file.string() + ": is no front that was kept whole (" + one_line(fault.what()) +
             "); it is made anew");
    return {};
  }
}

void FrontCache::keep(uint64_t key, const Front& front) const {
  if (folder_.empty()) return;
  try {
    fs::create_directories(folder_);
    const std::string body = front_json(front).dump() + "\n", head = head_of(key, body);
    // Two processes may make the same front: each writes a file of its own.
    const fs::path own = file_of(key).replace_extension(std::to_string(::getpid()));
    AtomicFile file(own.string());
    file.write(head.data(), head.size());
    file.write(body.data(), body.size());
    file.commit();
    fs::rename(own, file_of(key));
    make_room();
  } catch (const std::exception& fault) {
    log_info("the front is not kept for the next time: " + one_line(fault.what()));
  }
}

void FrontCache::make_room() const {
  std::vector<std::pair<fs::file_time_type, fs::path>> files;
  std::error_code gone;  // another process may remove them too
  const auto now = fs::file_time_type::clock::now();
  for (const auto& entry : fs::directory_iterator(folder_, gone)) {
    const fs::file_time_type used = entry.last_write_time(gone);
    if (gone) continue;
    // What is not whole is some writer's, or was left by one that was killed.
    const bool whole = entry.path().extension() == ".json";
    if (whole || now - used > kLeftBehind) files.emplace_back(used, entry.path());
  }
  if (files.size() <= most_files_) return;
  std::sort(files.begin(), files.end());
  for (size_t i = 0; i + most_files_ < files.size(); ++i) fs::remove(files[i].second, gone);
}

}  // namespace pal
