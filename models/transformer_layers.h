// The parts of Figure 1 of Vaswani et al. 2017, each under the paper's name: every function records
// the same nodes over the same weights wherever it is called. T and S are target and source steps,
// B sentences, D the hidden width.
#pragma once
#include <functional>
#include <string>

#include "core/builder.h"
#include "models/transformer_options.h"
#include "models/translation.h"
#include "ops/attention/attention.h"

namespace pal {

struct KeysValues {
  Val keys, values;  // (S, B, D) each
};

class TransformerLayers {
 public:
  // With `scalars`, dropout is recorded; without, the model is as it translates.
  TransformerLayers(Builder& builder, const TransformerOptions& options, Val scalars)
      : b_(builder), o_(options), scalars_(scalars) {}

  // i32 (S, B), i32 (B) -> (S, B, D): the stack on the left.
  Val encode(Val source, Val lengths);
  // Keys and values of layer l's attention to the source.
  KeysValues source_keys_values(int64_t l, Val encoded);
  // i32 (T, B) -> (T, B, D): the stack on the right, over whole targets.
  Val decode(Val target, Val encoded, Val lengths);

  // One step of the decoder. `own` becomes the keys and values (B, D) of this step's word.
  struct Cached {
    KeysValues source, target;  // of a layer; target: (T, B, D), the first `position` rows
    KeysValues own;
  };
  // i32 (1, B) -> (B, D); `rows`: where the target's rows lie (translation_input::kCachedRows).
  Val decode_step(Val token, Val position, Val rows, Val lengths, std::vector<Cached>& layers);

  Val logits(Val x);  // (.., D) -> (.., V)

 private:
  using Sublayer = std::function<Val(Val)>;

  Val matrix(const std::string& name, int64_t rows, int64_t columns);
  // `count` matrices (D, D) one below the other, (count D, D), that are drawn as if each stood
  // alone. What they all are multiplied with makes one product of them: x w^T, side by side.
  Val stacked(const std::string& name, int64_t count);
  // x times the transpose of each of them.
  std::vector<Val> products(Val x, const std::string& name, int64_t count);
  Val embedding_matrix(const std::string& side, int64_t words);
  Val embed(const std::string& side, int64_t words, Val ids, Val position = {});
  Val normalise(Val x);
  // LayerNorm(x + f(x)), or x + f(LayerNorm(x)).
  Val residual(const std::string& name, Val x, const Sublayer& f);
  Val end_of_stack(Val x);
  // Multi-head attention: of q, k and v, each by itself or side by side as attention() takes them.
  Val attend(const std::vector<Val>& qkv, AttentionMask mask);
  Val attend_to_itself(Val x, AttentionMask mask);
  Val attend_to_source(Val x, std::vector<Val> keys_values, Val lengths);
  Val feed_forward(Val x);
  Val decoder_layer(int64_t l, Val x, const Sublayer& self_attention,
                    const Sublayer& source_attention);
  Val dropout(Val x, float p) { return dropped(x, p, scalars_, o_.fused); }

  Builder& b_;
  const TransformerOptions& o_;
  Val scalars_;
};

}  // namespace pal
