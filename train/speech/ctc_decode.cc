// Best path and prefix beam search.
#include "train/speech/ctc_decode.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

namespace pal {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

double log_add(double a, double b) {
  const double most = std::max(a, b);
  return most == kNever ? kNever : most + std::log1p(std::exp(std::min(a, b) - most));
}

// A beginning of the spelling: its parent's, and a label. Number 0 is the empty one.
struct Prefix {
  int32_t parent = -1, label = 0;
  std::unordered_map<int32_t, int32_t> longer = {};  // by label
};

// The probability of all alignments so far that spell a prefix, by how they end.
struct Ends {
  double blank = kNever, label = kNever;
  double total() const { return log_add(blank, label); }
};

struct Entry {
  int32_t prefix;
  Ends ends;
};

// The entries of a step as they are found, one a prefix.
class Step {
 public:
  Ends& operator[](int32_t prefix) {
    const auto [at, added] = place_.try_emplace(prefix, entries_.size());
    if (added) entries_.push_back({prefix, {}});
    return entries_[at->second].ends;
  }
  std::vector<Entry> best(int64_t count) {
    std::stable_sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
      return a.ends.total() > b.ends.total();
    });
    if (static_cast<int64_t>(entries_.size()) > count) entries_.resize(static_cast<size_t>(count));
    return std::move(entries_);
  }

 private:
  std::vector<Entry> entries_;
  std::unordered_map<int32_t, size_t> place_;
};

}  // namespace

Spelling ctc_greedy(const LogProbs& probs) {
  Spelling out;
  int32_t before = 0;
  for (int64_t t = 0; t < probs.steps; ++t) {
    int32_t best = 0;
    for (int32_t v = 1; v < probs.labels; ++v) {
      if (probs.at(t, v) > probs.at(t, best)) best = v;
    }
    if (best != 0 && best != before) out.labels.push_back(best);
    before = best;
    out.log_prob += static_cast<double>(probs.at(t, best));
  }
  return out;
}

Spelling ctc_beam(const LogProbs& probs, int64_t beam) {
  std::vector<Prefix> prefixes(1);
  std::vector<Entry> held{{0, {.blank = 0}}};
  auto longer = [&](int32_t prefix, int32_t label) {
    const auto next = static_cast<int32_t>(prefixes.size());
    const auto [at, added] = prefixes[static_cast<size_t>(prefix)].longer.try_emplace(label, next);
    const int32_t found = at->second;  // before the vector grows
    if (added) prefixes.push_back({prefix, label});
    return found;
  };
  for (int64_t t = 0; t < probs.steps; ++t) {
    Step step;
    for (const Entry& entry : held) {
      const int32_t last = prefixes[static_cast<size_t>(entry.prefix)].label;
      Ends& same = step[entry.prefix];
      same.blank = log_add(same.blank, entry.ends.total() + double(probs.at(t, 0)));
      if (last != 0) same.label = log_add(same.label, entry.ends.label + double(probs.at(t, last)));
      for (int32_t v = 1; v < probs.labels; ++v) {
        // A label once more is another one only after a blank.
        const double from = v == last ? entry.ends.blank : entry.ends.total();
        if (from == kNever) continue;
        Ends& next = step[longer(entry.prefix, v)];
        next.label = log_add(next.label, from + double(probs.at(t, v)));
      }
    }
    held = step.best(beam);
  }
  Spelling out{.log_prob = held[0].ends.total()};
  for (int32_t p = held[0].prefix; p != 0; p = prefixes[static_cast<size_t>(p)].parent) {
    out.labels.push_back(prefixes[static_cast<size_t>(p)].label);
  }
  std::reverse(out.labels.begin(), out.labels.end());
  return out;
}

}  // namespace pal
