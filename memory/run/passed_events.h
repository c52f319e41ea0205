// Where a job's compute queue is on an accelerator: events behind the moments that it has reported
// in its last steps (Zico, section 6.1: events instead of polling). Another job's queue waits for
// one of them before it takes the bytes.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/accelerator.h"
#include "memory/share/gate.h"

namespace pal {

// Calls by the job's own thread, and of event() and end_of_last() by others, exclude each other;
// but for those that wait.
class PassedEvents {
 public:
  explicit PassedEvents(std::shared_ptr<Accelerator> accelerator);

  // The caller waits until the device has done all but the last step: so far the host runs ahead.
  void wait_for_all_but_last();
  // The caller waits until the device has done the last step.
  void wait_for_last();

  // The caller waits until the device has done all that the last moment passed comes behind.
  void wait_for_passed();

  // Steps are counted from 0 again; those before are no longer asked for.
  void begin_count();
  // A step that will report these moments.
  void begin_step(const std::vector<int64_t>& reports);
  // All that was queued so far comes before the moment.
  void pass(int64_t moment);
  void end_step();

  // An event no earlier than a moment that has been passed; null where the device has done it.
  Accelerator::Event event(int64_t step, int64_t moment) const;
  Accelerator::Event end_of_last() const;  // null: no step has ended

 private:
  struct Step {
    int64_t number = -1;
    std::vector<int64_t> moments;
    std::vector<Accelerator::Event> events;  // by moment, and more
    Accelerator::Event end;
  };
  static constexpr size_t kKept = 3;  // the one that is queued, the one that runs, the one before
  Step& now() { return steps_[begun_ % kKept]; }

  std::shared_ptr<Accelerator> accelerator_;
  std::array<Step, kKept> steps_;
  size_t begun_ = 0, ended_ = 0;  // in all
  int64_t count_ = 0;             // begun, since begin_count()
  size_t next_ = 0;               // of the moments of the step
};

}  // namespace pal
