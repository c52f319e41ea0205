// Times of nodes as they were measured on a device: by what a node does (operator, attributes,
// shapes and types), not by where it stands, so that a clone has its original's.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/program.h"

namespace pal {

// The same in every process. Layouts do not count: a step as it was recorded has none yet.
uint64_t node_key(const Program& program, NodeId node);

struct NodeTimes {
  std::map<uint64_t, double> ms;  // by node_key()
  // Measured by predicted, in sum: of all nodes, and by operator. What a prediction is multiplied
  // by where a node was not measured.
  double scale = 1;
  std::map<std::string, double> by_op;

  double of(const Program& program, NodeId node, double predicted_ms) const;
  bool operator==(const NodeTimes&) const = default;
};

// What each node takes in a typical one of several runs of a program, from the nanoseconds of all
// nodes in each run: the median of the node's shares of its run, as a share of the median run. So
// their sum is what a run takes (a sum of medians is less, where nodes are slow by turns), and a
// run while the machine was slower counts like any other. Empty without runs.
std::vector<int64_t> typical_run(const std::vector<std::vector<int64_t>>& runs);

// The same in milliseconds.
ByNode<double> ms_by_node(const std::vector<int64_t>& ns);

// Steps that were timed, summed up as NodeTimes.
class TimedNodes {
 public:
  // Milliseconds of each node of a program, and what was predicted of it: 0 of what takes no time.
  void add(const Program& program, const ByNode<double>& measured_ms,
           const ByNode<double>& predicted_ms);
  // Of nodes that do the same the mean, so that a timed program's sum stays what it is.
  NodeTimes times() const;

 private:
  struct Sum {
    double measured = 0, predicted = 0;
  };
  struct Mean {
    double ms = 0;  // of all nodes
    int nodes = 0;
  };
  std::map<uint64_t, Mean> means_;  // by node_key()
  Sum all_;
  std::map<std::string, Sum> by_op_;
};

}  // namespace pal
