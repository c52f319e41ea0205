// The program `pal` (and `train`): runs the command that the command line names, and turns every
// failure into one line on standard error and an exit code (DESIGN section 8).
#include <cstdio>
#include <new>

#include "core/error.h"
#include "train/commands/cli.h"
#include "train/run_files/log.h"

namespace {

struct Run {
  int operator()(const pal::PrintText& print) const {
    std::fputs(print.text.c_str(), stdout);
    return std::fflush(stdout) == 0 ? pal::kExitDone : pal::kExitFailed;
  }
  int operator()(const pal::TrainArgs& args) const { return pal::run_train(args); }
  int operator()(const pal::PlanArgs& args) const { return pal::run_plan(args); }
  int operator()(const pal::ReproduceArgs& args) const { return pal::run_reproduce(args); }
  int operator()(const pal::BenchArgs& args) const { return pal::run_bench(args); }
  int operator()(const pal::PlaceArgs& args) const { return pal::run_place(args); }
  int operator()(const pal::TranslateArgs& args) const { return pal::run_translate(args); }
  int operator()(const pal::TranscribeArgs& args) const { return pal::run_transcribe(args); }
  int operator()(const pal::EvalArgs& args) const { return pal::run_eval(args); }
  int operator()(const pal::ClassifyArgs& args) const { return pal::run_classify(args); }
  int operator()(const pal::AverageArgs& args) const { return pal::run_average(args); }
  int operator()(const pal::ScoreArgs& args) const { return pal::run_score(args); }
};

}  // namespace

int main(int argc, char** argv) {
  try {
    std::string program = argc > 0 ? argv[0] : "pal";
    return std::visit(Run(), pal::parse_command_line(program, {argv + (argc > 0), argv + argc}));
  } catch (const pal::Error& e) {
    pal::log_error(e.what());
    return e.exit_code;
  } catch (const std::bad_alloc&) {
    pal::log_error("out of memory");
  } catch (const std::exception& e) {
    pal::log_error(e.what());
  }
  return pal::kExitFailed;
}
