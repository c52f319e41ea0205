// Which part of a machine's processors is a rank's, whatever the launcher bound it to.
#include "core/ranks/processors.h"

#include <gtest/gtest.h>
#include <omp.h>
#include <sched.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "tests/support/thread_group.h"

namespace pal {
namespace {

RankProcessors of(int machine, int first, int count) {
  RankProcessors out{.machine = machine};
  for (int p = first; p < first + count; ++p) out.add(p);
  return out;
}

std::vector<int> own(const std::vector<RankProcessors>& ranks) {
  std::vector<int> out;
  for (size_t q = 0; q < ranks.size(); ++q) out.push_back(own_processors(ranks, int(q)));
  return out;
}

TEST(OwnProcessors, OfEqualMasksAreDivided) {
  EXPECT_EQ(own({of(0, 0, 16), of(0, 0, 16)}), (std::vector{8, 8}));
  EXPECT_EQ(own({of(0, 0, 3), of(0, 0, 3), of(0, 0, 3)}), (std::vector{1, 1, 1}));
  EXPECT_EQ(own({of(0, 0, 7), of(0, 0, 7)}), (std::vector{3, 3}));
  EXPECT_EQ(own({of(0, 0, 2), of(0, 0, 2), of(0, 0, 2)}), (std::vector{1, 1, 1}));
}

// mpirun --bind-to socket, srun --cpus-per-task: the launcher has divided them already.
TEST(OwnProcessors, OfDisjointMasksAreNotDividedAgain) {
  EXPECT_EQ(own({of(0, 0, 8), of(0, 8, 8)}), (std::vector{8, 8}));
  EXPECT_EQ(own({of(0, 100, 1), of(0, 4000, 5)}), (std::vector{1, 5}));
}

// Two ranks a socket: each pair divides its own.
TEST(OwnProcessors, AreSharedByThoseThatShareThem) {
  EXPECT_EQ(own({of(0, 0, 8), of(0, 0, 8), of(0, 8, 8), of(0, 8, 8)}), (std::vector{4, 4, 4, 4}));
  EXPECT_EQ(own({of(0, 0, 8), of(0, 4, 8)}), (std::vector{6, 6}));
  EXPECT_EQ(own({of(0, 0, 2), of(0, 0, 16)}), (std::vector{1, 15}));
}

TEST(OwnProcessors, OfOtherMachinesAreOthers) {
  EXPECT_EQ(own({of(0, 0, 8), of(1, 0, 8), of(1, 0, 8)}), (std::vector{8, 4, 4}));
}

// As `taskset` binds them.
TEST(OwnProcessors, AreThoseThatTheSystemSays) {
  cpu_set_t all;
  ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  std::vector<int> processors;
  for (int p = 0; p < CPU_SETSIZE; ++p) {
    if (CPU_ISSET(p, &all)) processors.push_back(p);
  }
  const int half = int(processors.size()) / 2;
  if (half < 1) GTEST_SKIP() << "one processor alone";
  const auto each = [&](bool bound) {
    std::vector<int> found(2);
    test::as_ranks(2, [&](const std::shared_ptr<Group>& group) {
      const auto rank = size_t(group->rank());
      cpu_set_t mask;
      CPU_ZERO(&mask);
      for (int i = 0; i < 2 * half; ++i) {
        if (!bound || i / half == int(rank)) CPU_SET(size_t(processors[size_t(i)]), &mask);
      }
      ASSERT_EQ(sched_setaffinity(0, sizeof mask, &mask), 0);
      found[rank] = own_processors(*group);
    });
    return found;
  };
  EXPECT_EQ(each(true), (std::vector{half, half}));
  EXPECT_EQ(each(false), (std::vector{half, half}));
  test::ThreadGroup alone(std::make_shared<test::MeetingPlace>(1), 0, 1, 1);
  EXPECT_EQ(own_processors(alone), int(processors.size()));
}

// OpenMP reads its variables as a program begins: where none have bound the threads of this one, it
// starts another.
TEST(OwnProcessors, AreThePlacesOfThreadsThatAreBound) {
  if (omp_get_num_places() == 0) {
    const std::string program = std::filesystem::read_symlink("/proc/self/exe");
    const std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
    const std::string command = "OMP_PROC_BIND=true OMP_PLACES=threads '" + program +
                                "' --gtest_filter=OwnProcessors." + name + " >/dev/null";
    EXPECT_EQ(std::system(command.c_str()), 0);
    return;
  }
  int processors = 0;
  for (int place = 0; place < omp_get_num_places(); ++place) {
    processors += omp_get_place_num_procs(place);
  }
  test::ThreadGroup alone(std::make_shared<test::MeetingPlace>(1), 0, 1, 1);
  EXPECT_EQ(own_processors(alone), processors);
}

}  // namespace
}  // namespace pal
