// What a step's kernels launch and move, by operator: pal bench --kernels.
#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/kernel_counter.h"
#include "memory/compile.h"
#include "memory/price/kernel_times.h"

namespace pal {

struct KernelRow {
  std::string name;  // of the operator; of a launch of its own, where it stands in the source
  int64_t nodes = 0, launches = 0;
  double bytes = 0, least_bytes = 0, flops = 0;
  double ms = 0, least_ms = 0;  // predicted
  std::vector<KernelRow> kernels = {};
  double won_ms() const { return ms > least_ms ? ms - least_ms : 0; }
};

struct KernelReport {
  std::string name, device;  // of the configuration, of the profile
  std::pair<int64_t, int64_t> bucket;
  bool graph = true;              // the step is recorded
  std::vector<KernelRow> rows;    // most that can be won first
  KernelRow all;                  // their sums
  double step_ms = 0;             // until the last queue is done
  double one_queue_ms = 0;        // the same nodes, branches one behind the other
  double roofline_ms = 0;         // as pal plan predicts it
  double samples = 0, units = 0;  // of a step; units: words, images
  std::string unit;
  std::map<std::string, std::map<std::string, int64_t>> code;  // nodes_by_code()

  double rate(double count) const { return step_ms > 0 ? 1e3 * count / step_ms : 0; }
};

// Rows, sums and times; name, bucket, samples and units are left to who knows them.
KernelReport kernel_report(const Compiled& step, const ByNode<std::vector<LaunchCount>>& launches,
                           const DeviceProfile& device, bool graph);
// `most`: so many operators, and the others' sum in one line; 0: all.
std::vector<std::string> kernel_lines(const KernelReport& report, size_t most);
std::string kernel_json(const KernelReport& report);

}  // namespace pal
