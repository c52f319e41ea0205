// System calls that a signal interrupts, and writes that end before their last byte.
#include "data/descriptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

#include "tests/support/files.h"
#include "tests/support/resource_limit.h"

namespace pal {
namespace {

TEST(Descriptor, ACallIsMadeAgainWhereASignalInterruptedIt) {
  int calls = 0;
  errno = 0;
  EXPECT_EQ(uninterrupted([&] { return errno = EINTR, ++calls < 3 ? -1 : 7; }), 7);
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(uninterrupted([&] { return errno = EIO, ++calls, -1; }), -1);
  EXPECT_EQ(calls, 4);
  EXPECT_EQ(errno, EIO);
}

// Written below a limit to a file's size, the bytes up to it by the first call.
TEST(Descriptor, WhatIsLeftIsWrittenBehindWhatWas) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "file";
  std::string text;
  for (int i = 0; i < 4000; ++i) text += char('a' + i % 26);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);  // an error in its place
  for (const int64_t at : {-1, 0, 7}) {
    const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    ASSERT_GE(file, 0);
    bool written = false;
    int error = 0;
    {
      const test::ResourceLimit limit(RLIMIT_FSIZE, 3000);
      errno = 0;
      written = write_all(file, text.data(), text.size(), at);
      error = errno;
    }
    EXPECT_FALSE(written) << at;
    EXPECT_EQ(error, EFBIG) << at;
    const size_t begin = at < 0 ? 0 : size_t(at);
    EXPECT_EQ(read_file(path), std::string(begin, '\0') + text.substr(0, 3000 - begin)) << at;
    EXPECT_TRUE(write_all(file, text.data(), text.size(), at)) << at;
    close(file);
  }
  std::signal(SIGXFSZ, handler);
}

}  // namespace
}  // namespace pal
