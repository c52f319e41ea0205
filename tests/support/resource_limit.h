// A limit of this process, and what it had before again at the end: of addresses, of file sizes.
#pragma once
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>

namespace pal::test {

class ResourceLimit {
 public:
  // `which`: RLIMIT_AS, RLIMIT_FSIZE.
  ResourceLimit(int which, int64_t bytes) : which_(which) {
    EXPECT_EQ(getrlimit(which_, &before_), 0);
    rlimit limit = before_;
    limit.rlim_cur = rlim_t(bytes);
    EXPECT_EQ(setrlimit(which_, &limit), 0);
  }
  ~ResourceLimit() { setrlimit(which_, &before_); }
  ResourceLimit(const ResourceLimit&) = delete;
  ResourceLimit& operator=(const ResourceLimit&) = delete;

 private:
  const int which_;
  rlimit before_{};
};

// Bytes of addresses that the process has.
inline int64_t addresses_in_use() {
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * getpagesize();
}

}  // namespace pal::test
