// What launchers' variables say of a process.
#include "core/ranks/launch.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "core/error.h"

namespace pal {
namespace {

// A launcher's variables alone, while it lives.
class Launched {
 public:
  explicit Launched(const std::map<std::string, std::string>& variables) {
    for (const char* name :
         {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMI_SIZE", "PMI_RANK", "PMIX_RANK",
          "MPI_LOCALNRANKS", "MPI_LOCALRANKID", "SLURM_NTASKS", "SLURM_PROCID", "SLURM_STEP_ID",
          "SLURM_STEP_NUM_TASKS", "WORLD_SIZE"}) {
      if (const char* value = std::getenv(name)) before_[name] = value;
      unsetenv(name);
    }
    for (const auto& [name, value] : variables) {
      setenv(name.c_str(), value.c_str(), 1);
      set_.push_back(name);
    }
  }
  ~Launched() {
    for (const std::string& name : set_) unsetenv(name.c_str());
    for (const auto& [name, value] : before_) setenv(name.c_str(), value.c_str(), 1);
  }
  Launched(const Launched&) = delete;
  Launched& operator=(const Launched&) = delete;

 private:
  std::map<std::string, std::string> before_;
  std::vector<std::string> set_;
};

using Variables = std::map<std::string, std::string>;

// What a batch script's process has of Slurm, and a task of one of its steps besides.
const Variables kBatch{{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}};
Variables task(const std::string& rank, const Variables& more) {
  Variables all = kBatch;
  all["SLURM_STEP_ID"] = "0", all["SLURM_STEP_NUM_TASKS"] = "4", all["SLURM_PROCID"] = rank;
  for (const auto& [name, value] : more) all[name] = value;
  return all;
}

void expect(const Variables& variables, const char* by, int ranks, int rank, bool reachable) {
  const Launched launched(variables);
  const std::optional<Launch> launch = launch_at_hand();
  ASSERT_TRUE(launch) << by;
  EXPECT_EQ(launch->by, by);
  EXPECT_EQ(launch->ranks, ranks) << by;
  EXPECT_EQ(launch->rank, rank) << by;
  EXPECT_EQ(launch->reachable, reachable) << by;
}

void expect_none(const Variables& variables) {
  const Launched launched(variables);
  EXPECT_FALSE(launch_at_hand());
}

TEST(LaunchAtHand, IsThatOfMpirun) {
  expect({{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_RANK", "3"}, {"PMIX_RANK", "3"}},
         "OMPI_COMM_WORLD_SIZE", 4, 3, true);
  expect({{"PMI_SIZE", "2"}, {"PMI_RANK", "1"}, {"MPI_LOCALNRANKS", "2"}}, "PMI_SIZE", 2, 1, true);
  // mpirun in a batch script starts its ranks from a step of Slurm's.
  expect(task("0", {{"OMPI_COMM_WORLD_SIZE", "8"}, {"OMPI_COMM_WORLD_RANK", "5"}}),
         "OMPI_COMM_WORLD_SIZE", 8, 5, true);
  expect({{"MPI_LOCALNRANKS", "2"}, {"MPI_LOCALRANKID", "1"}}, "MPI_LOCALNRANKS", 2, 1, false);
}

TEST(LaunchAtHand, IsThatOfAStepOfSlurm) {
  expect(task("2", {{"PMIX_RANK", "2"}}), "SLURM_STEP_NUM_TASKS", 4, 2, true);
  expect(task("2", {}), "SLURM_STEP_NUM_TASKS", 4, 2, false);
  expect(task("1", {{"PMI_SIZE", "4"}, {"PMI_RANK", "1"}}), "PMI_SIZE", 4, 1, true);
  // The step's tasks count, not the job's.
  expect(task("1", {{"SLURM_NTASKS", "16"}, {"PMIX_RANK", "1"}}), "SLURM_STEP_NUM_TASKS", 4, 1,
         true);
  expect({{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "3"}, {"SLURM_STEP_ID", "1"}}, "SLURM_NTASKS", 4,
         3, false);
}

TEST(LaunchAtHand, IsNoneOfOneProcess) {
  expect_none({});
  expect_none(kBatch);
  expect_none({{"SLURM_NTASKS", "4"}});  // salloc's shell
  expect_none(task("0", {{"SLURM_STEP_NUM_TASKS", "1"}}));
  expect_none({{"MPI_LOCALNRANKS", "1"}, {"MPI_LOCALRANKID", "0"}});
  expect_none({{"WORLD_SIZE", "4"}});  // torchrun's, which is for others
  expect_none({{"OMPI_COMM_WORLD_SIZE", "many"}});
}

TEST(LaunchAtHand, ThatMpiCannotReachIsRefused) {
  const auto said = [](const Variables& variables) -> std::string {
    const Launched launched(variables);
    try {
      open_group(*launch_at_hand());
    } catch (const UsageError& error) {
      return error.what();
    }
    return "a group of one";
  };
  const std::string slurm = said(task("2", {}));
  EXPECT_NE(slurm.find("SLURM_STEP_NUM_TASKS says that this is one of 4"), std::string::npos);
  EXPECT_NE(slurm.find("srun --mpi=pmix"), std::string::npos) << slurm;
  const std::string hydra = said({{"MPI_LOCALNRANKS", "2"}});
  EXPECT_NE(hydra.find("the mpirun of the MPI"), std::string::npos) << hydra;
}

// The folder that PAL_PLUGINS names comes first.
TEST(OpenGroup, SaysWhichPluginItCannotLoad) {
  const std::string folder = testing::TempDir() + "/pal_plugins_" + std::to_string(getpid());
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/libpal_mpi.so") << "no library";
  setenv("PAL_PLUGINS", folder.c_str(), 1);
  std::string said;
  try {
    open_group({.by = "PMI_SIZE", .ranks = 2});
  } catch (const UsageError& error) {
    said = error.what();
  }
  unsetenv("PAL_PLUGINS");
  std::filesystem::remove_all(folder);
  EXPECT_TRUE(said.starts_with("ranks: " + folder + "/libpal_mpi.so: ")) << said;
}

}  // namespace
}  // namespace pal
