// The layers of the recurrent translator, as models/recurrent_translator.h asks for them.
#pragma once
#include <string>
#include <vector>

#include "core/builder.h"
#include "models/nmt_options.h"
#include "models/recurrent_translator.h"

namespace pal {

class NmtLayers {
 public:
  NmtLayers(Builder& builder, const NmtOptions& options, Val scalars)
      : b_(builder), o_(options), scalars_(scalars) {}

  Encoded encode(Val source, Val lengths);
  DecoderState first_state(const Encoded&) const { return first_; }  // encode() makes it
  Val embed_target(Val words);                                       // one product for all steps
  Val decode(Val word_gates, DecoderState& state, const Encoded& encoded);
  Val before_output(Val attended) { return dropout(attended); }
  Val logits(Val x);

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
  Val dropout(Val x, float p) { return dropped(x, p, scalars_, o_.fused); }
  Val dropout(Val x) { return dropout(x, o_.dropout); }
  Val embedding_dropout(Val x) { return dropout(x, o_.embedding_dropout.value_or(o_.dropout)); }
  Val attend(Val query, const Encoded& encoded);  // (B, H) -> context (B, H)
  Encoded read_source(Val source, Val lengths, Val& last);
  // tanh(W last + b) for every layer's h and c, zeros for the attended vector; `last` (B, H): the
  // encoder's output at each sentence's last word.
  DecoderState state_after(Val last);
  Val embedding_matrix(const std::string& side, int64_t words);

  Builder& b_;
  const NmtOptions& o_;
  Val scalars_;
  DecoderState first_;
};

}  // namespace pal
