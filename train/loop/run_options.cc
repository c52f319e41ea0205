// From the sections memory, device and train to compile options and a device.
#include "train/loop/run_options.h"

#include <fstream>
#include <limits>
#include <memory>
#include <optional>

#include "core/accelerator.h"
#include "core/error.h"
#include "ops/libraries/numerics.h"
#include "train/loop/auto_plan.h"
#include "train/run_files/algorithm_file.h"

namespace pal {

namespace {

Dpr format_of(std::string name) {
  if (name.compare(0, 4, "dpr_") == 0) name.erase(0, 4);
  Dpr format{};
  if (!read_name(name, format)) throw ProgramError("[options] no encoding is called " + name);
  return format;
}

// One format is that of all values; several are those of the scopes that dpr_layers names.
Encodings encodings_of(const MemoryConfig& config) {
  Encodings out;
  std::vector<Dpr> formats;
  for (const std::string& name : *config.encode) {
    if (name == "binarize") {
      out.binarize = true;
    } else if (name == "dropout_bits") {
      out.dropout_bits = true;
    } else if (name == "ssdc") {
      out.ssdc = true;
    } else {
      formats.push_back(format_of(name));
    }
  }
  if (formats.size() == 1) out.dpr = formats[0];
  out.ssdc_margin = *config.ssdc_margin;
  for (const auto& [scope, name] : *config.dpr_layers) out.dpr_layers[scope] = format_of(name);
  return out;
}

// What the system could give away without swapping; none: it does not say.
std::optional<int64_t> free_host_bytes() {
  std::ifstream in("/proc/meminfo");
  std::string name, unit;
  for (int64_t kib; in >> name >> kib && std::getline(in, unit);) {
    if (name == "MemAvailable:") return kib * 1024;
  }
  return {};
}

}  // namespace

CompileOptions compile_options(const MemoryConfig& config) {
  CompileOptions options;
  options.inplace = *config.inplace;
  options.recompute_options.overhead = *config.recompute_overhead;
  options.fuse_recompute = *config.fuse_recompute;
  options.fuse_epilogues = *config.fuse_epilogues;
  options.schedule = *config.schedule;
  options.swap = {.method = *config.swap, .vdnn = *config.vdnn};
  options.dynamic = {.manager = *config.manager,
                     .filter = *config.filter,
                     .start = *config.start,
                     .prefetch = int(*config.prefetch),
                     .release_in_backward = *config.release_in_backward,
                     .dtr = *config.dtr,
                     .dealloc = *config.dealloc};
  if (config.host_budget->has_value()) options.host_budget = (*config.host_budget)->bytes;
  options.recompute = *config.recompute;
  options.encode = encodings_of(config);
  if (config.budget->has_value()) options.budget = (*config.budget)->bytes;
  return options;
}

CompileOptions run_options(const MemoryConfig& config) {
  CompileOptions options = compile_options(config);
  const bool copies =
      options.swap.method != Swap::none || options.dynamic.manager == Manager::delta;
  if (copies && !options.host_budget) {
    if (const auto free = free_host_bytes()) options.host_budget = *free / 5 * 4;
  }
  return options;
}

bool rounds(const MemoryConfig& config) {
  return compile_options(config).encode.is_lossy() ||
         (chooses_plan(config) && allows(config, "lossy"));
}

int64_t host_limit(const MemoryConfig& config) {
  const std::optional<int64_t> free = free_host_bytes();
  const int64_t told = host_limit_of_any(config);
  return config.host_budget->has_value() || !free ? told : *free / 5 * 4;
}

int64_t host_limit_of_any(const MemoryConfig& config) {
  return config.host_budget->has_value() ? (*config.host_budget)->bytes
                                         : std::numeric_limits<int64_t>::max();
}

Device choose_device(const DeviceConfig& config, std::string* said, int gpu_number) {
  std::string why;  // there is no GPU
  if (*config.type != "cpu") {
    try {
      Device gpu = cuda_device(gpu_number);
      gpu.graphs = *config.graphs, gpu.cudnn = *config.cudnn;
      if (*config.timed_products) {
        gpu.algorithms = std::make_shared<AlgorithmFile>("", AlgorithmFile::of_machine());
      }
      if (said) *said = "device  " + gpu.accelerator->description();
      return gpu;
    } catch (const UsageError& error) {
      if (*config.type == "cuda") throw;
      why = error.what();
    }
  }
  Device cpu = cpu_device(int(config.threads->value_or(0)));
  if (said) {
    *said = "device  cpu, " + std::to_string(cpu.threads) +
            (cpu.threads == 1 ? " thread" : " threads") + (why.empty() ? "" : " (" + why + ")");
  }
  return cpu;
}

std::optional<DeviceProfile> branch_device(const DeviceConfig& config, const Device& device,
                                           std::string* said) {
  if (!device.accelerator || !*config.branches) return {};
  std::string whose;
  DeviceProfile out = profile_at_hand(device, &whose);
  if (said) *said += "; " + whose;
  out.capacity = device.accelerator->room();
  return out;
}

std::string numerics_of(const Device& device) {
  return (device.accelerator ? device.accelerator->description() : "cpu") + ", " + cpu_numerics();
}

Device training_device(const Config& config, std::string* said) {
  Device device = choose_device(config.device, said, config.gpu);
  device.tf32 = *config.train.precision == "tf32";
  if (device.tf32 && !device.accelerator) {
    throw UsageError(
        "train.precision: the processor has no tf32; set it to f32, or device.type to "
        "cuda on a machine with a GPU");
  }
  const bool rounds = device.tf32 || *config.train.precision == "bf16";
  if (rounds && device.accelerator && !device.accelerator->has_bf16()) {
    throw UsageError("train.precision: " + device.accelerator->description() + " has no " +
                     *config.train.precision + " (8.0 has); set it to f32");
  }
  return device;
}

}  // namespace pal
