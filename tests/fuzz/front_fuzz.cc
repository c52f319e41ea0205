// Any bytes as a front that the cache kept, behind a sum that is right: no front, or plans each of
// which compile() makes of a step, or refuses.
#include <cmath>

#include "core/error.h"
#include "tests/fuzz/fuzz.h"
#include "tests/memory/toy_card.h"
#include "tests/support/random_network.h"
#include "train/loop/front_text.h"

namespace pal {
namespace {

struct Step {
  Program program = test::random_network(3, {.layers = 4, .batch = 64});
  StateLayout layout{program};
  KernelCache kernels{Device{}};
  CompileOptions options{.profile = test::toy_card(1e7)};
  FrontChoices choices{.lossy = true};
};
Step& step() {
  static Step made;
  return made;
}

void check_point(const FrontPoint& point) {
  require(point.bytes >= 0 && point.host >= 0 && point.offloaded >= 0, "numbers of bytes");
  require(point.step_ms >= 0 && std::isfinite(point.step_ms), "a time");
  try {
    const Compiled made = compile(step().program, step().kernels, step().layout, point.options);
    require(made.plan.device().bytes > 0, "a plan");
  } catch (const Error&) {  // it names what this step has not
  }
}

bool body(std::string_view bytes) {
  Front front;
  try {
    front = parse_front(std::string(bytes), step().options, step().choices);
  } catch (const std::exception&) {  // whose words the cache puts into one line
    return false;
  }
  require(!front.points.empty(), "a front has plans");
  check_point(front.points.front()), check_point(front.points.back());
  front.pick({.device = front.points.back().bytes, .host = 1});
  const std::string text = text_of(front);
  require(text_of(parse_front(text, step().options, step().choices)) == text,
          "it reads what it writes");
  return true;
}

}  // namespace

FuzzTarget fuzz_front() {
  Front front =
      make_front(step().program, step().kernels, step().layout, step().options, step().choices);
  std::vector<std::string> seeds{text_of(front)};
  for (const FrontPoint& point : front.points) seeds.push_back(text_of({.points = {point}}));
  FrontPoint point = front.points.front();
  point.options.recompute = Recompute::reruns;
  point.options.recompute_options.reruns = {{ValueId(3), ValueId(9)}, {ValueId(4), ValueId(9)}};
  point.options.recompute_options.scopes = {"a"};
  point.options.swap = {.method = Swap::planned, .chosen = {{ValueId(1), ValueId(5)}}};
  point.options.budget = 100'000;
  seeds.push_back(text_of({.points = {point}}));
  return {seeds,
          json_scraps({"\"away\":[", "\"budget\":", "\"chosen\":[", "\"dpr\":", "\"reruns\":[[",
                       "\"swap\":", "\"vdnn\":", "\"place_nodes\":", "5", "255", "2147483647",
                       "4294967297"}),
          body};
}

}  // namespace pal
