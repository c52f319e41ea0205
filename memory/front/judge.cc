// Passes, predictions and placement of candidates, a thread each.
#include "memory/front/judge.h"

#include <memory>
#include <utility>

#include "core/tasks.h"
#include "memory/pass.h"
#include "memory/price/predict.h"

namespace pal {
namespace {

int processors_of(const Device& device) {
  return device.kind == DeviceKind::cpu ? device.threads : cpu_device().threads;
}

}  // namespace

Judge::Judge(const Program& recorded, KernelCache& cache, const StateLayout& layout,
             const DeviceProfile& device, std::optional<int> workers)
    : recorded_(recorded), layout_(layout), device_(device) {
  const int count = workers.value_or(processors_of(cache.device()));
  for (int i = 0; i < count; ++i) caches_.emplace_back(cache, turn_);
}

Candidate Judge::judged(Candidate one) {
  std::vector<Family> families{alone(std::move(one))};
  judge(families);
  return std::move(families[0][0]);
}

void Judge::judge(std::vector<Family>& families, std::vector<std::function<void()>> others) {
  run_tasks(int(workers()), others.size() + families.size(), [&](int worker, size_t task) {
    if (task < others.size()) return others[task]();
    PassMemory memory;
    for (Candidate& each : families[task - others.size()]) {
      auto passed = std::make_shared<Compiled>();
      each.alive = least_bytes(recorded_, caches_[size_t(worker)], layout_, each.options,
                               passed.get(), &memory);
      each.ms = predict(passed->program, device_, &passed->storages).step_ms;
      each.passed = std::move(passed);
    }
  });
}

std::vector<Plan> Judge::plans_of(const std::vector<Candidate>& list) const {
  std::vector<Plan> plans(list.size());
  run_tasks(int(workers()), list.size(), [&](int, size_t i) {
    plans[i] = plan_passed(*list[i].passed, layout_, list[i].options);
  });
  return plans;
}

}  // namespace pal
