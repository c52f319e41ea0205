// A training step as a flat list: values, nodes in schedule order, and the state they carry.
// Passes are functions Program -> Program; nothing here computes.
#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/attrs.h"
#include "core/ids.h"
#include "core/spec.h"

namespace pal {

struct OpDef;

using QueueId = uint8_t;

// What a value is for; footprints are broken down by it (Echo, Figure 4).
enum class Role : uint8_t {
  input,
  weight,
  weight_gradient,
  optimizer_state,
  feature_map,
  gradient_map,
  statistic,
  encoded,
  workspace,
  host_copy,
  gate  // says whether and how updates are applied
};
enum class Phase : uint8_t {
  forward,
  backward,
  update,
  recompute,
  encode,
  decode,
  offload,
  reload
};
// Which memory a value lives in. On the CPU both are ordinary memory in regions of their own.
enum class Space : uint8_t { device, host };

const char* to_string(Role role);
const char* to_string(Phase phase);

constexpr QueueId kComputeQueue = 0;

struct Value {
  TensorSpec spec;
  Role role = Role::feature_map;
  Space space = Space::device;
  ScopeId scope = 0;
  int32_t step = kNone;     // the time step it belongs to, where there is one
  NodeId producer = kNone;  // kNone: an input, or a state slot's value at start
  ValueId origin = kNone;   // its number in the step as it was recorded (set by compile())
};

struct Node {
  const OpDef* op = nullptr;
  Attrs attrs;
  std::vector<ValueId> in;   // kNone where an optional operand is absent
  std::vector<ValueId> out;  // kNone where the output is not read
  Phase phase = Phase::forward;
  QueueId queue = kComputeQueue;
  std::vector<NodeId> waits;  // nodes on other queues that must have finished
  ScopeId scope = 0;
  int32_t step = kNone;
};

// How a state slot gets its first value; drawn by the trainer from (seed, name).
struct Init {
  enum class Kind : uint8_t {
    constant,
    uniform,
    normal,
    orthogonal,
    lstm_bias
  } kind = Kind::constant;
  float a = 0;  // the constant; the half width; the standard deviation; the gain; the forget gate's
                // part of (4H), the second quarter, of which the rest is zero
};

// Weights, optimizer state, running statistics, accumulators: carried from step to step as
// (value at start, value at end), which share bytes. end == start when the program only reads it.
struct StateSlot {
  std::string name;
  Role role = Role::weight;
  Init init;
  ValueId start = kNone, end = kNone;
};

struct NamedValue {
  std::string name;
  ValueId value;
};

// The values of a list that are there, not kNone: `for (ValueId v : present(node.in))`.
class Present {
 public:
  struct Iterator {
    const ValueId *at, *end;
    ValueId operator*() const { return *at; }
    Iterator& operator++() { return ++at, skip(); }
    Iterator& skip() {
      while (at != end && *at == kNone) ++at;
      return *this;
    }
    bool operator!=(const Iterator& other) const { return at != other.at; }
  };
  explicit Present(std::span<const ValueId> values) : values_(values) {}
  Iterator begin() const { return Iterator{values_.data(), last()}.skip(); }
  Iterator end() const { return {last(), last()}; }

 private:
  const ValueId* last() const { return values_.data() + values_.size(); }
  std::span<const ValueId> values_;
};
inline Present present(const std::vector<ValueId>& values) { return Present(values); }
Present present(std::vector<ValueId>&&) = delete;  // it would be gone

struct Program {
  ByValue<Value> values;
  ByNode<Node> nodes;
  std::vector<StateSlot> state;
  std::vector<NamedValue> inputs;   // filled by the caller before the step
  std::vector<NamedValue> outputs;  // read by the caller after the step: alive to its end
  std::vector<std::string> scopes{""};

  const Value& value(ValueId id) const { return values[id]; }
  Value& value(ValueId id) { return values[id]; }
  const Node& node(NodeId id) const { return nodes[id]; }
  Node& node(NodeId id) { return nodes[id]; }
  NodeId node_count() const { return nodes.next_id(); }

  ValueId input(const std::string& name) const;   // ProgramError when there is none
  ValueId output(const std::string& name) const;  // likewise
  const StateSlot* find_state(const std::string& name) const;
  std::string scope_of(const Node& node) const;  // "encoder/rnn/0 t=3"

  // Finds every value's producer again after nodes were inserted, dropped or permuted.
  void relink();
};

// All but the nodes, with room for so many more values.
Program without_nodes(const Program& program, size_t more_values = 0);

// The nodes in a new order, waits and producers renumbered. `order` lists every node once.
Program permuted(const Program& program, const std::vector<NodeId>& order);

// The same nodes in the same order, over values of the same specs.
bool same_step(const Program& a, const Program& b);

// For each value, the nodes that read it, in schedule order (each node once). One flat table.
class Readers {
 public:
  explicit Readers(const Program& program);
  std::span<const NodeId> operator[](ValueId value) const {
    return {nodes_.data() + begin_[value], begin_[value + 1] - begin_[value]};
  }

 private:
  ByValue<size_t> begin_;  // into nodes_
  std::vector<NodeId> nodes_;
};
inline Readers readers_of(const Program& program) { return Readers(program); }

}  // namespace pal
