// A few training steps of a small translator over made-up words: run, recorded, replayed.
#pragma once
#include <cstring>
#include <string>
#include <vector>

#include "core/scalars.h"
#include "memory/run/program_set.h"
#include "tests/support/state_bytes.h"
#include "train/loop/initialise.h"
#include "train/loop/step_program.h"
#include "train/translation/translation_model.h"

namespace pal::test {

struct SmallTranslator {
  std::string config, precision;  // a YAML text; train.precision
  int64_t length, batch, vocab;
  int64_t shorter = 1;  // words that a sentence has less than the one before it, in fours
};
struct TrainedTranslator {
  Program program;
  std::vector<float> losses;
  std::string weights;
};

inline Program step_of(const SmallTranslator& of) {
  const TranslationModel model =
      translation_model(parse_config(of.config, "small.yaml"), of.vocab, of.vocab);
  TrainConfig train;
  train.precision = of.precision;
  return record_step(
      [&](Builder& b, Val s) {
        return Recorded{model.loss(b, {of.length, of.length, of.batch}, s, true).loss};
      },
      train, MicroBatch::only);
}

inline TrainedTranslator train_three_steps(const SmallTranslator& of, Device device,
                                           const CompileOptions& options) {
  device.tf32 = of.precision == "tf32";
  ProgramSet programs(options, device);
  Executable& step = programs.add("step", step_of(of));
  initialise(programs, 5);
  TrainedTranslator out{.program = step.program()};
  for (int i = 0; i < 3; ++i) {
    for (const NamedValue& in : step.program().inputs) {
      const TensorSpec& spec = step.program().value(in.value).spec;
      auto* to = reinterpret_cast<int32_t*>(step.input(in.name));
      if (in.name == kScalarsInput) continue;
      for (int64_t e = 0; e < spec.numel(); ++e) {  // lengths, or words
        to[e] = int32_t(spec.shape.rank() == 1 ? of.length - of.shorter * (e % 4)
                                               : 2 + (e * 7 + e / 5) % (of.vocab - 4));
      }
    }
    const StepScalars scalars{
        .learning_rate = 0.01f, .step = i, .seed_low = 9, .tokens = float(of.length * of.batch)};
    std::memcpy(step.input(kScalarsInput), &scalars, sizeof scalars);
    step.run();
    out.losses.push_back(*step.output("loss"));
  }
  out.weights = state_bytes(programs);
  return out;
}

}  // namespace pal::test
