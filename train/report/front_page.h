// A front as people look at it: the picture of time by bytes, what the chosen plan does with the
// maps of each kind of layer, and how it uses the link.
#pragma once
#include <string>

#include "memory/compiled.h"
#include "memory/front/pool.h"
#include "train/report/plan_facts.h"

namespace pal {

// "encoder/rnn0/forward" -> "encoder/rnn": the layers of a kind together.
std::string kind_of_layers(const std::string& scope);

// Every plan of the front as a step down, techniques alone as small marks, the chosen one named,
// the floor and the budget (0: none) as lines.
std::string front_picture(const Front& front, const FrontPoint* chosen, int64_t budget);

// Bytes of feature maps that are read after the forward phase, by kind of layer and by what becomes
// of them in this step.
std::string choices_table(const Compiled& step);

// The section of a page: all of it, with the link where there is traffic. "" where facts.front is
// null.
std::string front_html(const Compiled& step, const PlanFacts& facts);

}  // namespace pal
