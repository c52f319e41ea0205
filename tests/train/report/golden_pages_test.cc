// The pages and texts of reports, to the letter: tests/train/golden/pages has what they were for
// steps that are made here. Open a page that has changed before it is written anew.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "autograd/differentiate.h"
#include "autograd/optimizer.h"
#include "core/builder.h"
#include "core/scalars.h"
#include "memory/front/pool.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/elementwise/dropout.h"
#include "ops/norms/layer_norm.h"
#include "ops/sums/reduce.h"
#include "tests/memory/toy_card.h"
#include "tests/support/golden_text.h"
#include "train/report/corun_page.h"
#include "train/report/encoding_report.h"
#include "train/report/kernel_report.h"
#include "train/report/plan_page.h"
#include "train/report/plan_report.h"
#include "train/report/report_html.h"
#include "train/report/traffic_report.h"

namespace pal {
namespace {

const std::string kFolder = "train/golden/pages/";

// Layers of weights, normalization, activations that encodings know, and dropout; with an
// optimizer. No operator of a library's, whose scratch memory depends on the processor.
Program golden_network() {
  Builder b;
  const Val scalars = b.input("scalars", scalars_spec());
  Val x = b.input("x", {{256, 64}});
  std::vector<Val> weights;
  for (int layer = 0; layer < 4; ++layer) {
    Builder::Within part(b, layer < 2 ? "encoder" : "decoder");
    Builder::Within scope(b, "layer" + std::to_string(layer));
    const auto weight = [&](const char* name, const Shape& shape) {
      weights.push_back(b.weight(name, {shape}, {Init::Kind::uniform, 0.1f}));
      return weights.back();
    };
    x = mul(x, weight("w", {256, 64}));
    if (layer == 2) x = layer_norm(x, weight("gamma", {64}), weight("beta", {64}));
    x = layer == 3 ? tanh(x) : relu(x);
    if (layer % 2) x = dropout(x, scalars, 0.3f);
  }
  Val loss = sum_all(x);
  b.output("loss", loss);
  const std::vector<Val> gradients = differentiate(b, loss, weights);
  apply_optimizer(b, {}, weights, gradients, scalars, {});
  return b.take();
}

// Without what depends on the clock, and on what the processor's kernels like.
Compiled golden_step(CompileOptions options) {
  options.layouts = false;
  Program program = golden_network();
  const StateLayout layout(program);
  KernelCache cache(cpu_device(1));
  Compiled c = compile(std::move(program), cache, layout, options);
  c.seconds = 0;
  for (PassReport& pass : c.passes) pass.seconds = 0;
  return c;
}

std::string one_text(const std::vector<std::string>& all) {
  std::string text;
  for (const std::string& line : all) text += line + "\n";
  return text;
}

std::string texts(const Compiled& c, const PlanFacts& facts) {
  return one_text(plan_lines(c, facts)) + one_text(encoding_lines(c, facts)) +
         one_text(traffic_lines(c)) +
         nlohmann::ordered_json::parse(plan_json(c, {3, 4}, facts)).dump(1) + "\n";
}

// Without the style, which all pages share and begun.html has.
void expect_page(const std::string& file, std::string page) {
  const size_t begin = page.find("<style>"), end = page.find("</style>");
  ASSERT_TRUE(begin != std::string::npos && end > begin);
  page.replace(begin, end - begin, "<style>");
  expect_golden(kFolder + file, page);
}

TEST(GoldenPages, AStepAsRecorded) {
  const Compiled c = golden_step({});
  expect_page("recorded.html", plan_html(c, {"recorded", "bucket 3,4", "a: 1\nb: 2"}));
  expect_golden(kFolder + "recorded.txt", texts(c, {}));
}

TEST(GoldenPages, AnEncodedStep) {
  const Compiled c = golden_step({.encode = {.binarize = true,
                                             .dropout_bits = true,
                                             .dpr = Dpr::fp16,
                                             .ssdc = true,
                                             .assumed_density = 0.4},
                                  .profile = test::toy_card()});
  const PlanFacts facts{.capacity = 10'000'000, .samples = 256, .dense_bytes = 4'000'000};
  expect_page("encoded.html", plan_html(c, {"encoded", "batch 256", ""}, facts));
  expect_golden(kFolder + "encoded.txt", texts(c, facts));
}

TEST(GoldenPages, AStepWithinABudgetThatCopies) {
  CompileOptions options{.layouts = false, .profile = test::toy_card(2e7)};
  const Program step = golden_network();
  KernelCache cache(cpu_device(1));
  const Front front = make_front(step, cache, StateLayout(step), options);
  const FrontPoint* chosen = nullptr;
  for (const FrontPoint& point : front.points) {
    if (point.offloaded > 0) chosen = &point;
  }
  ASSERT_TRUE(chosen);
  const Compiled c = golden_step(chosen->options);
  const PlanFacts facts{.capacity = chosen->bytes + 1000, .front = &front, .chosen = chosen};
  expect_page("chosen.html", plan_html(c, {"chosen", "within a budget", ""}, facts));
  expect_golden(kFolder + "chosen.txt", texts(c, facts));
}

TEST(GoldenPages, ASwappedStepOfSeveralDevices) {
  const Compiled c = golden_step({.swap = {.method = Swap::naive}, .profile = test::toy_card(1e7)});
  PlanFacts facts{
      .capacity = 100'000, .samples = 256, .max_batch = 77, .max_depth = 5, .max_length = 40};
  facts.answer = {.step_ms = 12.5, .overhead = 0.25, .from = "echo 9 %", .recording = "fused"};
  facts.devices = {.ranks = 8,
                   .per_node = 4,
                   .link = "NVLink",
                   .communication_ms = 3.25,
                   .exposed_ms = 1.5,
                   .link_bytes = 2e6,
                   .bytes_per_rank = 123'456,
                   .nccl_bytes = 1'000'000,
                   .joules = 4.5,
                   .speedup = 6.5};
  facts.pair = {.micro_batches = "first+last",
                .line = "two side by side",
                .bytes = 1000,
                .larger_bytes = 700,
                .begins_after = 0.5,
                .ms = 20,
                .one_by_one_ms = 24,
                .least_ms = 15};
  expect_page("swapped.html", plan_html(c, {"swapped", "8 ranks", ""}, facts));
  expect_golden(kFolder + "swapped.txt", texts(c, facts));
}

// Two jobs: one takes two steps of four moments while the other takes one, which goes on at the
// circle's beginning.
TEST(GoldenPages, JobsOnACircle) {
  StepShape quick, slow;
  quick.tick = {0, 1'000'000, 2'000'000, 3'000'000, 4'000'000};
  quick.buffers = {{{0, 3}, 1000, {}}, {{1, 4}, 500, {}}};
  slow.tick = {0, 2'000'000, 5'000'000, 8'000'000};
  slow.buffers = {{{0, 2}, 3000, {}}, {{1, 3}, 200, {}}};
  CorunPage page{.title = "a <b>, c",
                 .lines = {"two jobs & a pool"},
                 .tiles = {{"1.50", "throughput"}, {"4.70 kB", "pool"}},
                 .names = {"a <b>", "c"},
                 .offset = {{0, 1000}, {1500, 4500}},
                 .pool_bytes = 4700};
  page.circle.period = 10'000'000;
  page.circle.jobs = {{.shape = &quick, .steps = 2, .begins = 0, .lasts = 4'500'000},
                      {.shape = &slow, .steps = 1, .begins = 3'000'000, .lasts = 9'000'000}};
  expect_page("corun.html", corun_html(page));
}

// More storages than a page draws.
TEST(GoldenPages, TheLargestStoragesOfACircleAreDrawn) {
  StepShape shape;
  shape.tick = {0, 1'000'000, 2'000'000};
  CorunPage page{.title = "many", .names = {"many"}, .offset = {{}}, .pool_bytes = 400'000'000};
  for (int i = 0; i < 24'100; ++i) {
    shape.buffers.push_back({{i % 2, 2}, 64 + i, {}});
    page.offset[0].push_back(int64_t(i) * 16'000);
  }
  page.circle = {2'000'000, {{.shape = &shape, .steps = 1, .begins = 0, .lasts = 2'000'000}}};
  const std::string text = corun_html(page);
  EXPECT_NE(text.find("24100 storages, of which the 24000 largest are drawn"), std::string::npos);
  const auto is_drawn = [&](int64_t bytes) {
    return text.find(": " + format_bytes(bytes) + " at") != std::string::npos;
  };
  EXPECT_FALSE(is_drawn(65));
  EXPECT_FALSE(is_drawn(165)) << "for half of the time";
  EXPECT_TRUE(is_drawn(164));
  EXPECT_TRUE(is_drawn(64 + 24'099));
}

TEST(GoldenPages, AReportOfARun) {
  std::string metrics;
  for (int i = 1; i <= 1000; ++i) {
    const std::string n = std::to_string(i), loss = std::to_string(8 - 0.0051234 * i);
    metrics += R"({"event":"step","step":)" + n + R"(,"epoch":)" + std::to_string(0.01 * i) +
               R"(,"loss":)" + loss + R"(,"lr":0.00125,"tokens_per_s":)" +
               std::to_string(5000 + 10 * (i % 7)) + "}\n";
    if (i % 100) continue;
    metrics += R"({"event":"valid","step":)" + n + R"(,"epoch":1,"loss":)" + loss +
               R"(,"perplexity":)" + std::to_string(3000 - i) + R"(,"bleu":)" +
               std::to_string(0.02 * i) + "}\n";
  }
  const RunReport report{
      .name = "a <b>",
      .state = "max_epochs",
      .described = {"corpus & words", "3 buckets"},
      .plan = {"plan   12 nodes"},
      .sparse = {"train/5x8/only: 12 maps are kept sparse since run 21"},
      .bytes = {{"weight", 600'000}, {"feature_map", 300'000}, {"input", 50'000}},
      .arena_bytes = 1'000'000,
      .lower_bound_bytes = 950'000,
      .run_bytes = 1'250'000,
      .process_peak_bytes = 2'500'000,
      .config = "train:\n  lr: 0.1\n",
      .samples = {{"ein <Haus>", "a house"}, {"", "nothing"}},
      .test = {{"bleu", 31.25}, {"loss", 2.125}}};
  expect_page("run.html", report_html(report, metrics));
  expect_golden(kFolder + "begun.html", report_html({.name = "begun", .state = "training"}, ""));
}

TEST(GoldenPages, KernelsByOperator) {
  KernelReport report{.name = "nmt",
                      .device = "a card",
                      .bucket = {30, 40},
                      .step_ms = 12.345,
                      .one_queue_ms = 14.5,
                      .roofline_ms = 9.75,
                      .samples = 64,
                      .units = 1920,
                      .unit = "words"};
  for (int i = 0; i < 6; ++i) {
    KernelRow row{.name = "operator" + std::to_string(i),
                  .nodes = 3 + i,
                  .launches = 2 * i,
                  .bytes = 1e9 / (1 + i),
                  .least_bytes = 5e8 / (1 + i),
                  .flops = 1e10 * i,
                  .ms = 5.0 / (1 + i),
                  .least_ms = 2.0 / (1 + i)};
    row.kernels = {{.name = "file.cu:" + std::to_string(10 * i),
                    .nodes = 1,
                    .launches = i,
                    .bytes = 1e8,
                    .least_bytes = 5e7,
                    .flops = 1e9,
                    .ms = 0.5,
                    .least_ms = 0.25}};
    report.all.nodes += row.nodes, report.all.launches += row.launches;
    report.all.bytes += row.bytes, report.all.least_bytes += row.least_bytes;
    report.all.flops += row.flops, report.all.ms += row.ms, report.all.least_ms += row.least_ms;
    report.rows.push_back(row);
  }
  report.code = {{"gemm", {{"one queue", 4}, {"library", 7}}}};
  expect_golden(kFolder + "kernels.txt",
                one_text(kernel_lines(report, 3)) + one_text(kernel_lines(report, 0)) +
                    nlohmann::ordered_json::parse(kernel_json(report)).dump(1) + "\n");
}

}  // namespace
}  // namespace pal
