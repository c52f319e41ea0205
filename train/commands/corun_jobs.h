// Jobs of pal corun by name: in what is said of them, and in their errors.
#pragma once
#include <cstddef>
#include <string>

#include "core/error.h"

namespace pal {

// "job 2 (nmt_small)"; jobs are counted from 1.
inline std::string job_name(size_t i, const std::string& name) {
  return "job " + std::to_string(i + 1) + " (" + name + ")";
}

// Calls work(); an error of it names the job.
template <class Work> void for_job(size_t i, const std::string& name, Work work) {
  try {
    work();
  } catch (const UsageError& e) {
    throw UsageError(job_name(i, name) + ": " + e.what());
  } catch (const Error& e) {
    throw Error(e.exit_code, job_name(i, name) + ": " + e.what());
  }
}

}  // namespace pal
