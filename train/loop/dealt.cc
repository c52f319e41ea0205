// Texts travel one behind the other, in rows of the longest rank's length.
#include "train/loop/dealt.h"

#include <algorithm>
#include <numeric>

namespace pal {

void Dealt::check_stopped() const {
  if (!stop_) return;
  if (total(stopped_) > 0) throw Interrupted();
}

void Dealt::complete(std::vector<std::string>& texts) const {
  check_stopped();
  if (!group_ || texts.empty()) return;
  const auto count = texts.size(), ranks = size_t(stride());
  std::vector<int64_t> own, sizes(count * ranks);
  std::string bytes;
  for (const std::string& text : texts) own.push_back(int64_t(text.size())), bytes += text;
  group_->share(own.data(), sizes.data(), int64_t(count * sizeof(int64_t)));
  size_t longest = 0;
  for (size_t q = 0; q < ranks; ++q) {
    const auto row = sizes.begin() + std::ptrdiff_t(q * count);
    longest =
        std::max(longest, size_t(std::accumulate(row, row + std::ptrdiff_t(count), int64_t{0})));
  }
  if (longest == 0) return;
  bytes.resize(longest);
  std::string all(longest * ranks, '\0');
  group_->share(bytes.data(), all.data(), int64_t(longest));
  for (size_t q = 0; q < ranks; ++q) {
    size_t at = q * longest;
    for (size_t i = 0; i < count; ++i) {
      const auto size = size_t(sizes[q * count + i]);
      if (size > 0) texts[i] = all.substr(at, size);
      at += size;
    }
  }
}

int64_t Dealt::total(int64_t own) const {
  if (!group_) return own;
  const std::vector<int64_t> all = share_among(*group_, own);
  return std::accumulate(all.begin(), all.end(), int64_t{0});
}

}  // namespace pal
