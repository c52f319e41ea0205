// What ranks exchange, as their group is asked for it: the same for both devices. A Carrier is how
// bytes move on one of them:
//   group                          whom it asks; null: there is one rank
//   copy(to, from, bytes)          nothing where `to` is `from`
//   zero(to, bytes)
//   all_to_all(tensors, peers), .. the group's
#pragma once
#include "core/op.h"
#include "ops/exchange/exchange_attrs.h"
#include "ops/kernels/operands.h"
#include "ops/kernels/ranks.h"

namespace pal {

// A step's exchanges come one after the other, so a kernel's state has room for its tensors.
struct ExchangeState : Ranks {
  std::vector<Exchanged> exchanged;
  std::vector<Reduced> reduced;
};
template <class A>
Prepared prepare_exchange(const Device& device, SpecSpan in, SpecSpan, const Attrs& a) {
  auto state = std::make_shared<ExchangeState>();
  static_cast<Ranks&>(*state) = ranks_of(device, a.as<A>().ranks);
  state->exchanged.reserve(in.size()), state->reduced.reserve(in.size());
  return {.state = std::shared_ptr<Ranks>(std::move(state))};
}
inline ExchangeState& state_of_exchange(const KernelArgs& a) {
  auto& state = static_cast<ExchangeState&>(*static_cast<Ranks*>(a.state));
  state.exchanged.clear(), state.reduced.clear();
  return state;
}

inline int64_t element_bytes(const TensorSpec& spec) { return bits(spec.dtype) / 8; }
inline Divided divided_by(const TensorSpec& whole, int64_t piece_elements) {
  return {whole.bytes(), piece_elements * element_bytes(whole)};
}
inline const std::byte* bytes_in(const KernelArgs& a, size_t i) {
  return static_cast<const std::byte*>(a.in[i]);
}
inline std::byte* bytes_out(const KernelArgs& a, size_t i) {
  return static_cast<std::byte*>(a.out[i]);
}

// A tensor that no rank reads is not exchanged: all have the same program.
template <class Carrier> void exchange_rows(const KernelArgs& a, const Carrier& carrier) {
  const auto& attrs = a.attrs.as<AllToAllAttrs>();
  const bool inside = attrs.level == Level::inside, between = attrs.level == Level::between;
  const int rank = carrier.group ? carrier.group->rank() : 0;
  const auto here = int(attrs.per_node), nodes = int(attrs.ranks / attrs.per_node);
  const Peers peers = inside    ? Peers{rank / here * here, 1, here}
                      : between ? Peers{rank % here, here, nodes}
                                : Peers{0, 1, int(attrs.ranks)};
  const int times =
      inside ? nodes : 1;  // that each peer has a piece, one behind the other in a row
  std::vector<Exchanged>& tensors = state_of_exchange(a).exchanged;
  for (size_t i = 0; i < a.in.size(); ++i) {
    if (!a.out[i]) continue;
    const Shape& shape = a.out_spec[i].shape;
    const TensorSpec whole =
        between ? TensorSpec{attrs.wholes[i], a.in_spec[i].dtype} : a.in_spec[i];
    const Divided d = divided_by(whole, shape[shape.rank() - 1]);
    for (int k = 0; k < times; ++k) {
      const Exchanged x{.from = bytes_in(a, i),
                        .to = bytes_out(a, i) + k * d.piece,
                        .divided = d,
                        .first = between ? rank % here : k * here,
                        .step = between ? here : 1,
                        .row = times * d.piece,
                        .rows = between};
      const int64_t bytes = x.bytes_of(peers.number(rank));
      for (int q = 0; q < peers.count; ++q) {
        carrier.zero(x.to + q * x.row + bytes, d.piece - bytes);
      }
      tensors.push_back(x);
    }
  }
  if (carrier.group) return carrier.all_to_all(tensors, peers);
  for (const Exchanged& x : tensors) carrier.copy(x.to, x.from, x.divided.whole);
}

// `in_place`: the operand is the whole, of which this rank has its own piece; else it is the piece.
template <class Carrier>
void gather_pieces(const KernelArgs& a, const Carrier& carrier, bool in_place) {
  const auto* const group = carrier.group;
  std::vector<Exchanged>& tensors = state_of_exchange(a).exchanged;
  for (size_t i = 0; i < a.out.size(); ++i) {
    if (!a.out[i]) continue;
    const int64_t elements = a.in_spec[i].numel();
    const int64_t ranks = group ? group->size() : 1;
    const Divided d =
        divided_by(a.out_spec[i], in_place ? piece_elements(elements, ranks) : elements);
    const int64_t begin = in_place && group ? d.begin(group->rank()) : 0;
    tensors.push_back({bytes_in(a, i) + begin, bytes_out(a, i), d});
  }
  if (group) return carrier.all_gather(tensors);
  for (const Exchanged& x : tensors) carrier.copy(x.to, x.from, x.divided.whole);
}

// All of a sum, or this rank's piece.
template <class Carrier> void reduce_over(const KernelArgs& a, const Carrier& carrier, bool piece) {
  const auto* const group = carrier.group;
  std::vector<Reduced>& tensors = state_of_exchange(a).reduced;
  for (size_t i = 0; i < a.in.size(); ++i) {
    if (!a.out[i]) continue;
    const Divided d =
        divided_by(a.in_spec[i], piece_elements(a.in_spec[i].numel(), group ? group->size() : 1));
    tensors.push_back({a.input<float>(i), a.output<float>(i), d});
    if (!piece) continue;
    const int64_t own = d.bytes(group ? group->rank() : 0);
    carrier.zero(bytes_out(a, i) + own, a.out_spec[i].bytes() - own);
  }
  if (group) return piece ? carrier.reduce_scatter(tensors) : carrier.all_reduce(tensors);
  for (const Reduced& x : tensors) carrier.copy(x.to, x.from, x.divided.whole);
}

template <class Carrier> void take_own_piece(const KernelArgs& a, const Carrier& carrier) {
  const OwnPiece own = own_piece_of(a, a.in_spec[0].numel());
  const int64_t each = element_bytes(a.in_spec[0]), bytes = own.count * each;
  carrier.copy(a.out[0], bytes_in(a, 0) + own.begin * each, bytes);
  carrier.zero(bytes_out(a, 0) + bytes, a.out_spec[0].bytes() - bytes);
}

}  // namespace pal
