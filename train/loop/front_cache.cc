// Keys, and the files.
#include "train/loop/front_cache.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <fstream>
#include <sstream>
#include <vector>

#include "core/accelerator.h"
#include "core/error.h"
#include "core/op.h"
#include "data/atomic_file.h"
#include "memory/price/node_times.h"
#include "train/config/profile.h"
#include "train/config/wording.h"
#include "train/loop/front_text.h"
#include "train/loop/program_fingerprint.h"
#include "train/run_files/cache_folder.h"
#include "train/run_files/fingerprint.h"
#include "train/run_files/log.h"

namespace pal {
namespace {

namespace fs = std::filesystem;

// To be raised where make_front() gives other points, or their options mean other plans.
constexpr int64_t kPlannerVersion = 32;
// What is being written is done by then.
constexpr std::chrono::hours kLeftBehind{24};
constexpr uintmax_t kMostBytes = uintmax_t(64) << 20;  // some hundred thousand plans

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

std::optional<Front> FrontCache::find(uint64_t key, const CompileOptions& options,
                                      const FrontChoices& choices) const {
  if (folder_.empty()) return {};
  const fs::path file = file_of(key);
  std::ifstream in(file, std::ios::binary);
  if (!in) return {};
  try {
    if (fs::file_size(file) > kMostBytes) throw UsageError("it is larger than any front");
    std::ostringstream text;
    text << in.rdbuf();
    const std::string all = text.str();
    const size_t line = all.find('\n');
    const std::string body = line == std::string::npos ? "" : all.substr(line + 1);
    if (all != head_of(key, body) + body) throw UsageError("its sum is not that of its text");
    Front front = parse_front(body, options, choices);
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
    const std::string body = text_of(front), head = head_of(key, body);
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
