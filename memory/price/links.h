// What joins the devices of a run, and how long an exchange over it takes. docs/prediction.md has
// the formula in words.
#pragma once
#include <cstdint>
#include <string>

namespace pal {

// One way of a device to others; configs/links holds real ones (train/config/links.h reads them).
struct Link {
  std::string name;       // "NVLink 4"
  double rate = 0;        // bytes/s each way, of one device
  double latency = 0;     // seconds that a message costs beyond its bytes
  double efficiency = 1;  // the part of the rate that exchanges reach
};

// The ranks of a run, a device each, and what joins them. Where there are several nodes, an
// exchange goes by levels: summed inside a node, then between the nodes, and gathered inside again.
struct Links {
  int64_t ranks = 1, per_node = 1;  // the first is a multiple of the second
  Link inside, between;             // the second where there are several nodes

  int64_t nodes() const { return ranks / per_node; }
};

// Of an exchange of so many ranks of one machine alone, or of so many machines alone, one of each;
// 0 and 0: of all.
Links among(Links links, int64_t inside, int64_t between);

// Seconds of an exchange in which a rank sends `bytes` (Cost::link) of tensors of `whole` bytes in
// all. By levels it sends as many bytes as in one ring: of every N - 1 of them, those of
// nodes * (per_node - 1) inside and those of nodes - 1 between. Messages wait for each other:
// per_node - 1 inside and nodes - 1 between, twice where all of `whole` travels twice (all_reduce).
double exchange_seconds(double bytes, double whole, const Links& links);
// Where every rank sends to every other, one message each.
double seconds_to_each(double bytes, const Links& links);

}  // namespace pal
