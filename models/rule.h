// What must hold between options of one struct. A rule stands beside the options that it is about;
// train/config/rules.cc adds those between several structs.
#pragma once
#include <string>
#include <vector>

namespace pal {

template <class S> struct Rule {
  std::string options;             // those it is about, for the reader
  std::string text;                // what must hold
  std::string (*fault)(const S&);  // empty if it holds, else "key: what; what to do"
};
template <class S> using Rules = std::vector<Rule<S>>;

}  // namespace pal
