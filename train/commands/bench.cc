// pal bench --profile and --link: this machine's processor as a device profile, and what joins
// ranks.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/device.h"
#include "core/error.h"
#include "core/ranks/launch.h"
#include "data/atomic_file.h"
#include "train/commands/command.h"
#include "train/commands/commands.h"
#include "train/commands/launch_ranks.h"
#include "train/commands/measure_cpu.h"
#include "train/config/links.h"
#include "train/config/profile.h"
#include "train/config/wording.h"
#include "train/loop/measure_link.h"
#include "train/loop/ranks_of_run.h"
#include "train/run_files/log.h"

namespace pal {

namespace {

void make_folder_of(const std::filesystem::path& file) {
  if (!file.has_parent_path()) return;
  std::error_code error;
  std::filesystem::create_directories(file.parent_path(), error);
  if (error) {
    throw UsageError(file.parent_path().string() + ": cannot be made: " + error.message());
  }
}

void write_whole(const std::filesystem::path& file, const std::string& text) {
  AtomicFile out(file.string());
  out.write(text.data(), text.size());
  out.commit();
}

}  // namespace

int run_bench_link(const BenchArgs& args) {
  const std::shared_ptr<Group> group = ranks_at_hand();
  if (!group && launch_at_hand()) {
    throw UsageError("bench --link: the launcher has started one rank; let it start two or more");
  }
  if (!group) {
    std::vector<std::string> arguments{"bench", "--link"};
    if (!args.out.empty()) arguments.insert(arguments.end(), {"--out", args.out.string()});
    if (args.json) arguments.emplace_back("--json");
    return launch_ranks(2, arguments);
  }
  constexpr double kTimeout = 60;  // seconds
  group->set_timeout(kTimeout);
  std::filesystem::path file;
  Link link;
  try {
    if (group->rank() == 0) {
      file = args.out.empty() ? measured_link_path() : args.out;
      make_folder_of(file);
    }
    link = measure_link(*group);
  } catch (...) {
    const Failure failure = failure_at_hand();
    log_end(failure.what);
    group->abandon(failure.exit_code);
  }
  if (group->rank() != 0) return 0;
  write_whole(file,
              link_text(link, {"Measured by pal bench --link over " + group->description() + "."}));
  if (args.json) {
    const nlohmann::ordered_json json{{"file", file.string()},
                                      {"name", link.name},
                                      {"gb_s", link.rate * 1e-9},
                                      {"latency_us", link.latency * 1e6}};
    return print(json.dump() + "\n");
  }
  return print(link.name + ": " + fixed(link.rate * 1e-9, 2) + " GB/s each way, " +
               fixed(link.latency * 1e6, 1) + " us a message\nlink " + file.string() +
               " (pal plan --devices N --link measured)\n");
}

int run_bench(const BenchArgs& args) {
  const std::filesystem::path file = args.out.empty() ? cpu_profile_path() : args.out;
  make_folder_of(file);
  const CpuMeasurement m = measure_cpu(cpu_device());
  const std::vector<std::string> lines = describe(m);
  const std::string text = profile_text(m.profile, lines);
  write_whole(file, text);
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
  BenchKernelsArgs of_kernels;
  ConfigFlags config;
  std::string profile = kNotGiven, bucket;
  bool link = false, kernels = false;

  void declare(Flags& flags) {
    flags.add("--profile", profile,
              "write its profile (./pal bench alone: benchmarks); with --kernels: the device that "
              "times are predicted for (h200)",
              {.type = "[NAME]", .optional = true});
    flags.add("--link", link,
              "write what joins ranks: two of this machine, or a launcher's (mpirun)");
    flags.add("--kernels", kernels,
              "what each kernel of a step launches and moves on a GPU, counted without one, and "
              "what could be won");
    config.add(flags);
    flags.add("--bucket", bucket, "of --kernels: source and target length (the largest bucket)",
              {.type = "S,T"});
    flags.add("--all", of_kernels.all, "of --kernels: every operator, not the first 16");
    flags.add("--out", args.out, "the file (~/.config/palimpsest/cpu.yaml, link.yaml)",
              {.type = "FILE"});
    add_json(flags, args.json);
  }
  Request read() {
    const std::optional<Launch> launch = launch_at_hand();
    if (launch && launch->ranks > 1 && !link) {
      throw UsageError("bench: " + launch->by + " says that this is one of " +
                       std::to_string(launch->ranks) +
                       " processes, and only bench --link has ranks");
    }
    const bool profiles = profile != kNotGiven;
    if (link && (profiles || kernels)) {
      throw UsageError("bench: --profile, --link or --kernels, one at a time");
    }
    if (kernels) return request_kernels();
    if (!config.config.empty() || !config.set.empty() || !bucket.empty() || of_kernels.all) {
      throw UsageError("bench: --config, --set, --bucket and --all are of bench --kernels");
    }
    if (profiles && !profile.empty()) {
      throw UsageError("bench --profile: '" + one_line(profile) +
                       "' names a device, and this one is to be measured; leave it out, or add "
                       "--kernels");
    }
    if (profiles) return request<run_bench>(args);
    if (link) return request<run_bench_link>(args);
    throw UsageError(
        "bench: the benchmarks are run by ./pal bench in the source tree; here "
        "there are bench --profile, bench --link and bench --kernels");
  }

 private:
  static constexpr const char* kNotGiven = " ";

  Request request_kernels() {
    if (!args.out.empty()) throw UsageError("bench --kernels: prints, and writes no --out file");
    if (!bucket.empty()) of_kernels.bucket = parse_bucket(bucket);
    of_kernels.profile = profile == kNotGiven ? "h200" : profile;
    if (of_kernels.profile.empty()) {
      throw UsageError("bench --kernels --profile: which device? name one of configs/devices");
    }
    of_kernels.config = config.read("bench --kernels", "", {}, of_kernels.name);
    of_kernels.json = args.json;
    return request<run_bench_kernels>(of_kernels);
  }
};

}  // namespace

Command bench_command() {
  return command<BenchFlags>("bench", "measure this machine for --profile cpu and --link measured");
}

}  // namespace pal
