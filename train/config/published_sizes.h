// Planning without the data set: the sizes that its step depends on stand in the configuration.
#pragma once
#include <string>

#include "train/config/config.h"

namespace pal {

// Where the training data is missing and the configuration states its sizes, has the data made up
// in these sizes (data.synthetic), and returns a line that says so. Otherwise changes nothing and
// returns an empty text; whoever reads the data then reports what is missing.
std::string use_published_sizes(Config& config);

}  // namespace pal
