// Flags of several devices.
#include "train/commands/plan_devices.h"

#include <memory>

#include "core/error.h"
#include "train/config/links.h"
#include "train/config/profile.h"
#include "train/loop/ranks_of_run.h"

namespace pal {
namespace {

constexpr int64_t kMostDevices = 65536;

}  // namespace

void DeviceFlags::declare(Flags& flags) {
  flags.add("--devices", devices, "plan for N devices that train together, with --link",
            {.type = "N"});
  flags.add("--per-node", per_node, "devices of a node (all of them)", {.type = "M"});
  flags.add("--link", link,
            "what joins the devices: a name in configs/links, measured (pal bench --link), or a "
            "file; two, with a comma: inside a node, and between nodes",
            {.type = "NAME"});
}

void DeviceFlags::apply(PlanArgs& args) const {
  if (!devices) {
    const char* const lone = per_node ? "--per-node" : "--link";
    if (!per_node && link.empty()) return;
    throw UsageError(std::string(lone) +
                     ": is of several devices; add --devices N, or leave it out");
  }
  check_range("--devices", *devices, 1, kMostDevices);
  if (per_node) check_range("--per-node", *per_node, 1, *devices);
  args.links = std::make_shared<const Links>(links_of(*devices, per_node, link));
  args.config = with_ranks(args.config, *devices);
  args.config.per_node = args.links->per_node;
}

DeviceProfile profile_of(const PlanArgs& args) {
  DeviceProfile device = args.profile.empty() ? default_profile() : load_profile(args.profile);
  device = priced_as(std::move(device), *args.config.train.precision == "tf32");
  if (args.links) device = part_of_ranks(device, args.links->per_node);
  device.links = args.links;
  return device;
}

std::optional<DeviceProfile> exchange_device_of(const PlanArgs& args) {
  if (args.config.ranks == 1 || *args.config.train.link == "none") return {};
  DeviceProfile device = profile_of(args);
  device.capacity = device.room();
  return device;
}

std::optional<DeviceProfile> branch_device_of(const PlanArgs& args) {
  if (args.profile.empty() || !*args.config.device.branches) return {};
  DeviceProfile device = profile_of(args);
  if (!device.elsewhere || device.link == 0) return {};  // a processor
  device.capacity = device.room();
  return device;
}

}  // namespace pal
