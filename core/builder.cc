// Recording: inference, roles, scopes, and which value holds a state slot at the end.
#include "core/builder.h"

#include "core/error.h"
#include "core/op.h"

namespace pal {
namespace {

Role role_of_output(Phase phase) {
  switch (phase) {
    case Phase::forward:
    case Phase::recompute: return Role::feature_map;
    case Phase::encode: return Role::encoded;
    case Phase::offload: return Role::host_copy;
    default: return Role::gradient_map;
  }
}

}  // namespace

const TensorSpec& Val::spec() const { return builder->program().value(id).spec; }

Val Builder::input(const std::string& name, TensorSpec spec, Space space) {
  Value value{.spec = std::move(spec), .role = Role::input, .space = space, .scope = scope_};
  const ValueId id = program_.values.add(std::move(value));
  program_.inputs.push_back({name, id});
  return space == Space::device ? read({this, id}) : Val{this, id};
}

Val Builder::read(Val value) {
  const TensorSpec& spec = value.spec();
  const Role role = program_.value(value.id).role;
  const bool copied = feature_type_ != DType::f32 && spec.dtype == DType::f32 &&
                      spec.shape.rank() > 1 && (role == Role::input || role == Role::weight);
  if (!copied) return value;
  auto [at, added] = copies_.emplace(value.id, kNone);
  if (added) {
    at->second = cast_(value, feature_type_).id;
    program_.value(at->second).role = role;
  }
  return {this, at->second};
}

Val Builder::state(const std::string& name, TensorSpec spec, Role role, Init init) {
  if (const StateSlot* slot = program_.find_state(name)) {
    if (!(program_.value(slot->start).spec == spec)) {
      throw ProgramError("state " + name + " is " + to_string(program_.value(slot->start).spec) +
                         ", asked for as " + to_string(spec));
    }
    return read({this, slot->end});
  }
  const ValueId id = program_.values.add({.spec = std::move(spec), .role = role, .scope = scope_});
  program_.state.push_back({name, role, init, id, id});
  return read({this, id});
}

Val Builder::weight(const std::string& name, TensorSpec spec, Init init) {
  return state(scope().empty() ? name : scope() + "/" + name, std::move(spec), Role::weight, init);
}

void Builder::output(const std::string& name, Val value) {
  program_.outputs.push_back({name, value.id});
}

ScopeId Builder::scope_id(const std::string& name) {
  // Built on a program that had scopes already.
  for (size_t i = scope_ids_.size(); i < program_.scopes.size(); ++i) {
    scope_ids_.emplace(program_.scopes[i], ScopeId(i));
  }
  auto [at, added] = scope_ids_.emplace(name, ScopeId(program_.scopes.size()));
  if (added) program_.scopes.push_back(name);
  return at->second;
}

std::vector<Val> Builder::emit(const OpDef& op, std::vector<Val> in, Attrs attrs) {
  Specs specs;
  std::vector<ValueId> operands;
  for (size_t i = 0; i < in.size(); ++i) {
    require_of(op, in[i].id != kNone || place_in_group(op, i) >= op.optional_from, "operand ", i,
               " is missing");
    require_of(op, in[i].id == kNone || in[i].builder == this, "operand ", i,
               " belongs to another program");
    operands.push_back(in[i].id);
    specs.push_back(in[i].id == kNone ? TensorSpec{} : in[i].spec());
  }
  Specs out_specs;
  try {
    out_specs = infer_specs(op, specs, attrs);
  } catch (const ProgramError& error) {
    if (scope().empty()) throw;
    throw ProgramError(error.what() + (", at " + scope()));
  }
  Node node{.op = &op,
            .attrs = std::move(attrs),
            .in = std::move(operands),
            .phase = phase_,
            .scope = scope_,
            .step = step_};
  if (op.writes_state) node.phase = Phase::update;
  if (op.collective) {
    for (NodeId n = program_.node_count(); n-- > 0 && node.waits.empty();) {
      if (program_.node(n).op->collective) node.waits = {n};
    }
  }
  std::vector<Val> out;
  for (size_t i = 0; i < out_specs.size(); ++i) {
    Value value{.spec = std::move(out_specs[i]),
                .role = role_of_output(node.phase),
                .scope = scope_,
                .step = step_,
                .producer = program_.node_count()};
    if (node.phase == Phase::offload) value.space = Space::host;
    const ValueId id = program_.values.next_id();
    if (op.writes_state) {
      ValueId old = node.in[size_t(written_operand(op, int(i)))];
      bool found = false;
      for (StateSlot& slot : program_.state) {
        if (slot.end != old || old == kNone) continue;
        slot.end = id, value.role = slot.role, found = true;
      }
      require_of(op, found || old == kNone, "it can only write the newest value of a state slot");
      if (old == kNone) {  // an optional state that is absent has no next value
        node.out.push_back(kNone);
        out.push_back({});
        continue;
      }
    }
    program_.values.push_back(std::move(value));
    node.out.push_back(id);
    out.push_back({this, id});
  }
  program_.nodes.push_back(std::move(node));
  return out;
}

Builder::Within::Within(Builder& builder)
    : builder_(builder), scope_(builder.scope_), step_(builder.step_), phase_(builder.phase_) {}

Builder::Within::Within(Builder& builder, const std::string& name, int32_t step) : Within(builder) {
  if (!name.empty()) {
    builder.scope_ =
        builder.scope_id(builder.scope().empty() ? name : builder.scope() + "/" + name);
  }
  if (step != kNone) builder.step_ = step;
}

Builder::Within::Within(Builder& builder, Phase phase) : Within(builder) { builder.phase_ = phase; }

Builder::Within::Within(Builder& builder, const Node& node, Phase phase) : Within(builder, phase) {
  builder.scope_ = node.scope;
  builder.step_ = node.step;
}

Builder::Within::~Within() {
  builder_.scope_ = scope_;
  builder_.step_ = step_;
  builder_.phase_ = phase_;
}

}  // namespace pal
