// Stretches of time, the tallest first, and their shares of nodes and time.
#include "memory/place/place.h"

#include <algorithm>
#include <vector>

#include "memory/place/stretch.h"

namespace pal {
namespace {

void put_tallest_first(std::vector<Stretch>& stretches) {
  std::stable_sort(stretches.begin(), stretches.end(), [](const Stretch& a, const Stretch& b) {
    return a.best().height > b.best().height;
  });
}

// After the first-fit orders; the tallest first: the others need not be lower than what becomes of
// it.
std::vector<Stretch> placed_greedily(std::span<const Buffer> buffers, int64_t enough,
                                     const Deadline& deadline) {
  std::vector<Stretch> stretches;
  for (std::vector<int32_t>& owner : stretches_of(buffers)) {
    std::vector<Buffer> part;
    for (int32_t i : owner) part.push_back(buffers[i]);
    stretches.emplace_back(std::move(part), std::move(owner));
    stretches.back().greedy(enough, deadline);
  }
  put_tallest_first(stretches);
  return stretches;
}

void go_rounds(std::vector<Stretch>& stretches, int64_t enough, const PlaceOptions& options) {
  for (Stretch& s : stretches) {
    s.go_rounds(enough, options.effort.rounds, options.deadline);
    enough = std::max(enough, s.best().height);
  }
  put_tallest_first(stretches);
}

}  // namespace

Placement place(std::span<const Buffer> buffers, const PlaceOptions& options) {
  Placement out;
  out.proven = out.lower_bound = lower_bound_of(buffers);
  out.offset.assign(buffers.size(), 0);
  const auto slack = int64_t(options.effort.slack * double(out.lower_bound));
  const int64_t enough = std::max(options.enough, out.lower_bound + slack);
  std::vector<Stretch> stretches = placed_greedily(buffers, enough, options.deadline);
  int64_t nodes = options.effort.nodes;
  // What rounds win is no reason to search less: a step that was searched for still is.
  if (options.effort.bytes_a_node > 0 && enough > options.enough && !stretches.empty()) {
    const int64_t to_win = stretches.front().best().height - enough;
    nodes = std::clamp<int64_t>(to_win / options.effort.bytes_a_node, 0, nodes);
  }
  go_rounds(stretches, enough, options);
  for (size_t k = 0; k < stretches.size(); ++k) {
    Stretch& s = stretches[k];
    const int64_t target = std::max(enough, out.height);
    if (s.best().height > target && options.effort.nodes > 0) {
      // Equal shares for those that may need one.
      const auto rest = std::span(stretches).subspan(k);
      const int64_t needy = std::count_if(rest.begin(), rest.end(), [&](const Stretch& other) {
        return other.best().height > target;
      });
      const int64_t part = nodes / needy;
      nodes -= part;
      nodes += s.search(target, {part, share(options.deadline, 1.0 / double(needy))});
    }
    if (s.best().height > out.height) out.height = s.best().height, out.order = s.best().order;
    out.proven = std::max(out.proven, s.proven());
    for (size_t i = 0; i < s.owner().size(); ++i) out.offset[s.owner()[i]] = s.best().offset[i];
  }
  return out;
}

}  // namespace pal
