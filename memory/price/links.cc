// The two levels of an exchange.
#include "memory/price/links.h"

#include <algorithm>
#include <cmath>

namespace pal {

Links among(Links links, int64_t inside, int64_t between) {
  const bool one = links.nodes() == 1;  // one link, whichever machines it joins
  if (inside > 0) links.ranks = links.per_node = inside;
  if (between > 0) links.ranks = between, links.per_node = one ? between : 1;
  return links;
}

namespace {

double level_seconds(const Link& link, double messages, double bytes) {
  return messages > 0 ? messages * link.latency + bytes / (link.rate * link.efficiency) : 0;
}

}  // namespace

double seconds_to_each(double bytes, const Links& links) {
  const auto others = double(links.ranks - 1), beside = double(links.per_node - 1);
  if (others < 1 || bytes <= 0) return 0;
  return level_seconds(links.inside, beside, bytes * beside / others) +
         level_seconds(links.between, others - beside, bytes * (others - beside) / others);
}

double exchange_seconds(double bytes, double whole, const Links& links) {
  const auto others = double(links.ranks - 1);
  if (others < 1 || bytes <= 0) return 0;
  const double once = whole * others / double(links.ranks);
  const double rounds = once > 0 ? std::max(1.0, std::round(bytes / once)) : 1;
  const auto nodes = double(links.nodes()), beside = double(links.per_node - 1);
  return level_seconds(links.inside, rounds * beside, bytes * nodes * beside / others) +
         level_seconds(links.between, rounds * (nodes - 1), bytes * (nodes - 1) / others);
}

}  // namespace pal
