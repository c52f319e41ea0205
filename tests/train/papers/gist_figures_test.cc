// Gist's figures that run or price steps (9, 12, 14, 15, 16, overheads): on small networks, by
// hand where that is possible.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "autograd/differentiate.h"
#include "core/builder.h"
#include "core/error.h"
#include "memory/passes/encode.h"
#include "ops/convolution/conv2d.h"
#include "ops/convolution/max_pool.h"
#include "ops/elementwise/activations.h"
#include "ops/encodings/ssdc.h"
#include "ops/products/matmul.h"
#include "ops/sums/reduce.h"
#include "ops/tensors/casts.h"
#include "ops/tensors/views.h"
#include "tests/train/papers/whole_table.h"
#include "train/commands/commands.h"
#include "train/config/profile.h"
#include "train/papers/gist_measured.h"
#include "train/papers/gist_priced.h"
#include "train/papers/gist_trained.h"
#include "train/papers/measured_step.h"
#include "train/papers/rounded_at_once.h"

namespace pal {
namespace {

// conv, relu, conv, relu, pool, conv and the sum of all as the loss: a map between ReLU and a
// convolution, one between ReLU and pooling, one between pooling and a convolution.
Program chain(int64_t batch) {
  Builder b;
  const Init init{Init::Kind::normal, 0.5f};
  Val x = b.input("images", {{batch, 8, 8, 3}});
  Val w1 = b.state("w1", {{4, 3, 3, 3}}, Role::weight, init);
  Val w2 = b.state("w2", {{4, 3, 3, 4}}, Role::weight, init);
  Val w3 = b.state("w3", {{8, 3, 3, 4}}, Role::weight, init);
  Val first = relu(conv2d(x, w1, conv2d_attrs(1, 1)));
  Val second = relu(conv2d(first, w2, conv2d_attrs(1, 1)));
  Val pooled = max_pool(second, max_pool_attrs(2, 2)).y;
  Val loss = sum_all(conv2d(pooled, w3, conv2d_attrs(1, 1)));
  b.output("loss", loss);
  const auto d = differentiate(b, loss, {w1, w2, w3});
  for (size_t i = 0; i < d.size(); ++i) b.output("d" + std::to_string(i), d[i]);
  return b.take();
}
const PaperNetwork kChain{"alexnet", "8x8", 0, chain};  // a name with a format: fp8
constexpr int64_t kMap = 8 * 8 * 4 * 4;                 // bytes an image

// A device whose nodes take no time to launch, and whose link is far slower than its memory.
DeviceProfile slow_link() {
  DeviceProfile device{.name = "made up"};
  device.f32 = device.vector = 1e15, device.memory = 1e9, device.link = 1e6;
  device.capacity = int64_t(1) << 30;
  return device;
}

TEST(GistFigures, SwappingCostsItsTransfersAndPrefetchingHidesSome) {
  const Program p = chain(2);
  const DeviceProfile device = slow_link();
  const SwapTimes times = swap_times(p, device);
  EXPECT_EQ(times.plain, predict(p, device).step_ms);
  const double stashed = double(gist_footprint(p).bytes_of(MapUse::stashed));
  EXPECT_EQ(stashed, 2 * (2 * kMap + kMap / 4));
  const double bytes = stashed + 2 * 4 * 4 * 4 / 2;  // and the pool's codes, of four bits
  EXPECT_NEAR(times.naive - times.plain, 1e3 * 2 * bytes / device.link, 1e-9);
  EXPECT_LT(times.vdnn_all, times.naive);
  EXPECT_GT(times.vdnn_all, times.vdnn_conv);
  EXPECT_EQ(times.vdnn_conv, times.plain) << "none of these convolutions is compute-heavy";
  EXPECT_LE(times.planned, times.vdnn_all);
  // What crosses the link is a lower bound, each way: nothing leaves while something comes back.
  EXPECT_GE(times.vdnn_all, 1e3 * 2 * bytes / device.link);
  // With a link fast enough all is hidden.
  DeviceProfile fast = device;
  fast.link = 1e15;
  EXPECT_NEAR(swap_times(p, fast).vdnn_all, times.plain, 1e3 * 64 / fast.memory + 1e-9)
      << "but that copies of the codes read the device's memory";
}

TEST(GistFigures, EncodingIsPricedByItsTraffic) {
  const Program p = chain(2);
  const GistFootprint footprint = gist_footprint(p);
  const DeviceProfile device = slow_link();
  // The two maps of SSDC, read and written twice, at either density; Binarize's bits are the rest.
  const double half = encoded_ms(p, footprint, {}, 0.5, device),
               full = encoded_ms(p, footprint, {}, 1, device);
  const int64_t maps[] = {2 * kMap, 2 * kMap / 4};
  double more = 0;
  for (int64_t bytes : maps) more += double(2 * (ssdc_csr(bytes, 1) - ssdc_csr(bytes, 0.5)));
  EXPECT_NEAR(full - half, 1e3 * more / device.memory, 1e-9);
  const Forms bits = choose_forms(p, {.binarize = true});
  const double alone = predict(encode(p, bits), device).step_ms;
  double dense = 0;
  for (int64_t bytes : maps) dense += double(2 * (bytes + ssdc_csr(bytes, 0.5)));
  EXPECT_NEAR(half - alone, 1e3 * dense / device.memory, 1e-9);
}

TEST(GistFigures, ABatchFitsBesideTheRest) {
  EXPECT_EQ(batch_that_fits(1000, 100, 90), 10);
  EXPECT_EQ(batch_that_fits(999, 100, 90), 9);
  EXPECT_EQ(batch_that_fits(100, 200, 90), 0);
}

TEST(GistFigures, TheTableOfSwappingIsWhole) {
  const Reproduction& r = gist_priced_reproductions()[0];
  EXPECT_STREQ(r.name, "gist-fig15");
  const std::vector<ReproducedTable> tables = r.make(load_profile("titanx"));
  ASSERT_EQ(tables.size(), 1u);
  expect_whole(tables[0]);
  EXPECT_EQ(tables[0].rows.size(), 6u) << "five networks and their mean";
}

// Encodings make room for more, in either accounting; the batch is the largest that fits.
TEST(GistFigures, DeeperNetworksFitLargerBatches) {
  DeviceProfile card = load_profile("titanx");
  card.capacity = 64'000'000;
  constexpr DeepNetwork kShallow[] = {{14, "-"}};
  const std::vector<ReproducedTable> tables = deeper_tables(kShallow, card);
  ASSERT_EQ(tables.size(), 2u);
  for (const ReproducedTable& table : tables) expect_whole(table);
  auto batch = [&](size_t table, size_t column) {
    return std::stoll(tables[table].rows[0][column]);
  };
  EXPECT_GT(batch(0, 1), 1);
  EXPECT_GT(batch(0, 3), batch(0, 1));
  EXPECT_GT(batch(0, 6), batch(0, 3));
  EXPECT_GT(batch(1, 4), batch(1, 2));
  KernelCache cache(cpu_device(1));
  auto bytes = [&](int64_t images) {
    const Program step = deep_resnet(14).record(images);
    return least_bytes(step, cache, StateLayout(step));
  };
  EXPECT_LE(bytes(batch(1, 2)), card.capacity);
  EXPECT_GT(bytes(batch(1, 2) + 1), card.capacity);
}

TEST(GistFigures, TheMedianIsTheMiddleOne) {
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 3, 2}), 3);
}

TEST(GistFigures, StepsAreMeasuredWithAndWithoutEncodings) {
  const NetworkAtBatch networks[] = {{kChain, 16}};
  const DeviceProfile device = slow_link();
  const std::vector<ReproducedTable> steps = encoded_step_times(networks, 1, device);
  ASSERT_EQ(steps.size(), 2u);
  expect_whole(steps[0]), expect_whole(steps[1]);
  ASSERT_EQ(steps[0].rows.size(), 3u);
  EXPECT_EQ(steps[0].rows[0][1], "16");
  const std::vector<std::string>& values = steps[1].rows[0];
  EXPECT_EQ(values[1].substr(0, 2), "0,") << "the pools' maps answer for the relus";
  for (const size_t form : {2, 3, 4, 5}) EXPECT_NE(values[form].substr(0, 2), "0,") << form;
  const ReproducedTable kernels = encoding_kernel_times(networks, 1);
  expect_whole(kernels);
  EXPECT_EQ(kernels.rows[0][3], "0") << "bits";
  EXPECT_GT(std::stoi(kernels.rows[0][6]), 0) << "rounded";
  EXPECT_GT(std::stoi(kernels.rows[0][10]), 0) << "sparse";
}

TEST(GistFigures, NodesAreTimedByOperator) {
  const Program p = chain(2);
  MeasuredStep step(encode(p, choose_forms(p, {.binarize = true, .dpr = Dpr::fp16})), {});
  const ByNode<double> ms = step.node_ms(2);
  EXPECT_EQ(ms.size(), step.compiled().program.nodes.size());
  for (const OpDef* op : {&to_bits_op, &dpr_encode_op, &dpr_decode_op}) {
    EXPECT_GT(step.operator_ms(ms, *op), 0) << op->name;
  }
  EXPECT_EQ(step.operator_ms(ms, ssdc_encode_op), 0) << "the step has none";
}

// A step that counts computes what it did, and counts what is there.
TEST(GistFigures, NonzerosAreCountedInTheStepItself) {
  std::vector<TargetMap> maps;
  const Program plain = chain(2);
  MeasuredStep as_it_was(plain, {}), counting(with_counts(plain, &maps), {}, &as_it_was);
  ASSERT_EQ(maps.size(), 2u);
  EXPECT_EQ(maps[0].elements, 2 * kMap / 4);
  EXPECT_EQ(maps[1].bytes, 2 * kMap / 4);
  as_it_was.run_ms(), counting.run_ms();
  EXPECT_EQ(*as_it_was.output("loss"), *counting.output("loss"));
  for (const TargetMap& map : maps) {
    const int32_t count = *counting.output<int32_t>(map.output);
    EXPECT_GT(count, 0) << map.name;
    EXPECT_LE(count, map.elements) << map.name;
  }
  // ReLU leaves about half of what a convolution makes.
  const double kept = *counting.output<int32_t>(maps[0].output) / double(maps[0].elements);
  EXPECT_NEAR(kept, 0.5, 0.25);
  EXPECT_EQ(csr_bytes({"", "", 512, 2048}, 100), 100 * 5 + 2 * 4);
}

// x w v: rounded at once, the second product reads what the first one made as rounded; delayed,
// only the gradient does.
TEST(GistFigures, RoundedAtOnceIsSeenByTheForwardPhase) {
  auto record = [] {
    Builder b;
    Val x = b.input("x", {{4, 6}});
    const Init init{Init::Kind::normal, 1.0f};
    Val w = b.state("w", {{6, 8}}, Role::weight, init),
        v = b.state("v", {{8, 3}}, Role::weight, init);
    Val loss = sum_all(matmul(matmul(x, w), v));
    b.output("loss", loss);
    const auto d = differentiate(b, loss, {w, v});
    b.output("dw", d[0]), b.output("dv", d[1]);
    return b.take();
  };
  const Program plain = record();
  const Program delayed = encode(plain, choose_forms(plain, {.dpr = Dpr::fp8}));
  MeasuredStep exact(plain, {}), late(delayed, {}),
      early(rounded_at_once(plain, Dpr::fp8, false), {});
  for (MeasuredStep* step : {&exact, &late, &early}) step->run_ms();
  EXPECT_EQ(*exact.output("loss"), *late.output("loss"));
  EXPECT_NE(*exact.output("loss"), *early.output("loss"));
  // The gradient of v is a product with the map, rounded in both; that of w reads no map.
  bool differs = false;
  for (int i = 0; i < 8 * 3; ++i) {
    EXPECT_EQ(late.output("dv")[i], early.output("dv")[i]) << i;
    differs |= late.output("dv")[i] != exact.output("dv")[i];
  }
  EXPECT_TRUE(differs);
  for (int i = 0; i < 6 * 8; ++i) EXPECT_EQ(early.output("dw")[i], exact.output("dw")[i]) << i;
  // With gradients, only what the step puts out stays as it is.
  const Program all = rounded_at_once(plain, Dpr::fp8, true);
  int maps = 0, gradients = 0;
  for (const Node& node : all.nodes) {
    maps += node.op == &dpr_encode_op && node.phase == Phase::forward;
    gradients += node.op == &dpr_encode_op && node.phase == Phase::backward;
  }
  EXPECT_EQ(maps, 2);
  EXPECT_GT(gradients, 0);
}

// Layers of which each keeps two maps, and could make the second from the first again.
TEST(GistFigures, OnlyEchosFormMakesMapsAgain) {
  Builder b;
  const Init init{Init::Kind::normal, 0.1f};
  Val y = b.input("x", {{64, 64}});
  std::vector<Val> weights;
  constexpr int kLayers = 6;
  for (int i = 0; i < kLayers; ++i) {
    weights.push_back(b.state("w" + std::to_string(i), {{64, 64}}, Role::weight, init));
    y = tanh(tanh(matmul(y, weights.back())));
  }
  Val loss = sum_all(y);
  b.output("loss", loss);
  const auto d = differentiate(b, loss, weights);
  for (size_t i = 0; i < d.size(); ++i) b.output("d" + std::to_string(i), d[i]);
  const Program plain = b.take();
  const auto made = [&](const char* form) {
    const Program step = in_form(plain, form);
    return std::count_if(step.nodes.begin(), step.nodes.end(),
                         [](const Node& node) { return node.op == &tanh_op; });
  };
  for (const char* form : {"f32", "All-FP16", "FP16", "FP10", "FP8", "FP8 maps at once"}) {
    EXPECT_EQ(made(form), 2 * kLayers) << form;
  }
  EXPECT_GT(made("echo, FP8"), 2 * kLayers);
  EXPECT_THROW(in_form(plain, "FP7"), ProgramError);
}

TEST(GistFigures, WeightsAreRoundedInPlace) {
  ProgramSet programs({}, cpu_device(1));
  Builder b;
  Val w = b.state("w", {{3}}, Role::weight);
  Val m = b.state("m", {{1}}, Role::optimizer_state);
  b.output("sum", sum_all(w)), b.output("other", sum_all(m));
  programs.add("step", b.take());
  const float given[] = {1.06f, -0.001f, 1000};
  for (const StateTensor& t : programs.state()) {
    std::memcpy(t.data, given, size_t(t.spec.bytes()));
  }
  round_weights(programs, Dpr::fp8);
  for (const StateTensor& t : programs.state()) {
    const float* x = reinterpret_cast<const float*>(t.data);
    if (t.name == "m") {
      EXPECT_EQ(x[0], 1.06f);
      continue;
    }
    EXPECT_EQ(x[0], 1);
    EXPECT_EQ(x[1], 0);
    EXPECT_EQ(x[2], 240);
  }
}

nlohmann::json made(const ReproduceArgs& args) {
  testing::internal::CaptureStdout();
  EXPECT_EQ(run_reproduce(args), kExitDone);
  return nlohmann::json::parse(testing::internal::GetCapturedStdout());
}

const std::vector<std::string> kSmall = {"data.synthetic=true", "data.classes=4",
                                         "data.image_size=8",   "model.depth=8",
                                         "model.width=4",       "device.threads=1"};

TEST(GistFigures, SparsityIsLoggedAlongATraining) {
  const auto json =
      made({.name = "gist-fig14",
            .json = true,
            .measure = {.batch = 8, .steps = 3, .config = "resnet_small", .sets = kSmall}});
  ASSERT_EQ(json["tables"].size(), 1u) << "there are no steps after the first 200";
  const auto& rows = json["tables"][0]["rows"];
  ASSERT_GE(rows.size(), 3u);
  for (const auto& row : rows) {
    for (const char* step : {"step 1", "step 2", "step 3"}) {
      const double ratio = std::stod(row[step].get<std::string>());
      EXPECT_GT(ratio, 0.79) << row;  // all stored: 4 bytes of 5 and a row's end
      EXPECT_LT(ratio, 64) << row;
    }
  }
}

TEST(GistFigures, AccuracyHasAColumnForEachForm) {
  const auto json = made(
      {.name = "gist-fig12",
       .json = true,
       .measure = {.batch = 8, .steps = 2, .seeds = 2, .config = "resnet_small", .sets = kSmall}});
  ASSERT_EQ(json["tables"].size(), 1u);
  const auto& rows = json["tables"][0]["rows"];
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0]["row"], "2");
  for (const char* form :
       {"f32", "All-FP16", "FP16", "FP10", "FP8", "FP8 maps at once", "echo, FP8"}) {
    const double top1 = std::stod(rows[0][form].get<std::string>());
    EXPECT_GE(top1, 0);
    EXPECT_LE(top1, 100);
    const std::string both = rows[2][form].get<std::string>();
    const double low = std::stod(both), high = std::stod(both.substr(both.find(',') + 1));
    EXPECT_NEAR(top1, (low + high) / 2, 0.11) << "two seeds, " << both;
  }
  EXPECT_EQ(rows[1]["f32"], "+0.0");
}

TEST(GistFigures, OnlyTheSettingsThatATableTakes) {
  auto said = [](const ReproduceArgs& args) -> std::string {
    try {
      run_reproduce(args);
    } catch (const UsageError& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(said({.name = "gist-fig15", .measure = {.batch = 2}}),
            "reproduce gist-fig15: takes no --batch; it is predicted, nothing is run");
  EXPECT_EQ(said({.name = "gist-fig9", .measure = {.seeds = 2}}),
            "reproduce gist-fig9: takes no --seeds; of these flags it takes batch steps");
  EXPECT_NE(said({.name = "gist-fig14", .measure = {.config = "transformer_small"}})
                .find("image classifiers"),
            std::string::npos);
}

}  // namespace
}  // namespace pal
