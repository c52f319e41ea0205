// What a plan costs on several devices: time on the way, bytes sent, joules, speedup.
#pragma once
#include <string>

#include "memory/compiled.h"
#include "memory/price/predict.h"
#include "train/report/plan_facts.h"

namespace pal {

// Of a step that was recorded for device.links->ranks ranks and planned for that device.
DeviceFacts device_facts(const Compiled& step, const DeviceProfile& device);

// Joules of a step on so many devices of which each waits `waiting_ms` of it; none without watts.
std::optional<double> joules_of(const DeviceProfile& device, int64_t ranks, double step_ms,
                                double waiting_ms);

// "devices (predicted): 8 ranks, 8 a node over NVLink 4: ..."
std::string line_of(const DeviceFacts& facts);

}  // namespace pal
