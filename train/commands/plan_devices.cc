// Flags of several devices.
#include "train/commands/plan_devices.h"

#include <algorithm>
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
}

DeviceProfile profile_of(const PlanArgs& args) {
  DeviceProfile device = args.profile.empty() ? default_profile() : load_profile(args.profile);
  // Ranks of a node divide its processor among them, and all work at once.
  if (args.links && device.thread_f32 > 0) {
    const auto ranks = double(args.links->per_node);
    DeviceProfile part = part_of(device, 1 / ranks);
    for (double DeviceProfile::*rate :
         {&DeviceProfile::f32, &DeviceProfile::tf32, &DeviceProfile::f16, &DeviceProfile::bf16,
          &DeviceProfile::vector, &DeviceProfile::memory, &DeviceProfile::cache}) {
      part.*rate = std::min(part.*rate, device.*rate / ranks);
    }
    device = part;
  }
  device.links = args.links;
  return device;
}

}  // namespace pal
