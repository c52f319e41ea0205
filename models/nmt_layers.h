// The layers that the translator's programs share: each records the same nodes over the same
// weights wherever it is called.
#pragma once
#include <string>
#include <vector>

#include "core/builder.h"
#include "models/nmt_options.h"
#include "ops/recurrent/lstm.h"

namespace pal {

struct Encoded {
  Val keys;     // (S, B, A) projected for the attention, once
  Val values;   // (S, B, H) the encoder's outputs
  Val lengths;  // i32 (B)
  Val last;     // (B, H) the output at each sentence's last word (null in the decoder's step)
};

struct DecoderState {
  std::vector<LstmState> layers = {};
  Val attended;  // (B, H) tanh(W [context; h]) of the step before: what input feeding feeds
};

class NmtLayers {
 public:
  // With `scalars`, dropout is recorded; without, the model is as it translates.
  NmtLayers(Builder& builder, const NmtOptions& options, Val scalars)
      : b_(builder), o_(options), scalars_(scalars) {}

  Encoded encode(Val source, Val lengths);  // i32 (S, B), i32 (B)
  // tanh(W last + b) for every layer's h and c, zeros for the attended vector.
  DecoderState first_state(const Encoded& encoded);
  // The target words' part of the first layer's gates: i32 (T, B) -> (T, B, 4H), one product for
  // all steps.
  Val embed_target(Val words);
  // One step; call it in the scope "decoder".
  DecoderState decode(Val word_gates, const DecoderState& before, const Encoded& encoded);
  Val before_output(Val attended);  // (..., H), dropped
  Val logits(Val x);                // (..., H) -> (..., V)

 private:
  struct LstmWeights {
    Val wx, wh, bias;
  };  // (I, 4H), (H, 4H), (4H)

  Val matrix(const std::string& name, int64_t rows, int64_t columns);
  Val vector(const std::string& name, int64_t size);
  Val lstm_bias(int64_t hidden);  // (4H)
  LstmWeights lstm_weights(int64_t input, int64_t hidden);
  // Layer norm of x (.., C), its gain a weight gain_NAME (C); without a shift (C) there is none.
  Val normalise(const std::string& name, Val x, Val shift);
  // Gates (B, 4H) from the input's part and h (B, H).
  Val gates(Val from_input, Val h, Val wh);
  LstmState cell(Val gates, const LstmState& before, Val lengths, int64_t t);
  LstmState normalised_cell(Val gates, const LstmState& before);
  // One layer over all steps: (S, B, I) -> (S, B, H), and the state at each sentence's end.
  Val run_lstm(const std::string& name, Val x, int64_t hidden, Val lengths, Val* last);
  Val dropout(Val x, float p);
  Val dropout(Val x) { return dropout(x, o_.dropout); }
  Val embedding_dropout(Val x) { return dropout(x, o_.embedding_dropout.value_or(o_.dropout)); }
  Val attend(Val query, const Encoded& encoded);  // (B, H) -> context (B, H)
  Val embedding_matrix(const std::string& side, int64_t words);

  Builder& b_;
  const NmtOptions& o_;
  Val scalars_;
};

}  // namespace pal
