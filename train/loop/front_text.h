// Fronts as text, and back.
#pragma once
#include <string>

#include "memory/front/pool.h"

namespace pal {

std::string text_of(const Front& front);

// `given`, `choices`: what make_front() was handed. What the text says is that of no program yet:
// compile() holds the values that it names against one. Error where it is torn, names what is no
// option, or has a number that no front has.
Front parse_front(const std::string& text, const CompileOptions& given,
                  const FrontChoices& choices);

}  // namespace pal
