// Puts exchanges between ranks on a queue of their own, beside the computation: behind
// assign_queues, where it makes the step shorter (memory/exchange_queue.h).
//
// The order comes from a simulated step. An exchange begins when its operands are made and those
// before it are done. Nodes behind it that only lead to updates and to other exchanges (sums of
// pieces, norms, the updates themselves) run when what they read is there; everything else keeps
// its order, but for EarlyOperands. An exchange waits for the nodes that make its operands and,
// where it writes state, for those that read the old value; readers wait for it. Exchanges keep
// their order.
#pragma once
#include <cstdint>
#include <limits>
#include <vector>

#include "core/program.h"

namespace pal {

constexpr QueueId kExchangeQueue = 3;  // behind those of copies

// Of what exchanges hold beside the computation: operands that were made and results that nobody
// has read yet.
constexpr int64_t kAnyBytes = std::numeric_limits<int64_t>::max();

// What runs before its turn, so that exchanges begin earlier.
enum class EarlyOperands : uint8_t {
  none,
  sole,  // nodes of whose results an exchange is the only reader, or one such node
  all    // the operands of the first exchange come before those of the second, and so on
};

struct QueueOptions {
  EarlyOperands early = EarlyOperands::all;
  // Over it, compute waits for the exchange that is under way, and none begins whose results are
  // more than its operands; one alone may hold more.
  int64_t most_held = kAnyBytes;
  // Late readers of an exchange stand so much behind its expected end, in parts of its time:
  // queues run in order, and an exchange that is late holds up all that stands behind its reader.
  double slack = 0;
};
struct QueuedProgram {
  Program program;
  std::vector<NodeId> order;  // of the new program's nodes, the numbers in the old one
};
// `node_ms`: what each node takes.
QueuedProgram queue_exchanges(const Program& program, const ByNode<double>& node_ms,
                              QueueOptions options = {});

// What all exchanges of a program hold together, for choosing QueueOptions::most_held; 0: there are
// none.
int64_t exchanged_bytes(const Program& program);

}  // namespace pal
