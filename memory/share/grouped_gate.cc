// Everything goes to the gate of the job's group.
#include "memory/share/grouped_gate.h"

#include <utility>

#include "core/error.h"

namespace pal {
namespace {

class GroupedGate final : public PoolGate {
 public:
  GroupedGate(std::vector<std::unique_ptr<PoolGate>> gates,
              const std::vector<std::vector<JobId>>& groups)
      : gates_(std::move(gates)) {
    for (size_t g = 0; g < groups.size(); ++g) {
      for (size_t i = 0; i < groups[g].size(); ++i) {
        const auto job = size_t(groups[g][i]);
        if (places_.size() <= job) places_.resize(job + 1);
        places_[job] = {int32_t(g), JobId(i)};
      }
    }
    jobs_ = groups;
    for (const Place& place : places_) {
      if (place.group < 0) throw ProgramError("[share] a job is in no group");
    }
  }
  void begin_step(JobId job, size_t program) override { gate(job).begin_step(id(job), program); }
  void end_step(JobId job) override { gate(job).end_step(id(job)); }
  const std::vector<int64_t>& asks(JobId job) const override { return gate(job).asks(id(job)); }
  const std::vector<int64_t>& reports(JobId job) const override {
    return gate(job).reports(id(job));
  }
  bool may_pass(JobId job, int64_t moment) override { return gate(job).may_pass(id(job), moment); }
  void passed(JobId job, int64_t moment) override { gate(job).passed(id(job), moment); }
  void after(JobId job, int64_t moment, std::vector<PassedMoment>& out) const override {
    const size_t from = out.size();
    gate(job).after(id(job), moment, out);
    const auto& jobs = jobs_[size_t(places_[size_t(job)].group)];
    for (size_t i = from; i < out.size(); ++i) out[i].job = jobs[size_t(out[i].job)];
  }
  double again_ms(JobId job) const override { return gate(job).again_ms(id(job)); }
  std::vector<int64_t> stops(JobId job) const override { return gate(job).stops(id(job)); }
  void leave(JobId job) override { gate(job).leave(id(job)); }
  std::unique_ptr<PoolGate> clone() const override {
    auto copy = std::unique_ptr<GroupedGate>(new GroupedGate);
    for (const auto& g : gates_) copy->gates_.push_back(g->clone());
    copy->places_ = places_, copy->jobs_ = jobs_;
    return copy;
  }

 private:
  struct Place {
    int32_t group = -1;
    JobId id = 0;  // within it
  };
  GroupedGate() = default;
  PoolGate& gate(JobId job) const { return *gates_[size_t(places_[size_t(job)].group)]; }
  JobId id(JobId job) const { return places_[size_t(job)].id; }

  std::vector<std::unique_ptr<PoolGate>> gates_;
  std::vector<Place> places_;             // by job
  std::vector<std::vector<JobId>> jobs_;  // by group
};

}  // namespace

std::unique_ptr<PoolGate> grouped_gate(std::vector<std::unique_ptr<PoolGate>> gates,
                                       const std::vector<std::vector<JobId>>& groups) {
  return std::make_unique<GroupedGate>(std::move(gates), groups);
}

}  // namespace pal
