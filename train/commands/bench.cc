// pal bench --profile: this machine's processor as a device profile.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/device.h"
#include "core/error.h"
#include "data/atomic_file.h"
#include "train/commands/command.h"
#include "train/commands/commands.h"
#include "train/commands/measure_cpu.h"
#include "train/config/profile.h"
#include "train/config/wording.h"

namespace pal {

int run_bench(const BenchArgs& args) {
  const std::filesystem::path file = args.out.empty() ? cpu_profile_path() : args.out;
  if (file.has_parent_path()) {
    std::error_code error;
    std::filesystem::create_directories(file.parent_path(), error);
    if (error) {
      throw UsageError(file.parent_path().string() + ": cannot be made: " + error.message());
    }
  }
  const CpuMeasurement m = measure_cpu(cpu_device());
  const std::vector<std::string> lines = describe(m);
  const std::string text = profile_text(m.profile, lines);
  AtomicFile out(file.string());
  out.write(text.data(), text.size());
  out.commit();
  if (args.json) {
    const DeviceProfile& p = m.profile;
    nlohmann::ordered_json json{{"file", file.string()}, {"name", p.name}};
    for (const auto& product : m.products) {
      json["matmul"].push_back({{"m", product.m},
                                {"n", product.n},
                                {"k", product.k},
                                {"gflops", product.flops_per_s * 1e-9}});
    }
    for (const auto& stream : m.streams) {
      json["stream"].push_back({{"bytes", stream.bytes}, {"gb_s", stream.bytes_per_s * 1e-9}});
    }
    json["vector_gflops"] = p.vector * 1e-9;
    json["node_us"] = p.launch * 1e6;
    return print(json.dump() + "\n");
  }
  std::string said;
  for (const std::string& line : lines) said += line + "\n";
  return print(said + "  elementwise functions: " + fixed(m.profile.vector * 1e-9, 0) +
               " Gflop/s; a node costs " + fixed(m.profile.launch * 1e6, 2) +
               " us beyond its work\nprofile " + file.string() + " (pal plan --profile cpu)\n");
}

namespace {

struct BenchFlags {
  BenchArgs args;
  bool profile = false;

  void declare(Flags& flags) {
    flags.add("--profile", profile, "write its profile (./pal bench alone: benchmarks)");
    flags.add("--out", args.out, "the profile (~/.config/palimpsest/cpu.yaml)", {.type = "FILE"});
    add_json(flags, args.json);
  }
  Request read() const {
    if (profile) return request<run_bench>(args);
    throw UsageError(
        "bench: the benchmarks are run by ./pal bench in the source tree; here "
        "there is bench --profile");
  }
};

}  // namespace

Command bench_command() {
  return command<BenchFlags>("bench", "measure this machine's processor for --profile cpu");
}

}  // namespace pal
