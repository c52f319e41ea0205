// The message of the error that something throws.
#pragma once
#include <gtest/gtest.h>

#include <string>

#include "core/error.h"

namespace pal::test {

// "" where it throws none. An error has to end the program with `code`.
template <class Use> std::string error_of(Use use, ExitCode code = kExitUsage) {
  try {
    use();
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code, code) << error.what();
    return error.what();
  }
  return "";
}

}  // namespace pal::test
