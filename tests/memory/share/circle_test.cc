// Placements on random circles, against a walk along the time of the circle that follows every
// byte.
#include "memory/share/circle.h"

#include <gtest/gtest.h>

#include <functional>

#include "core/error.h"
#include "tests/memory/share/shapes.h"

namespace pal::test {
namespace {

struct Walk {
  bool apart = true;  // nobody claimed what another held
  int64_t most = 0;   // bytes held at once
};

// Several periods: the first ones lack what began before them.
Walk walk(const Circle& circle, const PoolPlacement& placement) {
  struct Event {
    int64_t time;
    bool begins;
    size_t job, buffer;
    int owner;
  };
  constexpr int64_t kPeriods = 4;
  std::vector<Event> events;
  int owners = 0;
  for (size_t j = 0; j < circle.jobs.size(); ++j) {
    const JobOnCircle& job = circle.jobs[j];
    for (int64_t step = 0; step < kPeriods * job.steps; ++step) {
      const int64_t period = step / job.steps * circle.period;
      for (size_t i = 0; i < job.shape->buffers.size(); ++i, ++owners) {
        const Lifetime& life = job.shape->buffers[i].life;
        for (const bool begins : {true, false}) {
          const int64_t moment = begins ? life.begin : life.end;
          events.push_back(
              {period + job.time(int(step % job.steps), moment), begins, j, i, owners});
        }
      }
    }
  }
  std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    return a.time != b.time ? a.time < b.time : a.begins < b.begins;
  });
  OwnerMap owner(placement.height);
  Walk out;
  int64_t alive = 0;
  for (const Event& e : events) {
    const int64_t bytes = circle.jobs[e.job].shape->buffers[e.buffer].bytes;
    const int64_t offset = placement.offset[e.job][e.buffer];
    if (e.begins) {
      out.apart &= owner.claim(e.owner, offset, bytes);
      out.most = std::max(out.most, alive += bytes);
    } else {
      owner.free(e.owner, offset, bytes), alive -= bytes;
    }
  }
  return out;
}

TEST(Circle, MomentsOfAStepComeInOrderAndFillIt) {
  Random random(1);
  for (int round = 0; round < 300; ++round) {
    const RandomCircle r = random_circle(random, 2);
    for (const JobOnCircle& job : r.circle.jobs) {
      const StepShape& shape = *job.shape;
      for (int i = 0; i < job.steps; ++i) {
        ASSERT_GE(job.time(i, 0), job.begins + i * job.lasts + shape.tick[0]);
        ASSERT_EQ(job.time(i, shape.moments()), job.begins + (i + 1) * job.lasts);
        for (int64_t m = 1; m <= shape.moments(); ++m) {
          const int64_t alone = shape.tick[size_t(m)] - shape.tick[size_t(m - 1)];
          ASSERT_GE(job.time(i, m) - job.time(i, m - 1), alone);
        }
      }
    }
  }
}

TEST(Circle, NobodyClaimsWhatAnotherHolds) {
  Random random(2);
  int wrapped = 0, shared = 0;
  for (int round = 0; round < 2000; ++round) {
    const RandomCircle r = random_circle(random, size_t(random.between(2, 4)));
    const PoolPlacement placement = place_on(r.circle);
    const Walk seen = walk(r.circle, placement);
    ASSERT_TRUE(seen.apart) << "round " << round;
    ASSERT_EQ(most_alive(r.circle), seen.most) << "round " << round;
    ASSERT_EQ(placement.lower_bound, seen.most);
    ASSERT_GE(placement.height, seen.most);
    ASSERT_NO_THROW(check_placement(r.circle, placement));
    int64_t heights = 0;
    for (const auto& shape : r.shapes) heights += shape->alone_bytes - shape->own_bytes;
    shared += placement.height < heights;
    for (const JobOnCircle& job : r.circle.jobs) {
      wrapped += job.begins + job.steps * job.lasts > r.circle.period;
    }
  }
  EXPECT_GT(wrapped, 1000);
  EXPECT_GT(shared, 1000);
}

// Of one storage moved, the check and the walk say the same.
TEST(Circle, AMovedStorageIsRefusedWhereItLiesOverAnother) {
  Random random(3);
  int refused = 0, allowed = 0;
  for (int round = 0; round < 1500; ++round) {
    const RandomCircle r = random_circle(random, size_t(random.between(2, 4)));
    PoolPlacement placement = place_on(r.circle);
    auto& offsets = placement.offset[size_t(random.below(int64_t(r.circle.jobs.size())))];
    offsets[size_t(random.below(int64_t(offsets.size())))] =
        64 * random.between(-1, placement.height / 64);
    if (walk(r.circle, placement).apart) {
      ++allowed;
      ASSERT_NO_THROW(check_placement(r.circle, placement)) << "round " << round;
    } else {
      ++refused;
      ASSERT_THROW(check_placement(r.circle, placement), ProgramError) << "round " << round;
    }
  }
  EXPECT_GT(refused, 300);
  EXPECT_GT(allowed, 100);
}

TEST(Circle, EnoughIsWithinReachAndADeadlineLeavesAPlacement) {
  Random random(4);
  for (int round = 0; round < 200; ++round) {
    const RandomCircle r = random_circle(random, 3);
    const PoolPlacement best = place_on(r.circle);
    const PoolPlacement same = place_on(r.circle, best.height);
    EXPECT_EQ(same.height, best.height);
    const PoolPlacement late = place_on(r.circle, 0, Clock::now());
    EXPECT_GE(late.height, best.height);
    EXPECT_TRUE(walk(r.circle, late).apart);
  }
}

TEST(Circle, StepsThatDoNotFitAreRefused) {
  Random random(5);
  const RandomCircle r = random_circle(random, 2);
  const auto with = [&](const std::function<void(Circle&)>& change) {
    Circle circle = r.circle;
    change(circle);
    return circle;
  };
  EXPECT_NO_THROW(check_circle(r.circle));
  EXPECT_THROW(check_circle(with([](Circle& c) { c.jobs[1].steps = 0; })), ProgramError);
  EXPECT_THROW(check_circle(with([](Circle& c) { c.jobs[1].begins = -1; })), ProgramError);
  EXPECT_THROW(
      check_circle(with([](Circle& c) { c.jobs[1].lasts = c.jobs[1].shape->ticks() - 1; })),
      ProgramError);
  const auto fill = [](Circle& c) {
    c.period = std::max(c.jobs[0].steps * c.jobs[0].lasts, c.jobs[1].steps * c.jobs[1].lasts);
  };
  EXPECT_NO_THROW(check_circle(with(fill)));
  EXPECT_THROW(place_on(with([&](Circle& c) { fill(c), --c.period; })), ProgramError);
}

// Each job alone, from the bottom of the pool and from its top.
TEST(Circle, PlacedApartEachJobIsRightAlone) {
  Random random(6);
  for (int round = 0; round < 500; ++round) {
    std::vector<StepShape> shapes;
    for (int64_t j = random.between(2, 4); j > 0; --j) shapes.push_back(random_shape(random));
    std::vector<const StepShape*> jobs;
    int64_t largest = 0;
    for (const StepShape& shape : shapes) {
      jobs.push_back(&shape);
      largest = std::max(largest, shape.alone_bytes - shape.own_bytes);
    }
    ASSERT_EQ(place_apart(jobs).height, largest);
    const int64_t asked = largest + random.between(-100, 1000);
    const PoolPlacement apart = place_apart(jobs, asked);
    ASSERT_GE(apart.height, std::max(asked, largest));
    ASSERT_LT(apart.height, std::max(asked, largest) + 64);
    for (size_t j = 0; j < jobs.size(); ++j) {
      const Circle alone{jobs[j]->ticks(), {{jobs[j], 1, 0, jobs[j]->ticks()}}};
      const PoolPlacement own{.offset = {apart.offset[j]}, .height = apart.height};
      ASSERT_TRUE(walk(alone, own).apart) << "round " << round << ", job " << j;
      // One end of the pool is its own.
      const auto at_end = [&](size_t i) {
        return j % 2 ? own.offset[0][i] + jobs[j]->buffers[i].bytes == apart.height
                     : own.offset[0][i] == 0;
      };
      bool any = false;
      for (size_t i = 0; i < own.offset[0].size(); ++i) any |= at_end(i);
      ASSERT_TRUE(any);
    }
  }
}

}  // namespace
}  // namespace pal::test
