// pal eval: loss and BLEU (error rates, accuracy, perplexity) of a trained model on a part of its
// data, or on other files.
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

void refuse_source(const EvalArgs& args, const char* instead) {
  if (!args.source) return;
  throw UsageError(std::string("--source: is of use to translators only; ") + instead);
}

void refuse_search(const EvalArgs& args) {
  const EvalArgs usual;
  if (args.beam.beam == usual.beam.beam && args.beam.length_penalty == usual.beam.length_penalty) {
    return;
  }
  throw UsageError("--beam, --length-penalty: this model searches nothing; leave them out");
}

// A result for programs, and for people.
int print_result(const EvalArgs& args, const nlohmann::json& object, const std::string& text) {
  return print((args.json ? object.dump() : text) + "\n");
}

int eval_images(const EvalArgs& args) {
  refuse_source(args, "--part says what to evaluate");
  refuse_search(args);
  const Classifier models(args.model);
  log_info("evaluating " + models.weights());
  const ImageEvaluation r = models.evaluate(args.part);
  const nlohmann::json object{{"top1", r.top1},
                              {"top5", r.top5},
                              {"loss", r.loss},
                              {"images", r.images},
                              {"skipped", r.skipped}};
  return print_result(
      args, object,
      printed("top1 = %.2f  top5 = %.2f\nloss = %.4f nats an image (%lld images, %lld skipped)",
              r.top1, r.top5, r.loss, static_cast<long long>(r.images),
              static_cast<long long>(r.skipped)));
}

int eval_speech(const EvalArgs& args) {
  refuse_source(args, "for other sound files there is pal transcribe");
  const SavedSpeech model = open_speech(args.model);
  log_info("evaluating " + model.weights.string());
  const SpeechEvaluation r = model.task->evaluate(*model.programs, args.part, args.beam.beam);
  const double wer = r.words.percent(), cer = r.characters.percent();
  const nlohmann::json object{{"wer", wer},
                              {"cer", cer},
                              {"loss", r.loss},
                              {"utterances", r.utterances},
                              {"words", r.words.units},
                              {"word_errors", r.words.errors},
                              {"beam", args.beam.beam}};
  return print_result(
      args, object,
      printed("WER = %.2f %% (%lld of %lld words), CER = %.2f %%\nloss = %.4f nats an utterance "
              "(%lld utterances, beam %lld)",
              wer, static_cast<long long>(r.words.errors), static_cast<long long>(r.words.units),
              cer, r.loss, static_cast<long long>(r.utterances),
              static_cast<long long>(args.beam.beam)));
}

int eval_text(const EvalArgs& args, const SavedRun& run, const Config& config) {
  refuse_source(args, "--part says what to evaluate");
  refuse_search(args);
  if (split_models(args.model).size() > 1) {
    throw UsageError("--model: language models are evaluated one at a time");
  }
  const auto model = open_saved_model<LanguageTask>(run, config);
  log_info("evaluating " + model.weights.string());
  const Validation r = model.task->validate(*model.programs, args.part, {});
  const double perplexity = r.metrics.at(0).second;
  return print_result(args, {{"perplexity", perplexity}, {"loss", r.loss}},
                      printed("perplexity = %.2f\nloss = %.4f nats a word", perplexity, r.loss));
}

int eval_translation(const EvalArgs& args) {
  const Ensemble models(args.model);
  log_info("evaluating " + models.weights());
  TranslationData& data = models.data();
  TranslationPart other;
  if (args.source && args.reference) {
    other = data.read_part({args.source->string(), "--source"},
                           {args.reference->string(), "--reference"});
  }
  const TranslationPart& part = args.source ? other : data.part(args.part);
  const TranslationEvaluation r = models.evaluate(part, args.beam);
  if (r.truncated > 0) {
    log_warn(std::to_string(r.truncated) +
             " pairs are longer than the largest bucket; the "
             "loss counts their beginning, BLEU the whole");
  }
  const nlohmann::json object{{"bleu", r.bleu.score},
                              {"loss", r.loss},
                              {"sentences", r.hypotheses.size()},
                              {"signature", r.bleu.signature},
                              {"beam", args.beam.beam},
                              {"length_penalty", args.beam.length_penalty}};
  return print_result(
      args, object,
      printed("%s\nloss = %.4f nats a word (%zu sentences, beam %lld, length penalty %g, %s)",
              r.bleu.print().c_str(), r.loss, r.hypotheses.size(),
              static_cast<long long>(args.beam.beam), args.beam.length_penalty,
              r.bleu.signature.c_str()));
}

}  // namespace

int run_eval(const EvalArgs& args) {
  const SavedRun run = find_saved_run(split_models(args.model)[0]);
  const Config config = load_config(run.folder / "config.yaml");
  if (std::holds_alternative<SpeechConfig>(config.data)) return eval_speech(args);
  if (std::holds_alternative<ImageConfig>(config.data)) return eval_images(args);
  if (std::holds_alternative<TextConfig>(config.data)) return eval_text(args, run, config);
  return eval_translation(args);
}

namespace {

struct EvalFlags {
  EvalArgs args;
  std::string source, reference;

  void declare(Flags& flags) {
    add_models(flags, args.model);
    flags.add("--part", args.part, "part of the run's own data: valid or test", {.type = "PART"});
    flags.add("--source", source, "another text, one sentence a line",
              {.type = "FILE", .excludes = "--part"});
    flags.add("--reference", reference, "its translation", {.type = "FILE"});
    flags.pair("--source", "--reference");
    add_beam(flags, args.beam);
    add_json(flags, args.json);
  }
  Request read() {
    args.beam.n_best = 1;
    check_beam(args.beam);
    if (args.part != "valid" && args.part != "test") {
      throw UsageError("--part: '" + one_line(args.part) + "' is not one of valid, test");
    }
    if (!source.empty()) args.source = source;
    if (!reference.empty()) args.reference = reference;
    return request<run_eval>(args);
  }
};

}  // namespace

Command eval_command() {
  return command<EvalFlags>("eval", "loss, and BLEU or accuracy, of a trained model");
}

}  // namespace pal
