// Fronts on disk: what is costly to make and the same each time is looked up by what it was made
// from. A file is named by that key, says so again inside, and has a sum over all of it; one that
// is torn, or of another planner, is made anew.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>

#include "core/device.h"
#include "memory/front/pool.h"

namespace pal {

// A number over all that a front follows from: the program, the state beside it, the options with
// their profile, the device that kernels are prepared for, and the planner's version.
uint64_t front_key(const Program& recorded, const StateLayout& layout,
                   const CompileOptions& options, const Device& device,
                   const FrontChoices& choices = {});

class FrontCache {
 public:
  // cache_folder()/fronts; empty where there is no such folder.
  static std::filesystem::path usual_folder();

  // An empty path: nothing is kept.
  explicit FrontCache(std::filesystem::path folder = usual_folder(), size_t most_files = 256)
      : folder_(std::move(folder)), most_files_(most_files) {}

  // The front of that key, or nothing; a file that cannot be read as one is told of. `options`,
  // `choices`: as make_front() was handed them. Whoever can write the file can write its sum: what
  // a front says of a program holds once compile() has made that plan of it (AutoPlanner).
  std::optional<Front> find(uint64_t key, const CompileOptions& options,
                            const FrontChoices& choices = {}) const;
  // Beyond so many files the ones that were not used for longest are removed. That nothing can be
  // written is told of, and no error.
  void keep(uint64_t key, const Front& front) const;
  std::filesystem::path file_of(uint64_t key) const;

 private:
  void make_room() const;

  std::filesystem::path folder_;
  size_t most_files_;
};

}  // namespace pal
