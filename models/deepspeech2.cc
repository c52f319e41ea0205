// Deep Speech 2, from the bottom of the paper's Figure 1 to its top.
#include "models/deepspeech2.h"

#include <cmath>
#include <string>

#include "ops/convolution/conv2d.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/dropout.h"
#include "ops/losses/ctc_loss.h"
#include "ops/losses/log_softmax.h"
#include "ops/norms/frame_norm.h"
#include "ops/products/matmul.h"
#include "ops/recurrent/gru.h"
#include "ops/recurrent/lstm.h"
#include "ops/recurrent/recurrent_layer.h"
#include "ops/tensors/columns.h"
#include "ops/tensors/fill.h"
#include "ops/tensors/row_order.h"
#include "ops/tensors/views.h"

namespace pal {
namespace {

using Conv = DeepSpeech2Options::Conv;
using Cell = DeepSpeech2Options::Cell;

int64_t windows(int64_t extent, int64_t kernel, int64_t stride) {
  return (extent + 2 * (kernel / 2) - kernel) / stride + 1;
}

// Weights, and the layers between the recurrent ones. With `training_scalars` they are as in
// training.
class SpeechLayers {
 public:
  std::vector<MovedStatistic> take_moved() { return std::move(moved_); }

 protected:
  SpeechLayers(Builder& builder, const DeepSpeech2Options& options, Val steps, Val training_scalars)
      : b_(builder), o_(options), steps_(steps), scalars_(training_scalars) {}

  Val uniform(const std::string& name, const Shape& shape, int64_t fan_in) {
    return b_.weight(name, {shape}, {Init::Kind::uniform, 1 / std::sqrt(float(fan_in))});
  }
  Val constant(const std::string& name, int64_t size, float value) {
    return b_.weight(name, {{size}}, {Init::Kind::constant, value});
  }
  Val dense(Val x, int64_t width) {
    const int64_t from = x.shape().back();
    return linear(x, uniform("w", {from, width}, from), constant("bias", width, 0));
  }
  Val dropped(Val x) { return scalars_ && o_.dropout > 0 ? dropout(x, scalars_, o_.dropout) : x; }

  // Batch norm over valid frames; zero beyond.
  Val norm(Val x, bool batch_first) {
    const int64_t channels = x.shape().back();
    Val gain = constant("gain", channels, 1), shift = constant("shift", channels, 0);
    auto running = [&](const char* name, float value) {
      return b_.state(b_.scope() + "/" + name, {{channels}}, Role::statistic,
                      {Init::Kind::constant, value});
    };
    Val mean = running("running_mean", 0), variance = running("running_variance", 1);
    const FrameNormAttrs attrs{o_.eps, batch_first};
    if (!scalars_) return frame_norm_infer(x, gain, shift, steps_, mean, variance, attrs);
    const FrameNorm of_batch = frame_norm(x, gain, shift, steps_, attrs);
    moved_.push_back({mean, of_batch.mean, o_.momentum});
    moved_.push_back({variance, of_batch.variance, o_.momentum});
    return of_batch.y;
  }

  // (B, T, bins, C) -> (B, T', bins', channels); the norm's shift makes a bias.
  Val convolution(const std::string& name, Val x, const Conv& c) {
    Builder::Within scope(b_, name);
    const int64_t from = x.shape().back();
    Val w = uniform("w", {o_.channels, c.time, c.bins, from}, c.time * c.bins * from);
    const Conv2dAttrs attrs{.stride_h = c.time_stride,
                            .stride_w = c.bin_stride,
                            .top = c.time / 2,
                            .left = c.bins / 2,
                            .bottom = c.time / 2,
                            .right = c.bins / 2};
    return clip(norm(conv2d(x, w, attrs), true), 0, o_.clip);
  }

  Builder& b_;
  const DeepSpeech2Options& o_;
  Val steps_, scalars_;

 private:
  std::vector<MovedStatistic> moved_;
};

class SpeechNetwork : public SpeechLayers {
 public:
  SpeechNetwork(Builder& builder, const DeepSpeech2Options& options, Val steps,
                Val training_scalars)
      : SpeechLayers(builder, options, steps, training_scalars) {}

  // (B, F, bins) -> (T', B, labels)
  Val logits(Val features) {
    const Shape shape = features.shape();
    Val x = reshape(features, {shape[0], shape[1], shape[2], 1});
    const std::vector<Conv> convs = o_.convs();
    for (size_t l = 0; l < convs.size(); ++l) {
      x = convolution("conv" + std::to_string(l), x, convs[l]);
    }
    x = swap_leading(x);  // (T', B, bins', channels)
    const Shape wide = x.shape();
    x = reshape(x, {wide[0], wide[1], wide[2] * wide[3]});
    for (int64_t l = 0; l < o_.layers; ++l) {
      Builder::Within scope(b_, "rnn" + std::to_string(l));
      if (l > 0) x = norm(dropped(x), false);
      x = recurrent(x);
    }
    Builder::Within scope(b_, "output");
    x = norm(dropped(x), false);
    if (o_.fully_connected > 0) {
      Builder::Within layer(b_, "fully_connected");
      x = clip(dense(x, o_.fully_connected), 0, o_.clip);
    }
    return dense(x, o_.labels);
  }

 private:
  // (T, B, I) -> (T, B, H or 2 H)
  Val recurrent(Val x) {
    Val forward = direction("forward", x, false);
    if (!o_.bidirectional) return forward;
    Val backward = direction("backward", x, true);
    return o_.directions == DeepSpeech2Options::Directions::sum ? add(forward, backward)
                                                                : concatenate({forward, backward});
  }

  // Backwards it begins at the padding, where a state is held: it stays zero up to the last frame.
  Val direction(const std::string& name, Val x, bool backwards) {
    Builder::Within scope(b_, name);
    const int64_t T = x.shape()[0], B = x.shape()[1], I = x.shape().back(), H = o_.hidden;
    const int64_t gates = o_.cell == Cell::lstm ? 4 : 3;
    Val wx = uniform("wx", {I, gates * H}, H), bias = constant("bias", gates * H, 0);
    Val wh = b_.weight("wh", {{H, gates * H}}, {Init::Kind::orthogonal, 1});
    Val bias_h = o_.cell == Cell::gru ? constant("bias_h", gates * H, 0) : Val{};
    if (o_.whole_layers) {
      return o_.cell == Cell::lstm ? lstm_layer({x, wx, wh, bias, steps_}, backwards)
                                   : gru_layer({x, wx, wh, bias, bias_h, steps_}, backwards);
    }
    const std::vector<Val> inputs = unbind(linear(x, wx, bias));  // T of (B, gates H)
    const TensorSpec spec{{B, H}, b_.feature_type()};
    LstmState state{fill(b_, spec, 0), o_.cell == Cell::lstm ? fill(b_, spec, 0) : Val{}};
    std::vector<Val> h(static_cast<size_t>(T));
    for (int64_t i = 0; i < T; ++i) {
      const int64_t t = backwards ? T - 1 - i : i;
      Builder::Within step(b_, "", static_cast<int32_t>(t));
      state = cell(inputs[static_cast<size_t>(t)], state, wh, bias_h, t);
      h[static_cast<size_t>(t)] = state.h;
    }
    return stack(h);
  }

  LstmState cell(Val input, const LstmState& before, Val wh, Val bias_h, int64_t t) {
    if (o_.cell == Cell::lstm) {
      Val gates = matmul(before.h, wh, false, false, input);
      return o_.fused ? lstm_cell(gates, before, steps_, t)
                      : lstm_cell_unfused(gates, before, steps_, t);
    }
    Val of_state = linear(before.h, wh, bias_h);
    return {o_.fused ? gru_cell(input, of_state, before.h, steps_, t)
                     : gru_cell_unfused(input, of_state, before.h, steps_, t),
            {}};
  }
};

}  // namespace

int64_t output_steps(const DeepSpeech2Options& options, int64_t frames) {
  if (frames == 0) return 0;
  for (const Conv& c : options.convs()) frames = windows(frames, c.time, c.time_stride);
  return frames;
}

SpeechLoss deepspeech2_loss(Builder& b, const DeepSpeech2Options& o, const SpeechShape& shape,
                            Val scalars, bool training) {
  const auto [F, L, B] = shape;
  Val features = b.input(speech_input::kFeatures, {{B, F, o.bins}});
  Val steps = b.input(speech_input::kSteps, {{B}, DType::i32});
  Val labels = b.input(speech_input::kLabels, {{L, B}, DType::i32});
  Val lengths = b.input(speech_input::kLabelLengths, {{B}, DType::i32});
  SpeechNetwork net(b, o, steps, training ? scalars : Val{});
  Val logits = net.logits(features);
  Builder::Within scope(b, "ctc");
  // An utterance too short for its transcript teaches nothing, and must not end the run.
  const CtcLoss ctc = ctc_loss({logits, labels, steps, lengths, scalars}, {.zero_infinity = true});
  return {ctc.loss, ctc.nll, logits, net.take_moved()};
}

void deepspeech2_recogniser(Builder& b, const DeepSpeech2Options& o, const SpeechShape& shape) {
  Val features = b.input(speech_input::kFeatures, {{shape.batch, shape.frames, o.bins}});
  Val steps = b.input(speech_input::kSteps, {{shape.batch}, DType::i32});
  SpeechNetwork net(b, o, steps, {});
  b.output("log_probs", log_softmax(net.logits(features)));
}

}  // namespace pal
