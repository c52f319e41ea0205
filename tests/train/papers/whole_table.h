// Whether a reproduced table can be printed, and written as JSON.
#pragma once

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "train/papers/reproduce.h"

namespace pal {

inline void expect_whole(const ReproducedTable& table) {
  SCOPED_TRACE(table.title);
  EXPECT_FALSE(table.rows.empty());
  for (const auto& row : table.rows) EXPECT_EQ(row.size(), table.columns.size());
  const std::set<std::string> names(table.columns.begin(), table.columns.end());
  EXPECT_EQ(names.size(), table.columns.size()) << "as JSON one would be lost";
}

}  // namespace pal
