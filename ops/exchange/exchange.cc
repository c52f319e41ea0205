// all_to_all, all_gather, all_reduce, reduce_scatter: what MPI and NCCL call so.
// own_piece: x[rank]. gather_state: all_gather as an update. pairwise_sum: ((0+1)+(2+3))+...
//
// Without a group of ranks a step can be planned and priced, and run where there is one rank alone.
#include "ops/exchange/exchange.h"

#include <cstring>

#include "core/builder.h"
#include "ops/exchange/exchange_run.h"

namespace pal {
namespace {

// On the processor an exchange is done when its call returns.
struct HostCarrier {
  Group* group;

  explicit HostCarrier(const KernelArgs& a) : group(group_of(a)) {}
  void copy(void* to, const void* from, int64_t bytes) const {
    if (to != from) std::memcpy(to, from, size_t(bytes));
  }
  void zero(void* to, int64_t bytes) const { std::memset(to, 0, size_t(bytes)); }
  void all_to_all(std::span<const Exchanged> x, const Peers& p) const { group->all_to_all(x, p); }
  void all_gather(std::span<const Exchanged> x) const { group->all_gather(x); }
  void all_reduce(std::span<const Reduced> x) const { group->all_reduce(x); }
  void reduce_scatter(std::span<const Reduced> x) const { group->reduce_scatter(x); }
};

// The sum of rows [first, first + count) of n, a tile of it from element i on.
struct PairwiseSum {
  const KernelArgs& a;
  int64_t row;  // elements

  void sum(int64_t first, int64_t count, int64_t i, int64_t n, float* out) const {
    if (count == 1) {
      const float* x = load_tile(a.in[0], a.in_spec[0].dtype, first * row + i, n, out);
      if (x != out) std::memcpy(out, x, size_t(n) * sizeof(float));
      return;
    }
    int64_t left = 1;  // the largest power of two below count
    while (2 * left < count) left *= 2;
    sum(first, left, i, n, out);
    alignas(64) float right[kTile];
    sum(first + left, count - left, i, n, right);
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) out[j] += right[j];
  }
};
void run_pairwise_sum(const KernelArgs& a) {
  const PairwiseSum tree{a, a.out_spec[0].numel()};
  const int64_t rows = a.in_spec[0].shape[0];
  parallel_chunks(a.queue, tree.row, kElementGrain, [&](int64_t begin, int64_t end) {
    alignas(64) float tile[kTile];
    for (int64_t i = begin; i < end; i += kTile) {
      const int64_t n = std::min(end - i, kTile);
      tree.sum(0, rows, i, n, tile);
      std::memcpy(a.output(0) + i, tile, size_t(n) * sizeof(float));
    }
  });
}

int64_t ranks_in(int64_t ranks) {
  require(ranks >= 1, "is for ", ranks, " ranks; want 1 or more");
  return ranks;
}
void require_floats(SpecSpan in) {
  require(!in.empty(), "exchanges nothing");
  for (const TensorSpec& spec : in) {
    require(is_float(spec.dtype) && !spec.layout && present(spec), spec, ": want plain floats");
  }
}

Specs infer_pieces(SpecSpan in, int64_t ranks, bool rows) {
  require_floats(in);
  Specs out;
  for (const TensorSpec& spec : in) {
    const int64_t piece = piece_elements(spec.numel(), ranks_in(ranks));
    out.push_back({rows ? Shape{ranks, piece} : Shape{piece}, spec.dtype});
  }
  return out;
}
int64_t peers_of(const AllToAllAttrs& a) {
  return a.level == Level::all      ? a.ranks
         : a.level == Level::inside ? a.per_node
                                    : a.ranks / a.per_node;
}
Specs infer_rows(SpecSpan in, const Attrs& attrs) {
  const auto& a = attrs.as<AllToAllAttrs>();
  if (a.level == Level::all) return infer_pieces(in, a.ranks, true);
  require_floats(in);
  require(a.per_node >= 1 && ranks_in(a.ranks) % a.per_node == 0, a.ranks,
          " ranks are not so many machines of ", a.per_node);
  const int64_t nodes = a.ranks / a.per_node;
  if (a.level == Level::between) {
    require(a.wholes.size() == in.size(), a.wholes.size(), " wholes of ", in.size(), " operands");
  }
  Specs out;
  for (size_t i = 0; i < in.size(); ++i) {
    const bool inside = a.level == Level::inside;
    const int64_t piece = piece_elements(inside ? in[i].numel() : a.wholes[i].numel(), a.ranks);
    const Shape rows{nodes, piece};
    require(inside || in[i].shape == rows, in[i], ": want pieces ", rows);
    out.push_back({inside ? rows.with_front(a.per_node) : rows, in[i].dtype});
  }
  return out;
}
void require_sums(SpecSpan in) {
  for (const TensorSpec& spec : in) require(spec.dtype == DType::f32, spec, ": want f32");
}
void require_pieces(const TensorSpec& piece, const Shape& whole, int64_t ranks) {
  require(piece.numel() <= whole.numel() && piece.numel() * ranks_in(ranks) >= whole.numel(), piece,
          " of ", ranks, " ranks does not make ", whole);
}

// Of each tensor all but a rank's own piece, `times`: out and back.
Cost link_cost(SpecSpan in, SpecSpan out, double moved, int64_t ranks, double times) {
  Cost cost;
  for (const TensorSpec& spec : in) cost.bytes += double(spec.bytes());
  for (const TensorSpec& spec : out) cost.bytes += double(spec.bytes());
  cost.link = times * moved * double(ranks - 1) / double(ranks);
  return cost;
}
double bytes_of(SpecSpan specs) {
  double bytes = 0;
  for (const TensorSpec& spec : specs) bytes += double(spec.bytes());
  return bytes;
}

// Of all the peers together. Between machines a rank has what is a part of the wholes.
double exchanged_bytes(SpecSpan in, const AllToAllAttrs& a) {
  if (a.level != Level::between) return bytes_of(in);
  double bytes = 0;
  for (size_t i = 0; i < in.size(); ++i) {
    bytes += double(a.wholes[i].numel()) * double(bits(in[i].dtype)) / 8 / double(a.per_node);
  }
  return bytes;
}

ExampleOperand fixed(Shape shape, DType type = DType::f32) {
  return constant(example(shape, type));
}

}  // namespace

const OpDef all_to_all_op{
    .name = "all_to_all",
    .formula = "row q: rank q's part of this rank's piece of x",
    .infer = infer_rows,
    .cost = [](SpecSpan in, SpecSpan out, const Attrs& attrs) -> Cost {
      const auto& a = attrs.as<AllToAllAttrs>();
      Cost cost = link_cost(in, out, exchanged_bytes(in, a), peers_of(a), 1);
      cost.to_each = a.level == Level::all;
      if (a.level == Level::inside) cost.inside = peers_of(a);
      if (a.level == Level::between) cost.between = peers_of(a);
      return cost;
    },
    .collective = true,
    .cpu = {.run = [](const KernelArgs& a) { exchange_rows(a, HostCarrier(a)); },
            .prepare = prepare_exchange<AllToAllAttrs>},
    .cuda = &all_to_all_cuda,
    .examples = {{.operands = {fixed({3, 7})}, .attrs = AllToAllAttrs{}},
                 {.operands = {fixed({33, 1031}), fixed({5}, DType::bf16)},
                  .attrs = AllToAllAttrs{}}},
};

const OpDef all_gather_op{
    .name = "all_gather",
    .formula = "the whole of which every rank has its piece",
    .infer = [](SpecSpan in, const Attrs& attrs) -> Specs {
      const auto& gather = attrs.as<GatherAttrs>();
      require_floats(in);
      require(gather.wholes.size() == in.size(), "has ", int64_t(in.size()), " pieces and ",
              int64_t(gather.wholes.size()), " wholes");
      Specs out;
      for (size_t i = 0; i < in.size(); ++i) {
        require_pieces(in[i], gather.wholes[i], gather.ranks);
        out.push_back({gather.wholes[i], in[i].dtype});
      }
      return out;
    },
    .cost = [](SpecSpan in, SpecSpan out, const Attrs& attrs) -> Cost {
      return link_cost(in, out, bytes_of(out), attrs.as<GatherAttrs>().ranks, 1);
    },
    .collective = true,
    .cpu = {.run = [](const KernelArgs& a) { gather_pieces(a, HostCarrier(a), false); },
            .prepare = prepare_exchange<GatherAttrs>},
    .cuda = &all_gather_cuda,
    .examples = {{.operands = {fixed({21})}, .attrs = GatherAttrs{1, {Shape{3, 7}}}},
                 {.operands = {fixed({2, 600}), fixed({5}, DType::bf16)},
                  .attrs = GatherAttrs{1, {Shape{1200}, Shape{5}}}}},
};

const OpDef all_reduce_op{
    .name = "all_reduce",
    .formula = "the sum of all ranks' x",
    .infer = [](SpecSpan in, const Attrs& attrs) -> Specs {
      ranks_in(attrs.as<RanksAttrs>().ranks);
      require_floats(in);
      require_sums(in);
      return {in.begin(), in.end()};
    },
    .arity = 1,
    .shares = {{0, 0}},
    .cost = [](SpecSpan in, SpecSpan out, const Attrs& attrs) -> Cost {
      return link_cost(in, out, bytes_of(in), attrs.as<RanksAttrs>().ranks, 2);
    },
    .collective = true,
    .cpu = {.run = [](const KernelArgs& a) { reduce_over(a, HostCarrier(a), false); },
            .prepare = prepare_exchange<RanksAttrs>},
    .cuda = &all_reduce_cuda,
    .examples = {{.operands = {fixed({3, 7})}, .attrs = RanksAttrs{}},
                 {.operands = {fixed({33, 1031}), fixed({5})}, .attrs = RanksAttrs{}}},
};

const OpDef reduce_scatter_op{
    .name = "reduce_scatter",
    .formula = "this rank's piece of the sum of all ranks' x",
    .infer = [](SpecSpan in, const Attrs& attrs) -> Specs {
      require_sums(in);
      return infer_pieces(in, attrs.as<RanksAttrs>().ranks, false);
    },
    .cost = [](SpecSpan in, SpecSpan out, const Attrs& attrs) -> Cost {
      return link_cost(in, out, bytes_of(in), attrs.as<RanksAttrs>().ranks, 1);
    },
    .collective = true,
    .cpu = {.run = [](const KernelArgs& a) { reduce_over(a, HostCarrier(a), true); },
            .prepare = prepare_exchange<RanksAttrs>},
    .cuda = &reduce_scatter_cuda,
    .examples = {{.operands = {fixed({3, 7})}, .attrs = RanksAttrs{}},
                 {.operands = {fixed({33, 1031}), fixed({5})}, .attrs = RanksAttrs{}}},
};

const OpDef own_piece_op{
    .name = "own_piece",
    .formula = "this rank's piece of x",
    .infer = [](SpecSpan in, const Attrs& attrs) -> Specs {
      require_operands(in, 1, 1);
      return infer_pieces(in, attrs.as<RanksAttrs>().ranks, false);
    },
    .cost = [](SpecSpan, SpecSpan out, const Attrs&) -> Cost {
      return {0, 2 * bytes_of(out)};
    },
    .cpu = {.run = [](const KernelArgs& a) { take_own_piece(a, HostCarrier(a)); },
            .prepare = prepare_ranks<RanksAttrs>},
    .cuda = &own_piece_cuda,
    .examples = {{.operands = {fixed({3, 7})}, .attrs = RanksAttrs{}},
                 {.operands = {fixed({33, 1031}, DType::bf16)}, .attrs = RanksAttrs{}}},
};

const OpDef gather_state_op{
    .name = "gather_state",
    .formula = "the state, the others' pieces as they have them",
    .infer = [](SpecSpan in, const Attrs& attrs) -> Specs {
      ranks_in(attrs.as<RanksAttrs>().ranks);
      require_floats(in);
      return {in.begin(), in.end()};
    },
    .arity = 1,
    .shares = {{0, 0}},
    .cost = [](SpecSpan in, SpecSpan out, const Attrs& attrs) -> Cost {
      Cost cost = link_cost({}, out, bytes_of(out), attrs.as<RanksAttrs>().ranks, 1);
      cost.bytes += bytes_of(in) / double(attrs.as<RanksAttrs>().ranks);
      return cost;
    },
    .collective = true,
    .writes_state = true,
    .cpu = {.run = [](const KernelArgs& a) { gather_pieces(a, HostCarrier(a), true); },
            .prepare = prepare_exchange<RanksAttrs>},
    .cuda = &gather_state_cuda,
    .examples = {{.operands = {fixed({3, 7})}, .attrs = RanksAttrs{}},
                 {.operands = {fixed({33, 1031}), fixed({5})}, .attrs = RanksAttrs{}}},
};

const OpDef pairwise_sum_op{
    .name = "pairwise_sum",
    .formula = "((x0 + x1) + (x2 + x3)) + .., of rows",
    .infer = [](SpecSpan in, const Attrs&) -> Specs {
      require_operands(in, 1, 1);
      require_floats(in);
      require(in[0].shape.rank() >= 2, in[0], ": want rows");
      return {{in[0].shape.without(0), DType::f32}};
    },
    .cost = [](SpecSpan in, SpecSpan out, const Attrs&) -> Cost {
      return {double(in[0].numel()), bytes_of(in) + bytes_of(out)};
    },
    .cpu = {.run = run_pairwise_sum},
    .cuda = &pairwise_sum_cuda,
    .examples = {{.operands = {fixed({1, 7})}},
                 {.operands = {fixed({6, 3, 5})}},
                 {.operands = {fixed({7, 1031}, DType::bf16)}}},
};

std::vector<Val> all_to_all(const std::vector<Val>& xs, int64_t ranks) {
  return xs.at(0).builder->emit(all_to_all_op, xs, AllToAllAttrs{ranks});
}
std::vector<Val> all_to_all_inside(const std::vector<Val>& xs, int64_t ranks, int64_t per_node) {
  return xs.at(0).builder->emit(all_to_all_op, xs, AllToAllAttrs{ranks, per_node, Level::inside});
}
std::vector<Val> all_to_all_between(const std::vector<Val>& xs, std::vector<Shape> wholes,
                                    int64_t ranks, int64_t per_node) {
  return xs.at(0).builder->emit(all_to_all_op, xs,
                                AllToAllAttrs{ranks, per_node, Level::between, std::move(wholes)});
}
std::vector<Val> all_gather(const std::vector<Val>& pieces, std::vector<Shape> wholes,
                            int64_t ranks) {
  return pieces.at(0).builder->emit(all_gather_op, pieces, GatherAttrs{ranks, std::move(wholes)});
}
std::vector<Val> all_reduce(const std::vector<Val>& xs, int64_t ranks) {
  return xs.at(0).builder->emit(all_reduce_op, xs, RanksAttrs{ranks});
}
std::vector<Val> reduce_scatter(const std::vector<Val>& xs, int64_t ranks) {
  return xs.at(0).builder->emit(reduce_scatter_op, xs, RanksAttrs{ranks});
}
Val own_piece(Val x, int64_t ranks) {
  return x.builder->emit1(own_piece_op, {x}, RanksAttrs{ranks});
}
Val pairwise_sum(Val rows) { return rows.builder->emit1(pairwise_sum_op, {rows}); }

void gather_state(const std::vector<Val>& states, int64_t ranks) {
  states.at(0).builder->emit(gather_state_op, states, RanksAttrs{ranks});
}

}  // namespace pal
