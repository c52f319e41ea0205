// The command line, with CLI11.
#include "train/commands/cli.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>

#include "core/error.h"
#include "train/config/wording.h"

namespace pal {
namespace fs = std::filesystem;
namespace {

// Everything any command's flags may fill.
struct Flags {
  std::string config, out, device, budget, bucket, html, lifetimes, name, profile, model, input,
      source, reference, target, part = "test";
  std::vector<std::string> set, images, sounds;
  std::string steps, capacity, time_limit, max_depth;
  bool max_batch = false, measure = false;
  bool resume = false, dump_config = false, dry_run = false, json = false, list = false;
  BeamOptions beam;
  std::optional<int64_t> n_best;
  int64_t last = 5, top = 5, prefixes = 1;
};

void config_flags(CLI::App& app, Flags& flags) {
  app.add_option("--config", flags.config, "path of a .yaml file, or the name of one in configs/")
      ->type_name("C");
  app.add_option("--set", flags.set, "override an option: --set train.lr=0.001 (repeatable)")
      ->type_name("KEY=VALUE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->delimiter('\0');
}

void model_flag(CLI::App& app, Flags& flags) {
  app.add_option("--model", flags.model, "folder of a run; several: an ensemble")
      ->type_name("DIR[,DIR...]")
      ->required();
}

void beam_flags(CLI::App& app, BeamOptions& beam) {
  app.add_option("--beam", beam.beam, "hypotheses side by side; 1 is greedy search (5)")
      ->type_name("K");
  app.add_option("--length-penalty", beam.length_penalty,
                 "score = log P / words^A; 0: the probability alone (1)")
      ->type_name("A");
  app.add_flag("--allow-unknown", beam.allow_unknown, "<unk> may be chosen");
}

void add_commands(CLI::App& app, Flags& flags) {
  const char* json_help = "print one JSON object on standard output, logs on standard error";

  CLI::App* train = app.add_subcommand("train", "train a model; saves, validates and logs");
  config_flags(*train, flags);
  train->add_option("--steps", flags.steps, "end when the step counter reaches N")->type_name("N");
  train->add_option("--out", flags.out, "folder of the run (runs/NAME)")->type_name("DIR");
  train->add_flag("--resume", flags.resume, "go on with the run in --out");
  train->add_option("--device", flags.device, "cpu, cuda or auto")->type_name("D");
  auto* dump = train->add_flag("--dump-config", flags.dump_config,
                               "print the resolved configuration and exit");
  train->add_flag("--dry-run", flags.dry_run, "plan the step, print it, and train nothing");
  train->add_flag("--json", flags.json, json_help)->excludes(dump);

  CLI::App* plan = app.add_subcommand("plan", "plan a training step's memory; trains nothing");
  config_flags(*plan, flags);
  plan->add_option("--budget", flags.budget, "bytes the step may take, e.g. 11GiB")
      ->type_name("SIZE");
  plan->add_option("--bucket", flags.bucket, "source and target length (the largest bucket)")
      ->type_name("S,T");
  plan->add_option("--html", flags.html, "also write a page of pictures and tables")
      ->type_name("FILE");
  plan->add_option("--lifetimes", flags.lifetimes,
                   "also write what the step places, as a file for pal place")
      ->type_name("FILE");
  plan->add_option("--profile", flags.profile,
                   "device that the time is predicted for, and whose memory it should fit: a name "
                   "in configs/devices, cpu, or a file")
      ->type_name("NAME");
  plan->add_flag("--max-batch", flags.max_batch,
                 "find the largest train.batch_size that fits the budget, else the profile's "
                 "device");
  plan->add_option("--max-depth", flags.max_depth,
                   "find the largest value of a model's option that fits: model.encoder_layers")
      ->type_name("KEY");
  plan->add_flag("--json", flags.json, json_help);

  CLI::App* bench =
      app.add_subcommand("bench", "measure this machine's processor for --profile cpu");
  bench->add_flag("--profile", flags.measure, "write its profile (./pal bench alone: benchmarks)");
  bench->add_option("--out", flags.out, "the profile (~/.config/palimpsest/cpu.yaml)")
      ->type_name("FILE");
  bench->add_flag("--json", flags.json, json_help);

  CLI::App* reproduce =
      app.add_subcommand("reproduce", "a paper's table or figure, ours beside theirs");
  auto* name = reproduce->add_option("NAME", flags.name, "echo-fig15, ...")->type_name("NAME");
  reproduce->add_flag("--list", flags.list, "the names there are")->excludes(name);
  reproduce->add_option("--profile", flags.profile, "device that times are predicted for")
      ->type_name("NAME");
  reproduce->add_flag("--json", flags.json, json_help);

  CLI::App* place = app.add_subcommand("place", "place lifetimes from a file in least memory");
  place->add_option("FILE", flags.input, "id,lower,upper,size; lifetimes half-open")
      ->type_name("CSV")
      ->required();
  place->add_option("--capacity", flags.capacity, "stop at a placement within N bytes")
      ->type_name("N");
  place->add_option("--time-limit", flags.time_limit, "seconds to search for (10)")->type_name("S");
  place->add_option("--out", flags.out, "write FILE with an offset column")->type_name("FILE");
  place->add_flag("--json", flags.json, json_help);

  CLI::App* translate = app.add_subcommand("translate", "translate text, one sentence a line");
  model_flag(*translate, flags);
  translate->add_option("--input", flags.input, "file to translate (standard input)")
      ->type_name("FILE");
  beam_flags(*translate, flags.beam);
  translate
      ->add_option("--n-best", flags.n_best,
                   "print the N best of a line: ID ||| translation ||| score")
      ->type_name("N");
  translate->add_flag("--json", flags.json, json_help);

  CLI::App* eval = app.add_subcommand("eval", "loss, and BLEU or accuracy, of a trained model");
  model_flag(*eval, flags);
  auto* part = eval->add_option("--part", flags.part, "part of the run's own data: valid or test")
                   ->type_name("PART");
  auto* source = eval->add_option("--source", flags.source, "another text, one sentence a line")
                     ->type_name("FILE")
                     ->excludes(part);
  auto* reference =
      eval->add_option("--reference", flags.reference, "its translation")->type_name("FILE");
  source->needs(reference);
  reference->needs(source);
  beam_flags(*eval, flags.beam);
  eval->add_flag("--json", flags.json, json_help);

  CLI::App* classify = app.add_subcommand("classify", "the likeliest classes of images");
  model_flag(*classify, flags);
  classify->add_option("FILE", flags.images, "JPEG and PNG files; of films folders of frames")
      ->type_name("FILE...")
      ->required();
  classify->add_option("--top", flags.top, "classes to print of each image (5)")->type_name("N");
  classify->add_flag("--json", flags.json, json_help);

  CLI::App* transcribe = app.add_subcommand("transcribe", "what is said in sound files");
  transcribe->add_option("--model", flags.model, "folder of a speech recogniser's run")
      ->type_name("DIR")
      ->required();
  transcribe->add_option("FILE", flags.sounds, "WAV, FLAC, or MFCCs where the model reads these")
      ->type_name("FILE")
      ->required();
  transcribe->add_option("--beam", flags.prefixes, "beginnings side by side; 1: the best path (1)")
      ->type_name("K");
  transcribe->add_flag("--json", flags.json, json_help);

  CLI::App* average = app.add_subcommand("average", "the mean of a run's last checkpoints");
  average->add_option("DIR", flags.input, "folder of a run with step-N.safetensors files")
      ->type_name("DIR")
      ->required();
  average->add_option("--last", flags.last, "how many checkpoints, the newest (5)")->type_name("N");
  average->add_option("--out", flags.out, "the weights (DIR/average.safetensors)")
      ->type_name("FILE");
  average->add_flag("--json", flags.json, json_help);

  CLI::App* score = app.add_subcommand("score", "log probability of given translations");
  model_flag(*score, flags);
  score->add_option("--source", flags.source, "text, one sentence a line")
      ->type_name("FILE")
      ->required();
  score->add_option("--target", flags.target, "its translation, line by line")
      ->type_name("FILE")
      ->required();
  score->add_flag("--json", flags.json, json_help);

  app.add_subcommand("config-reference", "print docs/configuration.md");
  app.add_subcommand("help", "print this");
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

// CLI11 would answer an unknown command or flag without saying what was near.
void check_words(CLI::App& app, const std::vector<std::string>& args) {
  if (args.empty() || args[0].empty() || args[0][0] == '-') return;
  std::vector<std::string> names = command_names(app);
  if (std::find(names.begin(), names.end(), args[0]) == names.end()) {
    std::string list;
    for (const auto& name : names) list += (list.empty() ? "" : ", ") + name;
    throw UsageError("'" + one_line(args[0]) + "' is not a command of this version" +
                     did_you_mean(nearest(args[0], names)) + " (there are: " + list + ")");
  }
  CLI::App* command = app.get_subcommand(args[0]);
  std::vector<std::string> flags{"--help"};
  for (const CLI::Option* option : command->get_options()) flags.push_back(option->get_name());
  for (size_t i = 1; i < args.size(); ++i) {
    std::string flag = args[i].substr(0, args[i].find('='));
    if (flag.rfind("--", 0) != 0 || std::count(flags.begin(), flags.end(), flag)) continue;
    throw UsageError(args[0] + ": there is no " + one_line(flag) +
                     did_you_mean(nearest(flag, flags)) + " (pal " + args[0] +
                     " --help lists the flags)");
  }
}

// The configuration with every flag that stands for an option. `fallback` is used without --config.
Config read_config(const Flags& flags, const std::string& command, const fs::path& fallback,
                   std::string& name) {
  std::vector<Override> overrides;
  for (const auto& assignment : flags.set) overrides.push_back(parse_set(assignment));
  // "--steps N ends when the counter reaches N", also when max_epochs would end the run earlier.
  if (!flags.steps.empty()) {
    overrides.push_back({"train.max_epochs", "null", "--steps"});
    overrides.push_back({"train.steps", flags.steps, "--steps"});
  }
  if (!flags.device.empty()) overrides.push_back({"device.type", flags.device, "--device"});
  if (!flags.budget.empty()) overrides.push_back({"memory.budget", flags.budget, "--budget"});
  fs::path file;
  if (!flags.config.empty())
    file = find_config(flags.config);
  else if (!fallback.empty())
    file = fallback;
  else
    throw UsageError(command + ": --config is missing; give a path, or a name in configs/");
  name = file.stem().string();
  return load_config(file, overrides);
}

std::pair<int64_t, int64_t> parse_bucket(const std::string& text) {
  std::pair<int64_t, int64_t> lengths{0, 0};
  const char* end = text.data() + text.size();
  auto first = std::from_chars(text.data(), end, lengths.first);
  bool ok = first.ec == std::errc() && first.ptr != end && *first.ptr == ',';
  if (ok) {
    auto second = std::from_chars(first.ptr + 1, end, lengths.second);
    ok = second.ec == std::errc() && second.ptr == end;
  }
  if (!ok || lengths.first < 1 || lengths.second < 1)
    throw UsageError("--bucket: '" + one_line(text) + "' is not two lengths; write it as 30,40");
  return lengths;
}

PlaceArgs place_args(const Flags& flags) {
  PlaceArgs args;
  args.file = flags.input;
  args.out = flags.out;
  args.json = flags.json;
  auto number = [](const std::string& text, auto& value) {
    const char* end = text.data() + text.size();
    const auto read = std::from_chars(text.data(), end, value);
    return read.ec == std::errc() && read.ptr == end;
  };
  int64_t bytes = 0;
  if (!flags.capacity.empty()) {
    if (!number(flags.capacity, bytes) || bytes < 0)
      throw UsageError("--capacity: '" + one_line(flags.capacity) + "' is not a number of bytes");
    args.capacity = bytes;
  }
  // A year is as good as any limit, and fits a clock.
  if (!flags.time_limit.empty() && (!number(flags.time_limit, args.time_limit) ||
                                    !(args.time_limit >= 0 && args.time_limit <= 31'536'000)))
    throw UsageError("--time-limit: '" + one_line(flags.time_limit) +
                     "' is not a number of seconds, 0 to 31536000");
  return args;
}

Command command_of(const std::string& name, const Flags& flags) {
  if (name == "config-reference") return PrintText{config_reference()};
  if (name == "train") {
    TrainArgs args;
    args.resume = flags.resume;
    args.dry_run = flags.dry_run;
    args.json = flags.json;
    // A run holds its own configuration: --resume --out DIR alone goes on with it.
    fs::path own = flags.resume && !flags.out.empty() ? fs::path(flags.out) / "config.yaml" : "";
    args.config = read_config(flags, "train", own, args.name);
    if (flags.dump_config) return PrintText{dump_config(args.config)};
    args.out = flags.out.empty() ? fs::path("runs") / args.name : fs::path(flags.out);
    return args;
  }
  if (name == "plan") {
    PlanArgs args;
    args.json = flags.json;
    if (!flags.bucket.empty()) args.bucket = parse_bucket(flags.bucket);
    args.html = flags.html;
    args.lifetimes = flags.lifetimes;
    args.profile = flags.profile;
    args.max_batch = flags.max_batch;
    args.max_depth = flags.max_depth;
    args.config = read_config(flags, "plan", "", args.name);
    return args;
  }
  if (name == "reproduce") {
    if (flags.name.empty() && !flags.list)
      throw UsageError("reproduce: which one? pal reproduce --list names them all");
    return ReproduceArgs{flags.name, flags.profile, flags.list, flags.json};
  }
  if (name == "bench") {
    if (!flags.measure)
      throw UsageError(
          "bench: the benchmarks are run by ./pal bench in the source tree; here "
          "there is bench --profile");
    return BenchArgs{flags.out, flags.json};
  }
  if (name == "place") return place_args(flags);
  if (name == "average") {
    if (flags.last < 1)
      throw UsageError("--last: " + std::to_string(flags.last) +
                       " is out of range; give 1 or more");
    const fs::path folder = flags.input;
    return AverageArgs{folder, flags.last,
                       flags.out.empty() ? folder / "average.safetensors" : fs::path(flags.out),
                       flags.json};
  }
  auto optional_path = [](const std::string& text) {
    return text.empty() ? std::nullopt : std::optional<fs::path>(text);
  };
  BeamOptions beam = flags.beam;
  beam.n_best = flags.n_best.value_or(1);
  check_beam(beam);
  if (name == "translate") {
    return TranslateArgs{flags.model, optional_path(flags.input), flags.json, beam,
                         flags.n_best.has_value()};
  }
  if (name == "transcribe") {
    if (flags.prefixes < 1 || flags.prefixes > 10'000)
      throw UsageError("--beam: " + std::to_string(flags.prefixes) +
                       " is out of range; give 1 to 10000");
    return TranscribeArgs{
        flags.model, {flags.sounds.begin(), flags.sounds.end()}, flags.prefixes, flags.json};
  }
  if (name == "classify") {
    if (flags.top < 1)
      throw UsageError("--top: " + std::to_string(flags.top) + " is out of range; give 1 or more");
    return ClassifyArgs{
        flags.model, {flags.images.begin(), flags.images.end()}, flags.top, flags.json};
  }
  if (name == "score") return ScoreArgs{flags.model, flags.source, flags.target, flags.json};
  if (flags.part != "valid" && flags.part != "test")
    throw UsageError("--part: '" + one_line(flags.part) + "' is not one of valid, test");
  return EvalArgs{
      flags.model, flags.part, optional_path(flags.source), optional_path(flags.reference),
      flags.json,  beam};
}

}  // namespace

Command parse_command_line(const std::string& program, const std::vector<std::string>& given) {
  std::vector<std::string> args = given;
  if (fs::path(program).filename() == "train") args.insert(args.begin(), "train");
  Flags flags;
  CLI::App app("Palimpsest trains deep networks in planned memory.", "pal");
  app.require_subcommand(0, 1);
  app.set_version_flag("--version", std::string("pal ") + kVersion);
  add_commands(app, flags);
  if (args.empty() || args[0] == "help") return PrintText{app.help()};
  check_words(app, args);
  try {
    app.parse(std::vector<std::string>(args.rbegin(), args.rend()));
  } catch (const CLI::CallForHelp&) {
    auto used = app.get_subcommands();
    return PrintText{used.empty() ? app.help() : used[0]->help("pal")};
  } catch (const CLI::CallForVersion& e) {
    return PrintText{std::string(e.what()) + "\n"};
  } catch (const CLI::ParseError& e) {
    std::string command = args[0][0] == '-' ? "" : args[0];
    throw UsageError((command.empty() ? "" : command + ": ") + one_line(e.what()) + " (see pal " +
                     (command.empty() ? "" : command + " ") + "--help)");
  }
  auto used = app.get_subcommands();
  if (used.empty()) return PrintText{app.help()};
  return command_of(used[0]->get_name(), flags);
}

}  // namespace pal
