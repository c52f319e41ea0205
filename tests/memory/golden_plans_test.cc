// Plans, to the byte and to the nanosecond: tests/memory/golden has what the planners made of
// random networks, steps and packings. Where a change alters plans on purpose, see that they are
// better, write the files anew (tests/support/golden_text.h), and, for fronts, raise
// kPlannerVersion (train/loop/front_cache.cc): a front that was kept is read as long as it is the
// same.
#include <gtest/gtest.h>

#include <cinttypes>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/text.h"
#include "memory/front/choose.h"
#include "memory/front/deep.h"
#include "memory/front/pool.h"
#include "memory/front/sketch.h"
#include "memory/passes/parts.h"
#include "memory/place/place.h"
#include "memory/schedule/early_updates.h"
#include "memory/share/corun_plan.h"
#include "tests/memory/front/chain_network.h"
#include "tests/memory/share/shapes.h"
#include "tests/memory/toy_card.h"
#include "tests/support/golden_text.h"
#include "tests/support/perfect_packing.h"
#include "tests/support/random_network.h"

namespace pal::test {
namespace {

const std::string kFolder = "memory/golden/";

Program network(uint64_t seed) {
  return random_network(seed, {.layers = 8 + 2 * int(seed % 4), .batch = 64, .width = 16});
}
// Without what this processor's kernels like.
CompileOptions on_toy_card(double link) { return {.layouts = false, .profile = toy_card(link)}; }

TEST(GoldenPlans, FrontsOfRandomNetworks) {
  if (was_run_apart()) return;
  std::string text;
  for (uint64_t seed = 0; seed < 5; ++seed) {
    for (const double link : {0.0, 3e6, 1e8}) {
      const Program step = network(seed);
      KernelCache cache(cpu_device(1));
      const Front front = make_front(step, cache, StateLayout(step), on_toy_card(link));
      text += printed("network %" PRIu64 ", link %g: floor %" PRId64 ", plain %.6f ms\n", seed,
                      link, front.floor.bytes, front.plain_ms);
      for (const FrontPoint& p : front.points) {
        text += printed("  %" PRId64 " %.6f %.6f kept %" PRId64 " again %" PRId64
                        " encoded %" PRId64 " offloaded %" PRId64 " host %" PRId64 " ",
                        p.bytes, p.step_ms, p.bound_ms, p.kept, p.recomputed, p.encoded,
                        p.offloaded, p.host) +
                p.from + "\n";
      }
    }
  }
  expect_golden(kFolder + "fronts.txt", text);
}

// What fronts are made of, where a step is long: what is chosen over the sketch, and the plans that
// rerun segments.
TEST(GoldenPlans, ChosenAndDeepPlansOfChains) {
  std::string text;
  for (uint64_t seed = 0; seed < 6; ++seed) {
    Program step = chain_network(seed, {.layers = 25 + 5 * int(seed)});
    for (ValueId v : step.values.ids()) step.value(v).origin = v;
    const double link = seed % 3 == 0 ? 0 : 4e6 * double(seed);
    const CompileOptions options = on_toy_card(link);
    text += printed("chain %" PRIu64 ", %zu nodes, link %g\n", seed, step.nodes.size(), link);
    for (const Chosen& c : choose_plans(step, options, *options.profile, 1)) {
      text += printed("  chosen for %" PRId64 ": %" PRId64 " %.6f again %zu away %zu\n", c.limit,
                      c.bytes, c.added_ms, c.again.size(), c.away.size());
    }
    const DeepPlans deep = deep_plans(step, options, *options.profile, 8);
    for (const auto* plans : {&deep.alone, &deep.with_copies}) {
      for (const DeepPlan& d : *plans) {
        text += printed("  deep: claimed %" PRId64 " %" PRId64 " %.6f reruns %zu away %zu\n",
                        d.claimed, d.bytes, d.added_ms, d.reruns.size(), d.away.size());
      }
    }
  }
  expect_golden(kFolder + "chains.txt", text);
}

// What the sketch makes of fates by chance, which no search would ask for.
TEST(GoldenPlans, SketchesOfRandomFates) {
  std::string text;
  for (uint64_t seed = 0; seed < 30; ++seed) {
    const Program step = split_parts(network(seed));
    const DeviceProfile card = toy_card(1e7);
    const StepView view(step, {.heavy = std::numeric_limits<double>::infinity()});
    Sketch sketch(view, early_updates_order(step), card, {});
    sketch.let_leave(1);
    Random random(seed);
    text += printed("network %" PRIu64 ":", seed);
    for (int64_t of = 2; of <= 8; ++of) {  // one of so many, and another
      Fates fates = sketch.nothing();
      for (const StorageId s : sketch.open()) {
        if (random.one_in(of)) fates[s] = fates[s] == Fate::keep ? Fate::again : Fate::keep;
        if (sketch.may_leave(s) && random.one_in(of)) fates[s] = Fate::away;
      }
      const Sketch::Count count = sketch.count(fates, std::numeric_limits<int64_t>::max());
      text += printed(" %" PRId64 " %.6f", count.bytes, count.ms);
    }
    text += "\n";
  }
  expect_golden(kFolder + "sketches.txt", text);
}

// By technique, without a budget and with one of three quarters.
TEST(GoldenPlans, TechniquesOnRandomNetworks) {
  if (was_run_apart()) return;
  struct Way {
    const char* name;
    CompileOptions options;
  };
  std::vector<Way> ways{{"recorded", on_toy_card(1e7)}};
  const auto add = [&](const char* name, auto change) {
    ways.push_back({name, on_toy_card(1e7)});
    change(ways.back().options);
  };
  add("program order", [](auto& o) { o.schedule = Schedule::program; });
  add("exact", [](auto& o) { o.schedule = Schedule::exact; });
  add("nothing in place", [](auto& o) { o.inplace = o.windows = false; });
  add("nothing fused", [](auto& o) { o.fuse_updates = o.fuse_epilogues = false; });
  add("mirror", [](auto& o) { o.recompute = Recompute::mirror; });
  add("sqrt", [](auto& o) { o.recompute = Recompute::sqrt; });
  add("echo", [](auto& o) { o.recompute = Recompute::echo; });
  add("echo 50 %", [](auto& o) {
    o.recompute = Recompute::echo, o.recompute_options.overhead = 0.5, o.fuse_recompute = false;
  });
  add("bits", [](auto& o) { o.encode.binarize = o.encode.dropout_bits = true; });
  add("sparse", [](auto& o) { o.encode.ssdc = true, o.encode.assumed_density = 0.3; });
  add("fp8", [](auto& o) { o.encode.dpr = Dpr::fp8; });
  add("naive", [](auto& o) { o.swap.method = Swap::naive; });
  add("vdnn", [](auto& o) { o.swap = {.method = Swap::vdnn, .vdnn = VdnnInputs::all}; });
  add("planned", [](auto& o) { o.swap.method = Swap::planned; });
  for (const Filter filter : {Filter::base, Filter::lru, Filter::greedy}) {
    add("delta", [&](auto& o) { o.dynamic = {.manager = Manager::delta, .filter = filter}; });
  }
  for (const DtrHeuristic heuristic : {DtrHeuristic::full, DtrHeuristic::eq, DtrHeuristic::local,
                                       DtrHeuristic::size, DtrHeuristic::msps}) {
    add("dtr", [&](auto& o) { o.dynamic = {.manager = Manager::dtr, .dtr = heuristic}; });
  }
  std::string text;
  for (uint64_t seed = 20; seed < 30; ++seed) {
    const Program step = network(seed);
    const StateLayout layout(step);
    KernelCache cache(cpu_device(1));
    const int64_t whole = compile(step, cache, layout, on_toy_card(0)).plan.device().bytes;
    for (const Way& way : ways) {
      const bool managed = way.options.dynamic.manager != Manager::fixed;
      for (const int64_t budget : {int64_t(0), whole / 4 * 3}) {
        if (managed && budget == 0) continue;
        CompileOptions options = way.options;
        options.must_fit = false;
        if (budget > 0) options.budget = budget;
        text += printed("network %" PRIu64 ", %s, budget %" PRId64 ": ", seed, way.name, budget);
        try {
          const Compiled c = compile(step, cache, layout, options);
          text += printed("%" PRId64 " bytes, bound %" PRId64 ", %zu nodes, %.6f ms, host %" PRId64,
                          c.plan.device().bytes, c.plan.device().lower_bound,
                          c.program.nodes.size(), c.time->step_ms, c.plan.host().bytes);
          if (c.dynamic) {
            text += printed(", %" PRId64 " evicted, %" PRId64 " out, %" PRId64 " back, %" PRId64
                            " again",
                            c.dynamic->evictions, c.dynamic->offloads, c.dynamic->reloads,
                            c.dynamic->recomputes);
          }
        } catch (const BudgetError&) {
          text += "over";
        }
        text += "\n";
      }
    }
  }
  expect_golden(kFolder + "techniques.txt", text);
}

TEST(GoldenPlans, JobsSideBySide) {
  std::string text;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    Random random(seed);
    std::vector<StepShape> shapes;
    const auto jobs = size_t(random.between(2, 3));
    for (size_t j = 0; j < jobs; ++j) {
      shapes.push_back(random_shape(random, {.nodes = random.between(5, 20),
                                             .buffers = random.between(5, 25),
                                             .bytes = 1024,
                                             .ticks = 10'000}));
      // Some steps have a part of the device, and would be faster alone.
      if (seed % 4 == 3 && j % 2 == 1) shapes.back().alone_ms = 0.75 * shapes.back().ms();
    }
    std::vector<const StepShape*> pointers;
    for (const StepShape& shape : shapes) pointers.push_back(&shape);
    CorunSearch search(pointers);
    const int64_t least = search.least_bytes(), most = search.most_bytes();
    for (const CorunGoal goal : {CorunGoal::total, CorunGoal::fair}) {
      for (int part = 0; part <= 6; ++part) {
        const int64_t budget = least + (most - least) * part / 6;
        const auto way = search.within(budget, goal);
        text += printed("jobs %" PRIu64 ", %s, %" PRId64 " bytes: ", seed,
                        names(goal)[size_t(goal)], budget);
        if (way) {
          text += printed("%s in %" PRId64 ", total %.6f:", to_string(way->kind), way->pool_bytes,
                          way->total);
          for (const double rate : way->rate) text += printed(" %.6f", rate);
          if (way->kind == CorunWay::Kind::circle) {
            text += printed("; period %" PRId64, way->circle.period);
            for (const JobOnCircle& job : way->circle.jobs) {
              text +=
                  printed(", %d from %" PRId64 " of %" PRId64, job.steps, job.begins, job.lasts);
            }
          }
        }
        text += "\n";
      }
    }
  }
  expect_golden(kFolder + "jobs.txt", text);
}

struct Section {
  int buffers, part;  // in thousandths of the height, which they fill
};

// Sections of time, one after the other; under one buffer, so that they are placed together. Few
// buffers fill one without a hole in a way that has to be found; many are piles of equal ones.
std::vector<Buffer> sections(const std::vector<Section>& parts) {
  constexpr int64_t kHeight = 1 << 20, kSteps = 1000;
  constexpr int kPile = 16;
  std::vector<Buffer> out;
  int64_t begin = 0;
  for (const Section& part : parts) {
    const int64_t height = kHeight * part.part / 1000;
    if (part.buffers > 1000) {
      for (int i = 0; i < part.buffers; ++i) {
        const int64_t lower = begin + i / kPile;
        out.push_back({lower, lower + 1, height / kPile});
      }
    } else {
      for (Buffer b : perfect_packing(5, part.buffers, kSteps, height)) {
        b.lower += begin, b.upper += begin;
        out.push_back(b);
      }
    }
    begin += kSteps;
  }
  out.push_back({0, begin, 64});
  return out;
}

// Height, and what was found below it, with little effort: where to look first shows.
TEST(GoldenPlans, Packings) {
  std::string text;
  const auto add = [&](const std::string& name, const std::vector<Buffer>& buffers) {
    const Placement placed = place(buffers, {.effort = {.nodes = 3000}});
    int64_t sum = 0;
    for (size_t i = 0; i < buffers.size(); ++i) sum += placed.offset[i] * int64_t(i + 1);
    text += printed("%s: %" PRId64 " of %" PRId64 ", %s, %" PRId64 "\n", name.c_str(),
                    placed.height, placed.lower_bound, placed.order, sum);
  };
  for (const PackingShape& shape : packing_shapes()) {
    for (const int n : {20, 60, 150}) {
      for (uint64_t seed = 0; seed < 3; ++seed) {
        const std::vector<Buffer> buffers = perfect_packing(shape, n, seed);
        add(printed("%s, %zu buffers, seed %" PRIu64, shape.name, buffers.size(), seed), buffers);
      }
    }
  }
  // More than are searched: of the sections those above some part of the height.
  for (const auto& [full, near] : {std::pair(500, 795),
                                   {500, 805},
                                   {850, 895},
                                   {850, 905},
                                   {930, 945},
                                   {930, 955},
                                   {965, 975},
                                   {965, 985},
                                   {985, 995}}) {
    add(printed("3,200 buffers fill %d of 1,000 and fewer %d", full, near),
        sections({{60, 1000}, {50, near}, {3200, full}}));
  }
  expect_golden(kFolder + "packings.txt", text);
}

}  // namespace
}  // namespace pal::test
