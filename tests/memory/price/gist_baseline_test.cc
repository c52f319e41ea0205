// The bytes of a step as Gist counts them: by hand for a chain, and properties.
#include "memory/price/gist_baseline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "autograd/differentiate.h"
#include "core/builder.h"
#include "core/op.h"
#include "core/rewriter.h"
#include "memory/passes/encode.h"
#include "memory/place/buffers/load.h"
#include "memory/price/baselines.h"
#include "memory/storages/storages.h"
#include "ops/convolution/conv2d.h"
#include "ops/convolution/max_pool.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/add.h"
#include "ops/encodings/ssdc.h"
#include "ops/products/matmul.h"
#include "ops/sums/reduce.h"
#include "ops/tensors/casts.h"
#include "ops/tensors/views.h"
#include "tests/support/random_network.h"
#include "tests/support/random_program.h"

namespace pal::test {
namespace {

Program with_bits_of(const Program& p) { return encode(p, choose_forms(p, kBits)); }

// Bytes of the chain's maps: two images of 8 x 8, four channels, then 4 x 4; eight channels.
constexpr int64_t kBig = 2048, kPooled = 512, kLast = 1024, kMap = 64, kBitBytes = 64, kLoss = 4;

// conv, relu, pool, conv, and the sum of all as the loss.
Program chain() {
  Builder b;
  Val x = b.input("x", {{2, 8, 8, 3}});
  Val w1 = b.state("w1", {{4, 3, 3, 3}}, Role::weight);
  Val w2 = b.state("w2", {{8, 3, 3, 4}}, Role::weight);
  Val pooled = max_pool(relu(conv2d(x, w1, conv2d_attrs(1, 1))), max_pool_attrs(2, 2)).y;
  Val loss = sum_all(conv2d(pooled, w2, conv2d_attrs(1, 1)));
  b.output("loss", loss);
  const auto d = differentiate(b, loss, {w1, w2});
  b.output("dw1", d[0]), b.output("dw2", d[1]);
  return b.take();
}

ValueId result_of(const Program& p, const std::string& op, size_t output = 0) {
  for (const Node& node : p.nodes) {
    if (node.op->name == op) return node.out[output];
  }
  ADD_FAILURE() << "no " << op;
  return kNone;
}

// The pooled map in 16 bits from its last forward reader to its first backward reader.
Program with_half_pool(const Program& p) {
  const Readers readers(p);
  const ValueId v = result_of(p, "max_pool");
  NodeId last = kNone, first = kNone;
  for (NodeId r : readers[v]) {
    if (p.node(r).phase == Phase::forward) last = r;
    if (p.node(r).phase == Phase::backward && first == kNone) first = r;
  }
  Rewriter out(p);
  Value half = p.value(v), dense = p.value(v);
  half.spec.dtype = DType::bf16, half.role = Role::encoded;
  const ValueId encoded = out.add(half), decoded = out.add(dense);
  for (NodeId n : p.nodes.ids()) {
    Node node = p.node(n);
    if (n == first) {
      out.insert({.op = &cast_op,
                  .attrs = CastAttrs{DType::f32},
                  .in = {encoded},
                  .out = {decoded},
                  .phase = Phase::decode});
    }
    if (n >= first) std::replace(node.in.begin(), node.in.end(), v, decoded);
    out.replace(n, node);
    if (n == last) {
      out.insert({.op = &cast_op,
                  .attrs = CastAttrs{DType::bf16},
                  .in = {v},
                  .out = {encoded},
                  .phase = Phase::encode});
    }
  }
  return out.finish();
}

int64_t total_of(const BytesByUse& bytes) {
  int64_t all = 0;
  for (int64_t b : bytes) all += b;
  return all;
}

// What holds of every footprint.
void check(const GistFootprint& f) {
  EXPECT_EQ(total_of(f.cntk_by_use), f.cntk);
  EXPECT_EQ(total_of(f.investigation_by_use), f.investigation);
  EXPECT_LE(f.dynamic, f.cntk);
  int64_t all = 0;
  for (const GistMap& map : f.maps) all += map.buffer.size;
  EXPECT_LE(f.cntk, all);
  EXPECT_LE(f.investigation, all);
  for (MapUse use : {MapUse::stashed, MapUse::encoded}) {
    EXPECT_EQ(f.investigation_by_use[size_t(use)], f.bytes_of(use));
  }
}

TEST(GistBaseline, PoolingKeepsOperandAndResultAndNoMap) {
  const Program p = chain();
  const GistFootprint f = gist_footprint(p);
  check(f);
  EXPECT_EQ(f.bytes_of(MapUse::stashed), kBig + kPooled) << "relu's result, the pooled map";
  // The first convolution's result; the second's, and the loss.
  EXPECT_EQ(f.bytes_of(MapUse::immediate), kBig + kLast + kLoss);
  // Of relu and conv1; of the pooled map, of conv2; of the loss.
  EXPECT_EQ(f.bytes_of(MapUse::gradient), 2 * kBig + kPooled + kLast + kLoss);
  // While relu's gradient runs: its operand, its result, and what relu made.
  EXPECT_EQ(f.dynamic, 3 * kBig + kLoss);
  // conv1's result with relu's gradient, relu's result, and conv1's gradient with those of 1,024
  // bytes; the pooled map meets one of each, so does its gradient.
  EXPECT_EQ(f.cntk, 3 * kBig + 2 * kPooled + kLoss);
  // Without relu's result and the pooled map two groups of the larger size are left, and one of the
  // pooled map's gradient, which meets both conv2's gradient and relu's.
  EXPECT_EQ(f.investigation, (kBig + kPooled) + 2 * kBig + kPooled + kLoss);
}

TEST(GistBaseline, WithTheMapReluIsReadForItsSignAlone) {
  const Program p = chain();
  const GistFootprint f = gist_footprint(p, {.pool_map = true});
  check(f);
  EXPECT_EQ(f.bytes_of(MapUse::stashed), kBig + kPooled + kMap);
  const GistFootprint inplace = gist_footprint(p, {.inplace = true, .pool_map = true});
  check(inplace);
  EXPECT_EQ(inplace.bytes_of(MapUse::immediate), kLast + kLoss) << "conv1's result is relu's";
  // While pooling's gradient runs: relu's result, the map, the gradients of both sides.
  EXPECT_EQ(inplace.dynamic, 2 * kBig + kPooled + kMap + kLoss);
  EXPECT_LT(inplace.cntk, f.cntk);
}

TEST(GistBaseline, BitsInPlaceOfAMapAreItsStash) {
  const Program p = with_bits_of(chain());
  const GistFootprint f = gist_footprint(p, {.pool_map = true});
  check(f);
  EXPECT_EQ(f.bytes_of(MapUse::encoded), kBitBytes);
  EXPECT_EQ(f.bytes_of(MapUse::stashed), kPooled + kMap);
  EXPECT_EQ(f.bytes_of(MapUse::immediate), 2 * kBig + kLast + kLoss);
  EXPECT_EQ(f.investigation, kBitBytes + kPooled + kMap + 2 * kBig + kLoss);
  // CNTK's pooling reads relu's result all the same.
  EXPECT_EQ(gist_footprint(p).bytes_of(MapUse::stashed), kBig + kPooled);
}

TEST(GistBaseline, ADecodedCopyIsNoStashAndNeedNotBe) {
  const Program p = with_half_pool(chain());
  const GistFootprint f = gist_footprint(p, {.pool_map = true});
  check(f);
  EXPECT_EQ(f.bytes_of(MapUse::encoded), kPooled / 2);
  EXPECT_EQ(f.bytes_of(MapUse::decoded), kPooled);
  EXPECT_EQ(f.bytes_of(MapUse::stashed), kBig + kMap);
  const GistFootprint none = gist_footprint(p, {.pool_map = true, .decoded_copies = false});
  check(none);
  EXPECT_EQ(none.bytes_of(MapUse::decoded), 0);
  EXPECT_EQ(none.bytes_of(MapUse::encoded), kPooled / 2);
  // It lives as long as the copy's readers want it.
  auto end_of = [](const GistFootprint& g, MapUse use) {
    int64_t end = 0;
    for (const GistMap& map : g.maps) {
      if (map.use == use) end = std::max(end, map.buffer.upper);
    }
    return end;
  };
  EXPECT_EQ(end_of(none, MapUse::encoded), end_of(f, MapUse::decoded));
  EXPECT_LT(end_of(f, MapUse::encoded), end_of(f, MapUse::decoded));
}

// CNTK's pooling gradient, the last reader of the pooled map, has the decoded copy.
TEST(GistBaseline, PoolingReadsTheDecodedCopyOfItsResult) {
  const Program p = with_half_pool(chain());
  const GistFootprint f = gist_footprint(p);
  check(f);
  EXPECT_EQ(f.bytes_of(MapUse::stashed), kBig) << "relu's result, not the pooled map";
  const ValueId copy = [&] {
    for (const Node& node : p.nodes) {
      if (node.phase == Phase::decode) return node.out[0];
    }
    return ValueId(kNone);
  }();
  NodeId pooling = kNone;
  for (NodeId n : p.nodes.ids()) {
    if (p.node(n).op == &max_pool_grad_op) pooling = n;
  }
  const auto found = std::find_if(f.maps.begin(), f.maps.end(),
                                  [&](const GistMap& map) { return map.value == copy; });
  ASSERT_NE(found, f.maps.end());
  EXPECT_EQ(found->use, MapUse::decoded);
  EXPECT_EQ(found->buffer.upper, 2 * int64_t(pooling) + 1);
}

TEST(GistBaseline, StateInputsAndWeightsGradientsAreNotMaps) {
  const Program p = chain();
  const BesideMaps beside = beside_maps(p, ByNode<int64_t>(p.nodes.size(), 77));
  const int64_t weights = (4 * 27 + 8 * 36) * 4;
  EXPECT_EQ(beside.weights, weights);
  EXPECT_EQ(beside.weight_gradients, weights);
  EXPECT_EQ(beside.optimizer_state, 0);
  EXPECT_EQ(beside.workspace, 77);
  for (const GistMap& map : gist_footprint(p).maps) {
    const Role role = p.value(map.value).role;
    EXPECT_TRUE(role == Role::feature_map || role == Role::gradient_map) << to_string(role);
  }
}

TEST(GistBaseline, AViewCostsNothing) {
  Builder b;
  Val x = b.input("x", {{4, 6}});
  Val w = b.state("w", {{6, 8}}, Role::weight), v = b.state("v", {{4, 8}}, Role::weight);
  Val y = reshape(matmul(x, w), {8, 4});  // 128 bytes, stashed for the next product
  Val loss = sum_all(matmul(y, v));       // 256 bytes
  const auto d = differentiate(b, loss, {w, v});
  b.output("dw", d[0]), b.output("dv", d[1]);
  const GistFootprint f = gist_footprint(b.take());
  check(f);
  EXPECT_EQ(f.bytes_of(MapUse::stashed), 128);
  EXPECT_EQ(f.bytes_of(MapUse::immediate), 256 + kLoss);
}

// Pooling's gradient: from dy's bytes to dx's. The first convolution reads no map: the image is an
// input.
TEST(GistBaseline, TheFloorIsWhatOneNodeReadsAndWrites) {
  const Program p = chain();
  const GistFloor floor = gist_floor(p);
  EXPECT_EQ(floor.bytes, kBig + kPooled);
  const std::string op = p.node(floor.node).op->name;
  EXPECT_TRUE(op == "max_pool" || op == "max_pool_grad") << op;
}

// A count is no float: no encoding of maps has anything to do with it.
TEST(GistBaseline, TheFloorHasFloatsAlone) {
  Builder b;
  Val x = b.input("x", {{4, 6}}), w = b.state("w", {{6, 8}}, Role::weight);
  b.output("count", count_nonzeros(matmul(x, w)));
  const GistFloor floor = gist_floor(b.take());
  EXPECT_EQ(floor.bytes, 4 * 8 * 4) << "the product; its count is i32[1]";
}

// Two windows of two rows, one of them in both: with the sum three rows and two. Whole, there are
// four rows and two.
TEST(GistBaseline, TheFloorHasTheBytesOfWindowsThatANodeTouches) {
  constexpr int64_t kRow = 8 * 4;
  Builder b;
  Val x = b.input("x", {{4, 6}}), w = b.state("w", {{6, 8}}, Role::weight);
  Val y = matmul(x, w);
  b.output("sum", pal::add(slice(y, 0, 2), slice(y, 1, 3)));
  const Program p = b.take();
  const Storages storages = assign_storages(p);
  const Node& last = p.node(p.value(p.output("sum")).producer);
  ASSERT_EQ(storages.of[last.in[0]], storages.of[last.in[1]]) << "both are windows";
  const GistFloor floor = gist_floor(p);
  EXPECT_EQ(floor.bytes, 3 * kRow + 2 * kRow);
  EXPECT_EQ(p.node(floor.node).op, last.op);
}

// Figure 7: X is stashed, A to D are consumed at once, X's copies on both sides of the gap are of
// ten megabytes. The figure's lifetimes are not in the text; these have its groups and sizes.
TEST(GistSharing, TheExampleOfFigure7) {
  const std::vector<Buffer> baseline = {{0, 6, 10}, {1, 2, 8}, {2, 3, 6}, {3, 4, 8}, {4, 5, 4}};
  const SharingGroups before = sharing_groups(baseline);
  EXPECT_EQ(before.bytes, 18);
  EXPECT_EQ(before.of, (std::vector<int32_t>{0, 1, 1, 1, 1}));
  const std::vector<Buffer> encoded = {{0, 1, 10}, {0, 6, 2}, {5, 6, 10}, {1, 2, 8},
                                       {2, 3, 6},  {3, 4, 8}, {4, 5, 4}};
  const SharingGroups after = sharing_groups(encoded);
  EXPECT_EQ(after.bytes, 12);
  EXPECT_EQ(after.of, (std::vector<int32_t>{0, 1, 0, 0, 0, 0, 0}));
}

// Largest first: the small one would else begin a group that the large one cannot join.
// Of one size, begun in order, three groups would do; in the order given there would be four.
TEST(GistSharing, OfOneSizeThoseThatBeginFirstComeFirst) {
  const std::vector<Buffer> given = {{0, 1, 1}, {6, 7, 1}, {5, 6, 1},
                                     {0, 5, 1}, {1, 6, 1}, {4, 7, 1}};
  EXPECT_EQ(sharing_groups(given).bytes, 3);
}

TEST(GistSharing, TheLargestComeFirstAndJoinTheSmallestGroupThatIsFree) {
  EXPECT_EQ(sharing_groups(std::vector<Buffer>{{0, 2, 1}, {2, 4, 9}}).bytes, 9);
  // Groups of 9 and 5; the last could join both.
  const SharingGroups two = sharing_groups(std::vector<Buffer>{{0, 4, 9}, {0, 4, 5}, {4, 6, 3}});
  EXPECT_EQ(two.of, (std::vector<int32_t>{0, 1, 1}));
  EXPECT_EQ(two.bytes, 14);
  EXPECT_EQ(two.largest, (std::vector<size_t>{0, 1}));
  const SharingGroups none = sharing_groups(std::vector<Buffer>{{3, 3, 5}, {0, 1, 0}});
  EXPECT_EQ(none.bytes, 0);
  EXPECT_EQ(none.of, (std::vector<int32_t>{-1, -1}));
}

// The least sum of largest members over all ways to put buffers into groups.
int64_t best_groups(const std::vector<Buffer>& buffers, size_t next,
                    std::vector<std::vector<size_t>>& groups) {
  if (next == buffers.size()) {
    int64_t bytes = 0;
    for (const auto& group : groups) {
      int64_t most = 0;
      for (size_t b : group) most = std::max(most, buffers[b].size);
      bytes += most;
    }
    return bytes;
  }
  int64_t best = std::numeric_limits<int64_t>::max();
  auto fits = [&](const std::vector<size_t>& group) {
    return std::none_of(group.begin(), group.end(), [&](size_t other) {
      return buffers[other].lower < buffers[next].upper &&
             buffers[next].lower < buffers[other].upper;
    });
  };
  for (size_t g = 0; g < groups.size(); ++g) {
    if (!fits(groups[g])) continue;
    groups[g].push_back(next);
    best = std::min(best, best_groups(buffers, next + 1, groups));
    groups[g].pop_back();
  }
  groups.push_back({next});
  best = std::min(best, best_groups(buffers, next + 1, groups));
  groups.pop_back();
  return best;
}

TEST(GistSharing, GroupsAreValidAndNoBetterThanTheBest) {
  std::mt19937_64 rng(16);
  auto draw = [&](int64_t lo, int64_t hi) { return lo + int64_t(rng() % uint64_t(hi - lo + 1)); };
  int optimal = 0;
  constexpr int kCases = 300;
  for (int i = 0; i < kCases; ++i) {
    std::vector<Buffer> buffers;
    for (int64_t n = draw(1, 8); n > 0; --n) {
      const int64_t lower = draw(0, 9);
      buffers.push_back({lower, lower + draw(1, 5), draw(1, 12)});
    }
    const SharingGroups groups = sharing_groups(buffers);
    int64_t bytes = 0;
    for (size_t g = 0; g < groups.largest.size(); ++g) {
      int64_t most = 0;
      for (size_t a = 0; a < buffers.size(); ++a) {
        if (groups.of[a] != int32_t(g)) continue;
        most = std::max(most, buffers[a].size);
        for (size_t b = 0; b < a; ++b) {
          if (groups.of[b] != int32_t(g)) continue;
          EXPECT_TRUE(buffers[a].upper <= buffers[b].lower || buffers[b].upper <= buffers[a].lower);
        }
      }
      EXPECT_EQ(most, buffers[size_t(groups.largest[g])].size);
      bytes += most;
    }
    for (int32_t g : groups.of) EXPECT_TRUE(g >= 0 && size_t(g) < groups.largest.size());
    EXPECT_EQ(bytes, groups.bytes);
    std::vector<std::vector<size_t>> none;
    const int64_t best = best_groups(buffers, 0, none);
    EXPECT_GE(groups.bytes, best);
    EXPECT_GE(best, lower_bound_of(buffers));
    optimal += groups.bytes == best;
  }
  EXPECT_GT(optimal, kCases * 3 / 4);
}

// The simulation beside the nodes of a real pass: bits need no copy, 16 bits are decoded.
TEST(GistBaseline, EncodingOnLifetimesIsAsWithNodes) {
  const Program p = chain();
  const GistFootprint plain = gist_footprint(p, {.pool_map = true});
  const ValueId rectified = result_of(p, "relu"), pooled = result_of(p, "max_pool");
  const std::vector<EncodedMap> bits = {{rectified, kBitBytes, false}};
  const std::vector<EncodedMap> half = {{pooled, kPooled / 2, true}};
  const GistFootprint with_bits = gist_footprint(with_bits_of(p), {.pool_map = true});
  const GistFootprint with_half = gist_footprint(with_half_pool(p), {.pool_map = true});
  for (const auto& [simulated, real] : {std::pair{with_encoded(plain, bits), with_bits},
                                        std::pair{with_encoded(plain, half), with_half}}) {
    check(simulated);
    EXPECT_EQ(simulated.cntk, real.cntk);
    EXPECT_EQ(simulated.investigation, real.investigation);
    EXPECT_EQ(simulated.dynamic, real.dynamic);
    EXPECT_EQ(simulated.investigation_by_use, real.investigation_by_use);
  }
  // From use to use: the code begins with the last forward reader and ends with the first backward
  // one, with which the copy begins.
  const GistFootprint parts = with_encoded(plain, half);
  auto part = [&](const GistFootprint& f, MapUse use) {
    const auto found = std::find_if(f.maps.begin(), f.maps.end(), [&](const GistMap& m) {
      return m.value == pooled && m.use == use;
    });
    return found == f.maps.end() ? GistMap{kNone, use, {}} : *found;
  };
  const GistMap whole = part(plain, MapUse::stashed);
  const auto [from, again] = std::pair(2 * int64_t(whole.first_use), 2 * int64_t(whole.second_use));
  EXPECT_EQ(part(parts, MapUse::immediate).buffer, (Buffer{whole.buffer.lower, from + 1, kPooled}));
  EXPECT_EQ(part(parts, MapUse::encoded).buffer, (Buffer{from, again + 1, kPooled / 2}));
  EXPECT_EQ(part(parts, MapUse::decoded).buffer, (Buffer{again, whole.buffer.upper, kPooled}));
  // The map of the maxima, which only the gradient reads, in half as many bytes: never whole.
  const std::vector<EncodedMap> map = {{result_of(p, "max_pool", 1), kMap / 2, false}};
  const GistFootprint smaller = with_encoded(plain, map);
  check(smaller);
  EXPECT_EQ(smaller.maps.size(), plain.maps.size());
  EXPECT_EQ(smaller.bytes_of(MapUse::encoded), kMap / 2);
  EXPECT_EQ(smaller.investigation, plain.investigation - kMap / 2);
  // A map that is not stashed stays as it is.
  const std::vector<EncodedMap> none = {{result_of(p, "conv2d"), 1, true}};
  EXPECT_EQ(with_encoded(plain, none).cntk, plain.cntk);
}

TEST(GistBaseline, HoldsOfRandomPrograms) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    for (const Program& p :
         {random_network(seed), with_bits_of(random_network(seed)), random_program(seed)}) {
      for (const bool inplace : {false, true}) {
        for (const bool map : {false, true}) check(gist_footprint(p, {inplace, map}));
      }
      const GistFloor floor = gist_floor(p);
      EXPECT_LE(floor.bytes, gist_footprint(p, {.pool_map = true}).dynamic);
    }
  }
}

}  // namespace
}  // namespace pal::test
