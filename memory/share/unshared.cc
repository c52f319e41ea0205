// Which pages a node touches, and least recently used.
#include "memory/share/unshared.h"

#include <algorithm>

#include "core/error.h"

namespace pal {
namespace {

using Stretches = std::vector<std::pair<int32_t, int32_t>>;

Stretches merged(Stretches list) {
  std::sort(list.begin(), list.end());
  Stretches out;
  for (const auto& s : list) {
    if (!out.empty() && s.first <= out.back().second) {
      out.back().second = std::max(out.back().second, s.second);
    } else {
      out.push_back(s);
    }
  }
  return out;
}

}  // namespace

StepPages step_pages(const Program& program, const Storages& storages, const Plan& plan,
                     int64_t page_bytes) {
  StepPages out;
  out.pages = int32_t((plan.device().bytes + page_bytes - 1) / page_bytes);
  Stretches of_node;
  const auto touch = [&](StorageId s, int64_t offset, int64_t bytes) {
    if (storages[s].space != Space::device || !storages[s].counted || bytes == 0) return;
    const int64_t begin = plan.offset[s] + offset;
    of_node.emplace_back(int32_t(begin / page_bytes),
                         int32_t((begin + bytes + page_bytes - 1) / page_bytes));
  };
  for (NodeId n : program.nodes.ids()) {
    const Node& node = program.node(n);
    if (node.queue != kComputeQueue) continue;
    of_node.clear();
    for (const auto* side : {&node.in, &node.out}) {
      for (ValueId v : present(*side)) {
        const StorageId s = storages.of[v];
        if (s != kNone) touch(s, storages.offset[v], program.value(v).spec.bytes());
      }
    }
    if (size_t(int32_t(n)) < storages.workspace.size() && storages.workspace[n] != kNone) {
      touch(storages.workspace[n], 0, storages[storages.workspace[n]].bytes);
    }
    out.touched.push_back(merged(std::move(of_node)));
  }
  return out;
}

PagedMemory::PagedMemory(std::vector<std::vector<const StepPages*>> pages, int64_t capacity,
                         double link, int64_t page_bytes)
    : programs_(std::move(pages)),
      page_bytes_(page_bytes),
      room_(capacity / page_bytes),
      page_ms_(1e3 * double(page_bytes) / link) {
  if (room_ < 1 || link <= 0) throw ProgramError("[share] no page fits, or there is no link");
  for (const auto& programs : programs_) {
    int32_t most = 0;
    for (const StepPages* p : programs) most = std::max(most, p->pages);
    pages_.emplace_back(size_t(most));
  }
}

double PagedMemory::fetch_ms(JobId job, size_t program, size_t node) {
  int moved = 0;
  for (const auto& [begin, end] : programs_[size_t(job)][program]->touched[node]) {
    for (int32_t page = begin; page < end; ++page) moved += touch(job, page);
  }
  return moved * page_ms_;
}

int PagedMemory::touch(JobId job, int32_t number) {
  Page& page = pages_[size_t(job)][size_t(number)];
  if (page.on_device) {
    used_.splice(used_.begin(), used_, page.place);
    return 0;
  }
  int moved = 0;
  if (int64_t(used_.size()) == room_) {
    const auto [other, last] = used_.back();
    Page& oldest = pages_[size_t(other)][size_t(last)];
    oldest.on_device = false, oldest.on_host = true;
    used_.pop_back();
    ++out_, ++moved;
  }
  if (page.on_host) ++in_, ++moved;
  used_.emplace_front(job, number);
  page.on_device = true, page.on_host = false, page.place = used_.begin();
  return moved;
}

}  // namespace pal
