// Steps whose gradients are exchanged, under all passes: the exchanges stay in the order in which
// they were recorded, since ranks whose plans differ would wait for each other.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "autograd/differentiate.h"
#include "autograd/optimizer.h"
#include "core/order.h"
#include "core/scalars.h"
#include "core/verify.h"
#include "memory/compile.h"
#include "memory/exchange_queue.h"
#include "ops/elementwise/activations.h"
#include "ops/exchange/exchange.h"
#include "ops/products/matmul.h"
#include "ops/sums/gates.h"
#include "ops/sums/reduce.h"
#include "ops/tensors/transfers.h"

namespace pal {
namespace {

// Layers of several widths with relu, so that products and activations are fused and maps are worth
// keeping as bits; every gradient is exchanged, the last one's first, and each has a size of its
// own.
Program exchanging_step(int layers, bool clips, int64_t ranks = 1, int64_t rows = 64) {
  Builder b;
  const Val scalars = step_scalars(b.input("scalars", scalars_spec(), Space::host));
  Val x = b.input("x", {{rows, 16}});
  std::vector<Val> weights;
  for (int i = 0; i < layers; ++i) {
    Builder::Within scope(b, "layer" + std::to_string(i));
    weights.push_back(b.state("w" + std::to_string(i), {{16 + 8 * i, 24 + 8 * i}}, Role::weight));
    x = relu(matmul(x, weights.back()));
  }
  const Val loss = sum_all(x);
  b.output("loss", loss);
  std::vector<Val> gradients = differentiate(b, loss, weights), squares;
  Builder::Within phase(b, Phase::backward);
  for (size_t i = gradients.size(); i-- > 0;) gradients[i] = all_reduce({gradients[i]}, ranks)[0];
  for (const Val g : gradients) squares.push_back(sum_of_squares(g));
  const Val gate = clip_norm_gate(scalars, loss, clips ? squares : std::vector<Val>{},
                                  {.max_norm = clips ? 1.0f : 0.0f});
  b.output("norm", clip_norm_gate(scalars, {}, squares));
  apply_optimizer(b, {.kind = OptimizerSpec::Kind::momentum}, weights, gradients, scalars, gate);
  return b.take();
}

std::vector<std::string> exchanges(const Program& program) {
  std::vector<std::string> out;
  for (const Node& node : program.nodes) {
    if (node.op->collective) out.push_back(to_string(program.value(node.in[0]).spec));
  }
  return out;
}

TEST(Exchanges, KeepTheirOrderUnderAllPasses) {
  std::vector<CompileOptions> all(1);
  for (const Schedule schedule : {Schedule::program, Schedule::lifetime}) {
    for (const Recompute recompute :
         {Recompute::none, Recompute::mirror, Recompute::sqrt, Recompute::echo}) {
      for (const Swap swap : {Swap::none, Swap::naive, Swap::planned}) {
        CompileOptions o;
        o.schedule = schedule, o.recompute = recompute, o.swap.method = swap;
        o.encode.binarize = recompute == Recompute::none;
        all.push_back(o);
      }
    }
  }
  for (const int layers : {2, 5, 9}) {
    for (const bool clips : {false, true}) {
      const Program recorded = exchanging_step(layers, clips);
      const std::vector<std::string> wanted = exchanges(recorded);
      ASSERT_EQ(wanted.size(), size_t(layers));
      for (const CompileOptions& options : all) {
        KernelCache cache(cpu_device(1));
        const Compiled c = compile(recorded, cache, StateLayout(recorded), options);
        ASSERT_NO_THROW(verify(c.program));
        EXPECT_EQ(exchanges(c.program), wanted)
            << layers << " layers, " << to_string(options.recompute) << ", "
            << to_string(options.schedule) << ", " << name_of(options.swap.method);
      }
    }
  }
}

// A device whose exchanges take about as long as its computation.
DeviceProfile joined_by(double rate) {
  DeviceProfile device{.name = "toy", .f32 = 1e11, .vector = 1e10, .memory = 1e10, .launch = 1e-6};
  device.links = std::make_shared<const Links>(
      Links{.ranks = 2, .per_node = 2, .inside = {.name = "toy", .rate = rate, .latency = 1e-6}});
  return device;
}

double predicted_ms(const Compiled& c, const DeviceProfile& device) {
  return predict(c.program, device, &c.storages).step_ms;
}

TEST(Exchanges, AQueueIsNeverSlowerAndNeverOverTheBudget) {
  int queued = 0, fell_back = 0;
  for (const double rate : {1e7, 1e8, 1e9, 1e10}) {
    const DeviceProfile device = joined_by(rate);
    // Of few rows gradients take the most bytes, and those that wait for the queue more.
    for (const auto& [layers, rows] : {std::pair{3, 64}, {8, 64}, {8, 4}}) {
      for (const Recompute recompute : {Recompute::none, Recompute::echo}) {
        for (const Swap swap : {Swap::none, Swap::planned}) {
          const Program recorded = exchanging_step(layers, layers == 3, 2, rows);
          KernelCache cache(cpu_device(1));
          const StateLayout layout(recorded);
          CompileOptions options;
          options.recompute = recompute, options.swap.method = swap;
          const Compiled plain = compile(recorded, cache, layout, options);
          options.exchange_device = device;
          const Compiled free = compile(recorded, cache, layout, options);
          ASSERT_NO_THROW(verify(free.program));
          EXPECT_EQ(exchanges(free.program), exchanges(recorded));
          EXPECT_LE(predicted_ms(free, device), predicted_ms(plain, device) * (1 + 1e-9));
          // A budget of exactly what the plan without a queue needs, and between.
          const int64_t least = plain.plan.device().bytes, most = free.plan.device().bytes;
          for (const int64_t budget : {least, (least + most) / 2}) {
            if (budget < least || swap != Swap::none) continue;
            options.budget = budget;
            const Compiled within = compile(recorded, cache, layout, options);
            EXPECT_LE(within.plan.device().bytes, budget);
            options.budget.reset(), options.queue_budget = budget;
            EXPECT_LE(compile(recorded, cache, layout, options).plan.device().bytes, budget);
            options.queue_budget.reset();
            EXPECT_LE(predicted_ms(within, device), predicted_ms(plain, device) * (1 + 1e-9));
            fell_back += predicted_ms(within, device) > predicted_ms(free, device) * (1 + 1e-9);
          }
          queued += queue_count(free.program) > 3;
        }
      }
    }
  }
  EXPECT_GT(queued, 10);
  EXPECT_GT(fell_back, 0) << "no budget was in the way";
}

TEST(Exchanges, AQueueIsKeptForAGainAndWhereItsPlanFits) {
  const Program recorded = exchanging_step(8, false, 2);
  KernelCache cache(cpu_device(1));
  CompileOptions options;
  options.exchange_device = joined_by(1e8);
  const auto queues = [&] {
    return queue_count(compile(recorded, cache, StateLayout(recorded), options).program);
  };
  EXPECT_EQ(queues(), 4);
  options.exchange_device->vector = 1e6;  // next to it exchanges take next to nothing
  EXPECT_EQ(queues(), 1);
  // A plan that is larger than its peak promised.
  options.exchange_device.reset();
  Compiled step = compile(recorded, cache, StateLayout(recorded), options);
  options.exchange_device = joined_by(1e8);
  int placed = 0;
  queue_exchanges_of(step, cache, options, [&](const Compiled& made) {
    ++placed;
    Plan plan = make_plan(made.program, made.storages, StateLayout(recorded));
    plan.regions[region_of(Space::device)].bytes *= 2;
    return plan;
  });
  EXPECT_GT(placed, 1) << "others are tried";
  EXPECT_GT(step.passes.back().seconds, 0);
  EXPECT_EQ(queue_count(step.program), 1);
}

}  // namespace
}  // namespace pal
