// A log keeps what it has, and says what cannot be written.
#include "data/append_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "tests/support/error_of.h"
#include "tests/support/files.h"

namespace pal::test {
namespace {

TEST(AppendFile, GoesOnOrBeginsAnew) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "log";
  {
    AppendFile file(path, AppendFile::Begin::anew);
    file.append("one\n");
    EXPECT_EQ(read_file(path), "one\n") << "as soon as it is written";
    AppendFile moved = std::move(file);
    moved.append("two\n");
  }
  AppendFile(path, AppendFile::Begin::at_the_end).append("three\n");
  EXPECT_EQ(read_file(path), "one\ntwo\nthree\n");
  AppendFile other(folder.path() / "other", AppendFile::Begin::anew);
  other = AppendFile(path, AppendFile::Begin::at_the_end);
  other.append("four\n");
  EXPECT_EQ(read_file(path), "one\ntwo\nthree\nfour\n");
  EXPECT_EQ(read_file(folder.path() / "other"), "");
  AppendFile(path, AppendFile::Begin::anew);
  EXPECT_EQ(read_file(path), "");
}

// The lowest number that is free is the next file's.
TEST(AppendFile, ClosesWhatItOpened) {
  const TemporaryFolder folder;
  const auto next = [] {
    const int number = dup(STDERR_FILENO);
    close(number);
    return number;
  };
  const int before = next();
  {
    AppendFile file(folder.path() / "log", AppendFile::Begin::anew);
    AppendFile other(folder.path() / "other", AppendFile::Begin::anew);
    EXPECT_GT(next(), before);
    AppendFile moved = std::move(file);
    moved = std::move(other);
  }
  EXPECT_EQ(next(), before);
}

TEST(AppendFile, NamesWhatCannotBeWritten) {
  const TemporaryFolder folder;
  const auto missing = folder.path() / "none" / "log";
  EXPECT_EQ(error_of([&] { AppendFile(missing, AppendFile::Begin::anew); }, kExitFailed),
            missing.string() + ": cannot be written: No such file or directory");
  if (!std::filesystem::exists("/dev/full")) return;
  AppendFile full("/dev/full", AppendFile::Begin::at_the_end);
  EXPECT_EQ(error_of([&] { full.append("x"); }, kExitFailed),
            "/dev/full: cannot be written: No space left on device");
}

}  // namespace
}  // namespace pal::test
