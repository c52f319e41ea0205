// Addresses for Zico's scheduler, and what it is predicted to do with them.
#include "memory/share/zico_plan.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/spec.h"

namespace pal {
namespace {

constexpr double kRoundsToLearn = 90;  // of a step of each job, that are simulated

}  // namespace

int64_t place_for_zico(const StepShape& shape, PoolOffsets& offset) {
  const std::vector<char> is_map = feature_maps(shape);
  StepShape rest;
  rest.tick = shape.tick;
  std::vector<size_t> maps;
  for (size_t i = 0; i < is_map.size(); ++i) {
    is_map[i] ? maps.push_back(i) : rest.buffers.push_back(shape.buffers[i]);
  }
  PoolOffsets of_rest;
  int64_t height = place_longest_first(rest, of_rest);
  offset.assign(shape.buffers.size(), 0);
  for (size_t i = 0, r = 0; i < is_map.size(); ++i) {
    if (!is_map[i]) offset[i] = of_rest[r++];
  }
  std::stable_sort(maps.begin(), maps.end(), [&](size_t a, size_t b) {
    return shape.buffers[a].life.begin < shape.buffers[b].life.begin;
  });
  for (const size_t i : maps) offset[i] = height, height += shape.buffers[i].bytes;
  return height;
}

std::optional<CorunWay> zico_within(const std::vector<const StepShape*>& shapes, int64_t budget) {
  CorunWay way{.kind = CorunWay::Kind::zico};
  int64_t own = 0, sum = 0, tallest = 0;
  double round_ms = 0;
  for (const StepShape* shape : shapes) {
    const int64_t height = place_for_zico(*shape, way.placement.offset.emplace_back());
    tallest = std::max(tallest, height), sum += height;
    own += shape->own_bytes, round_ms += shape->ms();
  }
  const int64_t room = (budget - own) / kAlignment * kAlignment;
  if (tallest > room) return {};
  way.pool_bytes = way.placement.height = std::min(room, sum);
  for (size_t j = 1; j < shapes.size(); j += 2) {
    for (size_t i = 0; i < shapes[j]->buffers.size(); ++i) {
      int64_t& offset = way.placement.offset[j][i];
      offset = way.pool_bytes - offset - shapes[j]->buffers[i].bytes;
    }
  }
  std::vector<SimulatedJob> jobs;
  for (const StepShape* shape : shapes) jobs.push_back({.programs = {shape}});
  double clock = 0;
  const auto gate = zico_gate_of(way, shapes, &clock);
  way.rate = simulate(jobs, *gate, kRoundsToLearn * round_ms, {.clock = &clock}).rate;
  for (size_t j = 0; j < shapes.size(); ++j) way.rate[j] *= shapes[j]->ms_alone() / shapes[j]->ms();
  way.total = std::accumulate(way.rate.begin(), way.rate.end(), 0.0);
  return way;
}

std::unique_ptr<ZicoGate> zico_gate_of(const CorunWay& way,
                                       const std::vector<const StepShape*>& shapes,
                                       const double* clock) {
  ZicoPool pool{.programs = {}, .region_bytes = region_bytes_of(way.pool_bytes)};
  pool.regions = int32_t((way.pool_bytes + pool.region_bytes - 1) / pool.region_bytes);
  for (size_t j = 0; j < shapes.size(); ++j) {
    pool.own_bytes += shapes[j]->own_bytes;
    pool.programs.push_back(
        {region_holds(region_program(*shapes[j], way.placement.offset[j], pool.region_bytes))});
  }
  return zico_gate(std::move(pool), clock);
}

}  // namespace pal
