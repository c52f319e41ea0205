// Node times as JSON.
#include "train/run_files/node_times_file.h"

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/error.h"
#include "data/atomic_file.h"
#include "train/config/wording.h"
#include "train/run_files/json_numbers.h"

namespace pal {
namespace {

using nlohmann::json;

double time_in(const json& number) {
  const double ms = number.is_number() ? number.get<double>() : NAN;
  if (!(ms >= 0 && ms < 1e9)) throw UsageError("it holds what is no time");
  return ms;
}

}  // namespace

std::string text_of(const NodeTimes& times, const std::string& device) {
  json out{{"device", device}, {"scale", times.scale}, {"count", times.ms.size()}};
  out["by_op"] = times.by_op;
  out["ms"] = json::object();
  for (const auto& [key, ms] : times.ms) {
    out["ms"][printed("%016llx", static_cast<unsigned long long>(key))] = ms;
  }
  return out.dump() + "\n";
}

NodeTimes parse_node_times(const std::string& text, const std::string& device) {
  const json root = json::parse(text);
  const std::string its = root.at("device");
  if (!device.empty() && its != device)
    throw UsageError("it is of " + one_line(its) + ", this is " + device);
  NodeTimes times;
  times.scale = time_in(root.at("scale"));
  if (times.scale <= 0) throw UsageError("it holds what is no time");
  for (const auto& [op, ratio] : root.at("by_op").items()) times.by_op[op] = time_in(ratio);
  for (const auto& [key, ms] : root.at("ms").items()) {
    times.ms[std::strtoull(key.c_str(), nullptr, 16)] = time_in(ms);
  }
  if (times.ms.empty()) throw UsageError("it holds none");
  if (int64_t(times.ms.size()) != whole_number(root.at("count")))
    throw UsageError("times are missing");
  return times;
}

void save_node_times(const std::filesystem::path& file, const std::string& device,
                     const NodeTimes& times) {
  const std::string text = text_of(times, device);
  AtomicFile whole(file.string());
  whole.write(text.data(), text.size());
  whole.commit();
}

std::optional<NodeTimes> load_node_times(const std::filesystem::path& file,
                                         const std::string& device, std::string* said) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return {};
  std::ostringstream text;
  text << in.rdbuf();
  try {
    return parse_node_times(text.str(), device);
  } catch (const std::exception& fault) {
    *said = file.string() + ": no times that count (" + one_line(fault.what()) +
            "); plans go by predicted ones";
    return {};
  }
}

}  // namespace pal
