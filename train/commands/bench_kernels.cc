// pal bench --kernels: what the kernels of a step launch and move, and what could be won.
#include <string>

#include "train/commands/commands.h"
#include "train/commands/count_kernels.h"
#include "train/config/profile.h"

namespace pal {

int run_bench_kernels(const BenchKernelsArgs& args) {
  const KernelReport report =
      count_kernels(args.config, args.name, args.bucket, load_profile(args.profile));
  if (args.json) return print(kernel_json(report) + "\n");
  std::string said = report.name + ", bucket " + std::to_string(report.bucket.first) + "," +
                     std::to_string(report.bucket.second) + "\n";
  for (const std::string& line : kernel_lines(report, args.all ? 0 : 16)) said += line + "\n";
  return print(said);
}

}  // namespace pal
