// The recurrent translator: an LSTM encoder, an attention, and an LSTM decoder with input feeding
// (Bahdanau et al. 2015; Luong et al. 2015; Hieber et al. 2017; the workload of Echo, section 6).
#pragma once
#include <string>
#include <vector>

#include "core/builder.h"

namespace pal {

struct NmtOptions {
  enum class Attention { mlp, scaled_luong };
  enum class Tie { none, target, all };
  enum class InitKind { uniform, xavier };

  int64_t source_vocab = 0, target_vocab = 0;
  int64_t embedding = 512, hidden = 512, attention_size = 512;
  int64_t encoder_layers = 2, decoder_layers = 2;
  bool bidirectional = true;  // the first encoder layer, hidden/2 each way
  bool reverse_source = false;
  bool input_feeding = true;
  Attention attention = Attention::mlp;
  Tie tie = Tie::none;
  InitKind init = InitKind::uniform;
  float init_scale = 0.1f;
  float forget_bias = 0;
  float dropout = 0;
  float label_smoothing = 0;
  bool fused = true;  // fused cell, score and dropout; false: at the papers' granularity
};

// Lengths that a program is recorded for: source and target steps, sentences.
struct NmtShape {
  int64_t source, target, batch;
};

struct NmtLoss {
  Val loss;  // f32[1]: label-smoothed cross entropy, summed over real target words / scalars.tokens
  Val nll;   // f32[1]: negative log likelihood in nats, summed over real target words
};

// Names of the inputs that the programs below declare.
namespace nmt_input {
inline constexpr const char* kScalars = "scalars";                // i32[16] StepScalars, on the host
inline constexpr const char* kSource = "source";                  // i32 (S, B)
inline constexpr const char* kSourceLengths = "source_lengths";   // i32 (B)
inline constexpr const char* kTargetIn = "target_in";             // i32 (T, B), begins with <s>
inline constexpr const char* kTargetOut = "target_out";           // i32 (T, B), ends with </s>
}  // namespace nmt_input

// ProgramError("model...") when sizes do not fit each other.
void check_nmt(const NmtOptions& options);

// Records the loss of a batch. `training` puts dropout and label smoothing in. `scalars` is the
// value of the step's scalars (the caller records it as the step's first node).
NmtLoss nmt_loss(Builder& builder, const NmtOptions& options, const NmtShape& shape, Val scalars,
                 bool training);

// Translation in two programs over the same weights.
// The encoder reads source, source_lengths; outputs "keys" (S, B, A), "values" (S, B, H) and the
// decoder's first states under the names of nmt_states().
void nmt_encoder(Builder& builder, const NmtOptions& options, const NmtShape& shape);
// One step of the decoder reads "keys", "values", source_lengths, "token" i32 (B) and the states;
// outputs "log_probs" (B, V) and "next/" + each state.
void nmt_decoder_step(Builder& builder, const NmtOptions& options, const NmtShape& shape);
// The decoder's states, each (B, H): decoder/h0, decoder/c0, ..., decoder/feed.
std::vector<std::string> nmt_states(const NmtOptions& options);

}  // namespace pal
