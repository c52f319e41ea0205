// The toy kernels and the generator.
#include "tests/support/random_program.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <random>

namespace pal::test {
namespace {

size_t count(const KernelArgs& a, size_t operand = 0) { return size_t(a.in_spec[operand].numel()); }

Specs same(SpecSpan in, const Attrs&) { return {in[0]}; }
Specs one(SpecSpan, const Attrs&) { return {{Shape{1}}}; }

void copy_unless_there(float* to, const float* from, size_t n) {
  if (to && to != from) std::memcpy(to, from, n * sizeof(float));
}

void run_affine(const KernelArgs& a) {
  const float k = a.attrs.as<ToyAttrs>().k;
  const float* x = a.input(0);
  float* y = a.output(0);
  for (size_t i = 0; i < count(a); ++i) y[i] = k * x[i] + 1;
}
void run_add(const KernelArgs& a) {
  const float *x = a.input(0), *y = a.input(1);
  float* z = a.output(0);
  for (size_t i = 0; i < count(a); ++i) z[i] = 0.5f * (x[i] + y[i]);
}
void run_reverse(const KernelArgs& a) {
  float* scratch = reinterpret_cast<float*>(a.workspace);
  const size_t n = count(a);
  std::memcpy(scratch, a.input(0), n * sizeof(float));
  for (size_t i = 0; i < n; ++i) a.output(0)[i] = scratch[n - 1 - i];
}
Prepared prepare_reverse(const Device&, SpecSpan in, SpecSpan, const Attrs&) {
  return {.workspace = in[0].bytes()};
}
void run_view(const KernelArgs& a) { copy_unless_there(a.output(0), a.input(0), count(a)); }
void run_halves(const KernelArgs& a) {
  const size_t n = count(a) / 2;
  copy_unless_there(a.output(0), a.input(0), n);
  copy_unless_there(a.output(1), a.input(0) + n, n);
}
void run_join(const KernelArgs& a) {
  const size_t n = count(a);
  for (size_t k = 0; k < a.in.size(); ++k) copy_unless_there(a.output(0) + k * n, a.input(k), n);
}
void run_sum(const KernelArgs& a) {
  float total = 0;
  for (size_t i = 0; i < count(a); ++i) total += a.input(0)[i];
  a.output(0)[0] = total / float(count(a));
}
void run_gate(const KernelArgs& a) { a.output(0)[0] = 0.5f * a.input(0)[0]; }
void run_updates(const KernelArgs& a) {
  for (size_t k = 0; k < a.in.size(); k += 3) {
    const float *w = a.input(k), *g = a.input(k + 1), *by = a.input(k + 2);
    float* next = a.output(k / 3);
    const float rate = 0.125f * (by ? *by : 1);
    for (size_t i = 0; i < count(a, k); ++i) next[i] = w[i] - rate * g[i];
  }
}

std::vector<Window> view_windows(SpecSpan, SpecSpan, const Attrs&) {
  return {{Window::Of::operand, 0, 0, 0}};
}
std::vector<Window> halves_windows(SpecSpan in, SpecSpan, const Attrs&) {
  return {{Window::Of::operand, 0, 0, 0}, {Window::Of::operand, 1, 0, in[0].bytes() / 2}};
}
std::vector<Window> join_windows(SpecSpan in, SpecSpan, const Attrs&) {
  std::vector<Window> out;
  for (size_t k = 0; k < in.size(); ++k) {
    out.push_back({Window::Of::output, 0, int(k), int64_t(k) * in[0].bytes()});
  }
  return out;
}
Specs half_specs(SpecSpan in, const Attrs&) {
  const TensorSpec half{Shape{in[0].numel() / 2}};
  return {half, half};
}
Specs join_specs(SpecSpan in, const Attrs&) {
  return {{Shape{in[0].numel() * int64_t(in.size())}}};
}
Specs update_specs(SpecSpan in, const Attrs&) {
  Specs out;
  for (size_t k = 0; k < in.size(); k += 3) out.push_back(in[k]);
  return out;
}

}  // namespace

const OpDef toy_affine{
    .name = "affine", .formula = "k x + 1", .infer = same, .shares = {{0, 0}}, .cpu = {run_affine}};
const OpDef toy_add{.name = "add",
                    .formula = "(a + b) / 2",
                    .infer = same,
                    .shares = {{0, 0}, {0, 1}},
                    .cpu = {run_add}};
const OpDef toy_reverse{.name = "reverse",
                        .formula = "x backwards",
                        .infer = same,
                        .cpu = {run_reverse, prepare_reverse}};
const OpDef toy_view{
    .name = "view", .formula = "x", .infer = same, .windows = view_windows, .cpu = {run_view}};
const OpDef toy_halves{.name = "halves",
                       .formula = "x in two",
                       .infer = half_specs,
                       .windows = halves_windows,
                       .cpu = {run_halves}};
const OpDef toy_join{.name = "join",
                     .formula = "one after the other",
                     .infer = join_specs,
                     .windows = join_windows,
                     .cpu = {run_join}};
const OpDef toy_sum{.name = "sum", .formula = "mean of x", .infer = one, .cpu = {run_sum}};
const OpDef toy_gate{.name = "gate", .formula = "x / 2", .infer = one, .cpu = {run_gate}};
const OpDef toy_update{.name = "update",
                       .formula = "w - g/8",
                       .infer = update_specs,
                       .optional_from = 2,
                       .arity = 3,
                       .shares = {{0, 0}},
                       .writes_state = true,
                       .cpu = {run_updates}};

Val affine(Val x, float k) { return x.builder->emit1(toy_affine, {x}, ToyAttrs{k}); }
Val plus(Val a, Val b) { return a.builder->emit1(toy_add, {a, b}); }
Val reverse(Val x) { return x.builder->emit1(toy_reverse, {x}); }
Val view(Val x) { return x.builder->emit1(toy_view, {x}); }
std::vector<Val> halves(Val x) { return x.builder->emit(toy_halves, {x}); }
Val join(std::vector<Val> parts) { return parts[0].builder->emit1(toy_join, parts); }
Val sum(Val x) { return x.builder->emit1(toy_sum, {x}); }
Val gate(Val x) {
  const Val y = x.builder->emit1(toy_gate, {x});
  y.builder->program().value(y.id).role = Role::gate;
  return y;
}
Val update(Val w, Val g, Val by) { return w.builder->emit1(toy_update, {w, g, by}); }

namespace {

// Offloaded and reloaded on a queue.
Val round_trip(Val x, QueueId queue) {
  Builder& b = *x.builder;
  auto copy = [&](Val v, Phase phase) {
    Builder::Within within(b, phase);
    Val out = affine(v, 1);
    b.program().nodes.back().queue = queue;
    return out;
  };
  Val host = copy(x, Phase::offload);
  return copy(host, Phase::reload);
}

}  // namespace

void add_waits(Program& program) {
  auto wait = [&](NodeId n, NodeId on) {
    Node& node = program.node(n);
    if (on == kNone || on == n || program.node(on).queue == node.queue) return;
    if (std::find(node.waits.begin(), node.waits.end(), on) == node.waits.end()) {
      node.waits.push_back(on);
    }
  };
  const auto readers = readers_of(program);
  for (NodeId n = 0; n < program.node_count(); ++n) {
    const Node node = program.node(n);
    for (ValueId v : node.in) {
      if (v != kNone) wait(n, program.value(v).producer);
    }
    if (!node.op->writes_state) continue;
    wait(n,
         program.output("loss") == kNone ? kNone : program.value(program.output("loss")).producer);
    for (size_t i = 0; i < node.out.size(); ++i) {
      for (NodeId r : readers[size_t(node.in[size_t(written_operand(*node.op, int(i)))])])
        wait(n, r);
    }
  }
}

Program random_program(uint64_t seed, const RandomOptions& options) {
  std::mt19937_64 random(seed);
  auto below = [&](size_t n) { return size_t(random() % n); };
  Builder b;
  std::vector<Val> pool;
  const int64_t sizes[] = {4, 12, 20, 40, 64};
  for (int i = 0; i < 2; ++i) {
    pool.push_back(b.input("x" + std::to_string(i), {Shape{sizes[below(5)]}}));
  }
  std::vector<Val> weights;
  for (int i = 0; i < options.states; ++i) {
    weights.push_back(b.state("w" + std::to_string(i), {Shape{sizes[below(5)]}}, Role::weight));
    pool.push_back(weights.back());
  }
  // Mostly something recent: then most values die young, and some live long.
  auto pick = [&] {
    const size_t reach = below(3) ? std::min<size_t>(pool.size(), 6) : pool.size();
    return pool[pool.size() - 1 - below(reach)];
  };
  auto same_size = [&](Val x) {
    std::vector<Val> fit;
    for (Val v : pool) {
      if (v.spec() == x.spec()) fit.push_back(v);
    }
    return fit[fit.size() - 1 - below(std::min<size_t>(fit.size(), 4))];
  };
  while (b.program().node_count() < options.nodes) {
    Val x = pick();
    const int64_t n = x.shape().numel();
    switch (below(options.two_queues || options.copies ? 9 : 8)) {
      case 0:
      case 1: pool.push_back(affine(x, float(below(3)) - 1)); break;
      case 2:
      case 3: pool.push_back(plus(x, same_size(x))); break;
      case 4: pool.push_back(reverse(x)); break;
      case 5: pool.push_back(view(x)); break;
      case 6:
        if (n % 2 == 0 && n >= 4) {
          for (Val half : halves(x)) pool.push_back(half);
        }
        break;
      case 7:
        if (n <= 64) {
          std::vector<Val> parts{x};
          for (size_t k = below(3) + 1; k > 0; --k) parts.push_back(same_size(x));
          pool.push_back(join(parts));
        }
        break;
      default: pool.push_back(round_trip(x, options.two_queues ? 1 : kComputeQueue));
    }
  }
  Val loss = sum(pool.back());
  for (size_t i = 0; i < 3; ++i) loss = plus(loss, sum(pick()));
  b.output("loss", loss);
  b.output("y", affine(pick(), 1));  // not state itself: that is written over
  Val by = options.gated ? gate(loss) : Val{};
  std::vector<Val> gradients;
  for (Val w : weights) gradients.push_back(affine(same_size(w), 0.5f));
  for (size_t i = 0; i < weights.size(); ++i) update(weights[i], gradients[i], by);
  Program program = b.take();
  add_waits(program);
  return program;
}

uint64_t programs_asked(uint64_t usual) {
  const char* asked = std::getenv("PAL_TEST_PROGRAMS");
  return asked ? uint64_t(std::atoll(asked)) : usual;
}

}  // namespace pal::test
