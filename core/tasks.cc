// A counter that threads take tasks from.
#include "core/tasks.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

namespace pal {

void run_tasks(int workers, size_t count, const std::function<void(int worker, size_t task)>& f) {
  std::vector<std::exception_ptr> failed(count);
  std::atomic<size_t> next{0};
  const auto work = [&](int worker) {
    for (size_t task = next++; task < count; task = next++) {
      try {
        f(worker, task);
      } catch (...) {
        failed[task] = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> others;
    try {
      for (int i = 1; i < workers && size_t(i) < count; ++i) others.emplace_back(work, i);
    } catch (const std::system_error&) {
      // The machine has no room for more threads: those that there are do the work.
    }
    work(0);
  }
  const auto first = std::find_if(failed.begin(), failed.end(), [](auto& e) { return bool(e); });
  if (first != failed.end()) std::rethrow_exception(*first);
}

}  // namespace pal
