// A device at hand with links.
#include "train/loop/exchange_device.h"

#include <algorithm>
#include <memory>

#include "core/accelerator.h"
#include "core/ranks/device_group.h"
#include "train/config/links.h"
#include "train/config/profile.h"
#include "train/config/wording.h"
#include "train/loop/auto_plan.h"
#include "train/loop/measure_link.h"

namespace pal {
namespace {

// As many bytes of a rank's piece as leave its whole small.
LinkTrial short_trial(int64_t ranks) {
  return {.seconds = 0, .many = std::min<int64_t>(1 << 20, (64 << 20) / ranks)};
}

// Of a processor that is not measured, so that exchanges are arranged for about the right
// computation: what a core of the last ten years does at the least.
DeviceProfile guessed_processor(int threads) {
  const double n = threads;
  return {.name = "a processor that is not measured",
          .f32 = 30e9 * n,
          .vector = 3e9 * n,
          .memory = 10e9,
          .cache = 15e9 * n,
          .cache_bytes = 1 << 20,
          .launch = 2e-6,
          .units = n};
}

DeviceProfile device_of_rank(const Device& device) {
  if (!device.accelerator && !is_cpu_measured()) return guessed_processor(device.threads);
  return profile_at_hand(device);
}

Links measured_links(const Device& device) {
  Group& group = *device.group;
  const Link link = device.device_group ? measure_device_link(device, short_trial(group.size()))
                                        : measure_link(group, short_trial(group.size()));
  return {.ranks = group.size(), .per_node = group.size(), .inside = link};
}

Links named_links(const std::string& names, const Group& group) {
  constexpr const char* kOption = "train.link";
  const size_t comma = names.find(',');
  Links links{.ranks = group.size(), .per_node = group.size()};
  links.inside = load_link(names.substr(0, comma), kOption);
  if (comma == std::string::npos) return links;
  links.per_node = group.per_node();
  links.between = load_link(names.substr(comma + 1), kOption);
  if (links.ranks % links.per_node == 0) return links;
  throw UsageError(std::string(kOption) + ": two links, and " + std::to_string(links.ranks) +
                   " ranks are not so many machines of " + std::to_string(links.per_node) +
                   "; name one");
}

}  // namespace

std::optional<DeviceProfile> exchange_device(const Config& config, const Device& device,
                                             std::string* said) {
  const std::string& names = *config.train.link;
  if (!device.group || names == "none") return {};
  const bool measures = names == "auto";
  const Links links = measures ? measured_links(device) : named_links(names, *device.group);
  if (said) {
    *said += "; ranks joined by " + to_string(links);
    if (measures) {
      *said += printed(", %.3g GB/s and %.3g us a message", links.inside.rate * 1e-9,
                       links.inside.latency * 1e6);
    }
  }
  DeviceProfile out = device_of_rank(device);
  // What is free now, beside the context and what carries the exchanges.
  if (device.accelerator) out.capacity = device.accelerator->room();
  out.links = std::make_shared<const Links>(links);
  return out;
}

}  // namespace pal
