// pal eval: loss and BLEU (error rates, accuracy, perplexity) of a trained model on a part of its
// data, or on other files.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "train/commands/command.h"
#include "train/commands/commands.h"
#include "train/config/wording.h"
#include "train/images/classifier.h"
#include "train/language/language_task.h"
#include "train/loop/saved_model.h"
#include "train/run_files/log.h"
#include "train/run_files/saved_run.h"
#include "train/speech/speech_task.h"
#include "train/translation/ensemble.h"

namespace pal {

namespace {

int eval_images(const EvalArgs& args) {
  if (args.source) {
    throw UsageError("--source: is of use to translators only; --part says what to evaluate");
  }
  const Classifier models(args.model);
  log_info("evaluating " + models.weights());
  const ImageEvaluation result = models.evaluate(args.part);
  if (args.json) {
    const nlohmann::json object{{"top1", result.top1},
                                {"top5", result.top5},
                                {"loss", result.loss},
                                {"images", result.images},
                                {"skipped", result.skipped}};
    std::puts(object.dump().c_str());
  } else {
    std::printf("top1 = %.2f  top5 = %.2f\nloss = %.4f nats an image (%lld images, %lld skipped)\n",
                result.top1, result.top5, result.loss, static_cast<long long>(result.images),
                static_cast<long long>(result.skipped));
  }
  if (std::fflush(stdout) != 0) throw Error(kExitFailed, "standard output: cannot be written");
  return kExitDone;
}

int eval_speech(const EvalArgs& args) {
  if (args.source) {
    throw UsageError(
        "--source: is of use to translators only; for other sound files there is "
        "pal transcribe");
  }
  const SavedSpeech model = open_speech(args.model);
  log_info("evaluating " + model.weights.string());
  const SpeechEvaluation result = model.task->evaluate(*model.programs, args.part, args.beam.beam);
  if (args.json) {
    const nlohmann::json object{
        {"wer", result.words.percent()}, {"cer", result.characters.percent()},
        {"loss", result.loss},           {"utterances", result.utterances},
        {"words", result.words.units},   {"word_errors", result.words.errors},
        {"beam", args.beam.beam}};
    std::puts(object.dump().c_str());
  } else {
    std::printf(
        "WER = %.2f %% (%lld of %lld words), CER = %.2f %%\nloss = %.4f nats an utterance "
        "(%lld utterances, beam %lld)\n",
        result.words.percent(), static_cast<long long>(result.words.errors),
        static_cast<long long>(result.words.units), result.characters.percent(), result.loss,
        static_cast<long long>(result.utterances), static_cast<long long>(args.beam.beam));
  }
  if (std::fflush(stdout) != 0) throw Error(kExitFailed, "standard output: cannot be written");
  return kExitDone;
}

int eval_text(const EvalArgs& args, const SavedRun& run, const Config& config) {
  if (args.source) {
    throw UsageError("--source: is of use to translators only; --part says what to evaluate");
  }
  const auto model = open_saved_model<LanguageTask>(run, config);
  log_info("evaluating " + model.weights.string());
  const Validation result = model.task->validate(*model.programs, args.part);
  const double perplexity = result.metrics.at(0).second;
  if (args.json) {
    std::puts(nlohmann::json{{"perplexity", perplexity}, {"loss", result.loss}}.dump().c_str());
  } else {
    std::printf("perplexity = %.2f\nloss = %.4f nats a word\n", perplexity, result.loss);
  }
  if (std::fflush(stdout) != 0) throw Error(kExitFailed, "standard output: cannot be written");
  return kExitDone;
}

}  // namespace

int run_eval(const EvalArgs& args) {
  const SavedRun run = find_saved_run(split_models(args.model)[0]);
  const Config config = load_config(run.folder / "config.yaml");
  if (std::holds_alternative<SpeechConfig>(config.data)) return eval_speech(args);
  if (std::holds_alternative<ImageConfig>(config.data)) return eval_images(args);
  if (std::holds_alternative<TextConfig>(config.data)) return eval_text(args, run, config);
  const Ensemble models(args.model);
  log_info("evaluating " + models.weights());
  TranslationData& data = models.data();
  TranslationPart other;
  if (args.source && args.reference) {
    other = data.read_part({args.source->string(), "--source"},
                           {args.reference->string(), "--reference"});
  }
  const TranslationPart& part = args.source ? other : data.part(args.part);
  const TranslationEvaluation result = models.evaluate(part, args.beam);
  if (result.truncated > 0) {
    log_warn(std::to_string(result.truncated) +
             " pairs are longer than the largest bucket; the "
             "loss counts their beginning, BLEU the whole");
  }
  const auto sentences = static_cast<int64_t>(result.hypotheses.size());
  if (args.json) {
    const nlohmann::json object{
        {"bleu", result.bleu.score}, {"loss", result.loss},
        {"sentences", sentences},    {"signature", result.bleu.signature},
        {"beam", args.beam.beam},    {"length_penalty", args.beam.length_penalty}};
    std::puts(object.dump().c_str());
  } else {
    std::printf("%s\nloss = %.4f nats a word (%lld sentences, beam %lld, length penalty %g, %s)\n",
                result.bleu.print().c_str(), result.loss, static_cast<long long>(sentences),
                static_cast<long long>(args.beam.beam), args.beam.length_penalty,
                result.bleu.signature.c_str());
  }
  if (std::fflush(stdout) != 0) throw Error(kExitFailed, "standard output: cannot be written");
  return kExitDone;
}

namespace {

std::function<Request()> eval_flags(Flags& flags) {
  struct Given {
    EvalArgs args;
    std::string source, reference;
  };
  auto given = std::make_shared<Given>();
  add_models(flags, given->args.model);
  flags.add("--part", given->args.part, "part of the run's own data: valid or test",
            {.type = "PART"});
  flags.add("--source", given->source, "another text, one sentence a line",
            {.type = "FILE", .excludes = "--part"});
  flags.add("--reference", given->reference, "its translation", {.type = "FILE"});
  flags.pair("--source", "--reference");
  add_beam(flags, given->args.beam);
  add_json(flags, given->args.json);
  return [given] {
    EvalArgs& args = given->args;
    args.beam.n_best = 1;
    check_beam(args.beam);
    if (args.part != "valid" && args.part != "test") {
      throw UsageError("--part: '" + one_line(args.part) + "' is not one of valid, test");
    }
    if (!given->source.empty()) args.source = given->source;
    if (!given->reference.empty()) args.reference = given->reference;
    return request<run_eval>(args);
  };
}

}  // namespace

Command eval_command() {
  return {"eval", "loss, and BLEU or accuracy, of a trained model", eval_flags};
}

}  // namespace pal
