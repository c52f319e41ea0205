// Echo's candidates: choices at several distances and prices, judged by the footprints that they
// leave and by what a roofline says that they cost.
#pragma once
#include <array>

#include "memory/price/predict.h"
#include "memory/recompute/clones.h"
#include "memory/recompute/echo.h"

namespace pal {

// The card of the paper (RTX 2080 Ti), as its data sheet has it: whatever the step will run on, the
// same is recomputed.
inline const DeviceProfile kEchoDevice{.name = "RTX 2080 Ti",
                                       .f32 = 13.4e12,
                                       .vector = 13.4e12,
                                       .memory = 616e9,
                                       .link = 15.75e9,
                                       .launch = 5e-6,
                                       .tile = 1};

// Prices tried in turn, until what they leave is cheap enough: bytes moved for a byte saved are
// divided by these. After the first, starting a node counts as moving kEchoLaunch bytes (5 us of
// that card). Between the last that is too little and the next, the middle is tried twice.
constexpr std::array<double, 6> kEchoPrices = {1, 2, 4, 8, 16, 32};
constexpr double kEchoLaunch = 3e6;

// What counts as near, tried in turn; the one with the smallest footprint is used, at all prices.
// The last is any distance: where the peak lies between the phases (a vocabulary's scores), even a
// whole chain that is made again at once is better than one that is kept, as it comes after the
// peak.
constexpr std::array<NodeId, 4> kEchoDistances = {64, 256, 1024, NodeId{1} << 30};
// Clones of nodes whose operands are there anyway serve readers at most so far apart.
constexpr NodeId kEchoFar = 1024;

// The smallest footprint that costs at most options.overhead (and fits goal.budget, whatever it
// costs, where that can be had). Where one price costs too much and the next leaves time to spare,
// regions that only the first chooses are added to what the second does, those that save most bytes
// for their time first.
Clones best_echo(const StepView& view, const RecomputeOptions& options, const RecomputeGoal& goal);

}  // namespace pal
