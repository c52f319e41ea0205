// Logits whose rows have whole 16 bytes, on a card.
#pragma once
#include <optional>
#include <string>

#include "core/program.h"

namespace pal {

constexpr int64_t kEvenColumns = 8;               // rows of 16 bits get a multiple of so many
constexpr int64_t kFewLogits = int64_t{1} << 16;  // elements; fewer stay as they are

// The step with wider logits, where a vocabulary's size is no multiple of kEvenColumns: a card's
// libraries have their fast products for rows that begin on 16 bytes alone. The 16-bit copy of the
// output layer's weights gets rows or columns of zeros, the logits and their gradient columns, and
// the nodes that read them are told how many count. A bias that was added by a node of its own is
// the product's. Weights, their gradients, inputs and outputs stay, and so do the numbers of nodes
// and values. Nothing where there are no such logits, or where others read them.
std::optional<Program> even_rows(const Program& program, std::string* note = nullptr);

}  // namespace pal
