// Options of techniques.
#include "memory/front/techniques.h"

#include <cmath>
#include <string>
#include <utility>

namespace pal {
namespace {

constexpr double kFrontOverheads[] = {0.02, 0.05, 0.09, 0.15, 0.3};
// Of the exact plans so many, from the least on, are tried with rounded maps.
constexpr size_t kRoundedPlans = 8;

std::string echo_at(double part) {
  return "echo " + std::to_string(int(std::lround(100 * part))) + " %";
}

}  // namespace

std::vector<Family> techniques(const CompileOptions& plain, bool copies) {
  std::vector<Family> families;
  CompileOptions one = plain;
  for (const Recompute method : {Recompute::mirror, Recompute::sqrt}) {
    one.recompute = method;
    families.push_back(alone({.options = one, .from = to_string(method)}));
  }
  Family echo;
  one.recompute = Recompute::echo;
  for (const double part : kFrontOverheads) {
    one.recompute_options.overhead = part;
    echo.push_back({.options = one, .from = echo_at(part)});
    if (!copies) continue;
    CompileOptions swapped = one;
    swapped.swap.method = Swap::planned;
    echo.push_back({.options = std::move(swapped), .from = echo_at(part) + ", swapped"});
  }
  families.push_back(std::move(echo));
  one = plain;
  one.encode = kBits;
  families.push_back(alone({.options = one, .from = "bits"}));
  if (copies) {
    one = plain;
    for (const Swap method : {Swap::naive, Swap::vdnn, Swap::planned}) {
      one.swap.method = method;
      families.push_back(alone({.options = one, .from = "swap " + std::string(name_of(method))}));
    }
  }
  return families;
}

std::vector<Family> rounded(const CompileOptions& plain, const std::vector<FrontPoint>& exact) {
  std::vector<Family> families;
  const size_t every = exact.size() / kRoundedPlans + 1;
  CompileOptions one = plain;
  one.encode = kBits;
  for (size_t i = 0; i < names(Dpr{}).size(); ++i) {
    one.encode.dpr = Dpr(i);
    const std::string name = name_of(*one.encode.dpr);
    one.recompute = Recompute::none;
    families.push_back(alone({.options = one, .from = name}));
    for (const Recompute method : {Recompute::echo, Recompute::sqrt}) {
      one.recompute = method;
      families.push_back(
          alone({.options = one, .from = std::string(to_string(method)) + ", " + name}));
    }
    for (size_t k = 0; k < exact.size(); k += every) {
      const FrontPoint& point = exact[exact.size() - 1 - k];
      CompileOptions over = point.options;
      over.encode = kBits, over.encode.dpr = one.encode.dpr;
      over.place_effort = plain.place_effort;
      families.push_back(alone({.options = std::move(over), .from = point.from + ", " + name}));
    }
  }
  return families;
}

}  // namespace pal
