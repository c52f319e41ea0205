// Rows of a table by number: word embeddings.
#pragma once
#include "core/op.h"
#include "core/val.h"

namespace pal {

extern const OpDef embedding_grad_op, embedding_op;
[[gnu::weak]] extern const Backend embedding_grad_cuda, embedding_cuda;

struct EmbeddingAttrs {
  int64_t padding = -1;
  auto fields() const { return std::tuple{field("padding", padding)}; }
};
struct EmbeddingGradAttrs {
  int64_t rows = 0, padding = -1;
  auto fields() const { return std::tuple{field("rows", rows), field("padding", padding)}; }
};

// weights (V, E), ids i32 (..) -> (.., E): row ids[i] of the table. Positions whose id is `padding`
// give their row but get no gradient (-1: there is none such). An id outside [0, V) is a
// ProgramError, with the id and its position, when the node runs.
Val embedding(Val weights, Val ids, int64_t padding = -1);
// dy (.., E), ids (..) -> (V, E): rows of dy added up by id, in the order of the ids, onto `sum`
// where there is one. f32, or of the sum's type.
Val embedding_grad(Val dy, Val ids, Val sum, int64_t rows, int64_t padding = -1);

}  // namespace pal
