// A file that is there whole or not at all: what is written through it arrives, however little the
// system takes at once, and what fails leaves the file before it alone.
#include "data/atomic_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include "tests/support/error_of.h"
#include "tests/support/files.h"

namespace pal {
namespace {

namespace fs = std::filesystem;

std::string failure_of(const auto& action) { return test::error_of(action, kExitFailed); }

TEST(AtomicFile, AppearsWholeAndReplacesWhatWasThere) {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "a";
  for (const std::string text : {"first", "second and longer", ""}) {
    AtomicFile file(path);
    file.write("#", 1);
    file.write(text.data(), text.size());
    file.write_again(0, "*", 1);
    EXPECT_NE(fs::exists(path) ? read_file(path) : "", "*" + text);
    file.commit();
    EXPECT_EQ(read_file(path), "*" + text);
    EXPECT_FALSE(fs::exists(path + ".tmp"));
  }
  { AtomicFile dropped(path); }
  EXPECT_EQ(read_file(path), "*");
  EXPECT_FALSE(fs::exists(path + ".tmp"));
}

// Devices stand in for a disk: one is full, one cannot be synced.
TEST(AtomicFile, WhatFailsLeavesTheFileBeforeItAlone) {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "a";
  std::ofstream(path) << "before";
  fs::create_symlink("/dev/full", path + ".tmp");
  const std::string full = failure_of([&] { AtomicFile(path).write("x", 1); });
  EXPECT_NE(full.find("No space left on device while writing"), std::string::npos) << full;
  fs::create_symlink("/dev/null", path + ".tmp");
  const std::string unsynced = failure_of([&] { AtomicFile(path).commit(); });
  EXPECT_NE(unsynced.find("while syncing; the previous file"), std::string::npos) << unsynced;
  EXPECT_EQ(read_file(path), "before");
  EXPECT_FALSE(fs::is_symlink(path + ".tmp"));
  const std::string nowhere = failure_of([&] { AtomicFile(path + "/b"); });
  EXPECT_NE(nowhere.find("while creating"), std::string::npos) << nowhere;
}

// Whoever tries again need not wait for the end of what failed.
TEST(AtomicFile, WhatFailedLeavesTheNextOneAlone) {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "a";
  fs::create_symlink("/dev/full", path + ".tmp");
  auto failed = std::make_unique<AtomicFile>(path);
  failure_of([&] { failed->write("x", 1); });
  AtomicFile next(path);
  next.write("after", 5);
  failed.reset();
  next.commit();
  EXPECT_EQ(read_file(path), "after");
}

// A signal ends a write to a pipe in the middle.
TEST(AtomicFile, GoesOnWhereAWriteWasInterrupted) {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "a", pipe = path + ".tmp";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  struct sigaction ignore {
  }, before;
  ignore.sa_handler = [](int) {};
  ASSERT_EQ(sigaction(SIGUSR1, &ignore, &before), 0);
  std::string sent, got;
  for (int i = 0; i < 1'000'000; ++i) sent += static_cast<char>(i * 31 >> 4);
  std::thread reader([&, writer = pthread_self()] {
    const int from = open(pipe.c_str(), O_RDONLY);
    std::string block(30'000, ' ');
    ssize_t count = 0;
    while ((count = read(from, block.data(), block.size())) > 0) {
      got.append(block, 0, static_cast<size_t>(count));
      usleep(200);  // it fills the pipe and waits
      if (got.size() < sent.size()) pthread_kill(writer, SIGUSR1);
    }
    close(from);
  });
  const std::string said = failure_of([&] {
    AtomicFile file(path);
    file.write(sent.data(), sent.size());
    file.commit();
  });
  reader.join();
  sigaction(SIGUSR1, &before, nullptr);
  EXPECT_TRUE(got == sent);
  EXPECT_NE(said.find("while syncing"), std::string::npos) << said;  // pipes are not
}

}  // namespace
}  // namespace pal
