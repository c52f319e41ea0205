// Any bytes as the files that a run keeps and reads again: refused in one line, passed over line by
// line, or what can be written and read again.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/fuzz/fuzz.h"
#include "train/commands/budget_file.h"
#include "train/loop/trainer_state.h"
#include "train/report/report_html.h"
#include "train/run_files/algorithm_file.h"
#include "train/run_files/metrics.h"
#include "train/run_files/node_times_file.h"
#include "train/run_files/position.h"

namespace pal {
namespace {

// What a run that goes on keeps, what `pal plan --density` takes, and what the report shows.
bool metrics_body(std::string_view bytes) {
  constexpr int64_t kStep = 4;
  const std::string text(bytes);
  std::istringstream rows(text);
  for (const auto& [program, maps] : largest_densities(rows)) {
    for (const auto& [value, map] : maps) {
      require(value >= 0 && map.density >= 0 && map.density <= 1, "the density of a map");
    }
  }
  const std::string page = report_html({.name = "x", .state = "steps"}, text);
  require(page.find("nan,") == std::string::npos, "points of a chart are numbers");
  require(page.size() < 100'000 + 500 * text.size(), "a page, and not more");
  return accepts("metrics.jsonl", [&] {
    const auto kept_of = [&](const std::string& all) {
      std::istringstream in(all);
      std::string kept;
      rows_until(in, kStep, "metrics.jsonl", [&](const std::string& line) { kept += line; });
      return kept;
    };
    const std::string kept = kept_of(text);
    require(kept_of(kept) == kept, "what is kept stays");
  });
}

bool times_body(std::string_view bytes) {
  NodeTimes times;
  try {
    times = parse_node_times(std::string(bytes));
  } catch (const std::exception&) {  // whose words load_node_times() puts into one line
    return false;
  }
  const std::string text = text_of(times, "cpu");
  const NodeTimes again = parse_node_times(text, "cpu");
  require(again.ms == times.ms && again.by_op == times.by_op, "it reads what it writes");
  return true;
}

// A file of the run and one of the machine: the first byte says how many bytes are the former's.
bool algorithms_body(std::string_view bytes) {
  if (bytes.empty()) return false;
  const size_t own = std::min<size_t>(static_cast<unsigned char>(bytes[0]), bytes.size() - 1);
  const MemoryFile run(bytes.substr(1, own)), machine(bytes.substr(1 + own));
  AlgorithmFile file(run.path(), machine.path());
  const auto first = file.find("a product"), second = file.find("");
  for (const auto& choice : {first, second}) {
    require(!choice || choice->find_first_of(" \n") == std::string::npos, "a choice is one word");
  }
  const std::string kept = file.keep("a product", "7", true);
  require(kept == first.value_or("7"), "what was chosen first holds");
  const std::string added = file.keep("new", "8", false);
  require(AlgorithmFile(run.path(), machine.path()).find("new") == added,
          "it reads what it writes");
  return first.has_value();
}

bool position_body(std::string_view bytes) {
  return accepts("last.safetensors", [&] {
    const TrainerState state = TrainerState::from_json(std::string(bytes), "last.safetensors");
    const TrainerState again = TrainerState::from_json(state.to_json(), "again");
    require(again.to_json() == state.to_json(), "it reads what it writes");
    require(state.step >= 0 && state.epoch >= 0, "steps and epochs that were done");
    try {
      const std::vector<std::string> names{"epoch", "batch"};
      const auto numbers = read_position(state.position, names, 0xc0ffee, "[nmt]", "the data");
      require(numbers.size() == 2 && numbers[0] >= 0 && numbers[1] >= 0, "numbers from 0 on");
    } catch (const UsageError& error) {
      require_one_line(error.what());
    }
  });
}

// A budget that is there before says nothing; then a link to the bytes appears.
bool budget_body(std::string_view bytes) {
  static const std::string file = new_folder("budget") + "/budget";
  BudgetFile budget(file);
  const MemoryFile memory(bytes);
  std::filesystem::create_symlink(memory.path(), file);
  const std::optional<int64_t> changed = budget.changed();
  require(!budget.changed(), "it says so once");
  std::filesystem::remove(file);
  require(!changed || *changed >= 0, "a number of bytes");
  return changed.has_value();
}

std::string algorithm_line(const std::string& key, const std::string& choice) {
  const MemoryFile memory("");
  AlgorithmFile(memory.path(), {}).keep(key, choice, true);
  std::ostringstream line;
  line << std::ifstream(memory.path()).rdbuf();
  return line.str();
}

}  // namespace

FuzzTarget fuzz_metrics() {
  return {{R"({"event":"plan","step":0,"program":"train/1x1/only","bucket":[1,2],"nodes":5})"
           "\n"
           R"({"event":"step","step":3,"epoch":0.25,"loss":0.1,"lr":1e-3,"tokens_per_s":1e3})"
           "\n"
           R"({"event":"valid","step":4,"epoch":0.25,"loss":3.5,"bleu":12.25})"
           "\n"
           R"({"event":"end","step":4,"reason":"steps","seconds":1.5})"
           "\n",
           R"({"event":"density","step":1,"program":"train/1x1/only","maps":[{"value":7,)"
           R"("layer":"a relu","elements":64,"density":0.25}]})"
           "\n"
           R"({"event":"overflow","step":2,"program":"x","layers":["a"]})"
           "\n",
           R"({"event":"step","step":1,"loss":null})"
           "\n"
           R"({"event":"step","step":2,"loss":2}{)",
           "[1]\n"},
          json_scraps({"\"event\"", "\"step\"", "\"valid\"", "\"density\"", "\"loss\"", "\"maps\"",
                       "\"value\"", "\"wer\":", "1e308", "-1e308", "\n", "<b>"}),
          metrics_body};
}

FuzzTarget fuzz_times() {
  return {{R"({"by_op":{"add":1.5},"count":2,"device":"cpu, 2 threads","ms":{"00000000000000ff":)"
           R"(0.25,"0000000000000001":3},"scale":2.0})",
           R"({"by_op":{},"count":1,"device":"","ms":{"1":0},"scale":1e-3})", "{}", "[]"},
          json_scraps({"\"by_op\"", "\"count\"", "\"ms\"", "\"scale\"", "\"ffffffffffffffff\"",
                       "\"00000000000000FF\""}),
          times_body};
}

FuzzTarget fuzz_algorithms() {
  const std::string one = algorithm_line("a product", "3"), two = algorithm_line("", "x");
  const auto both = [](const std::string& run, const std::string& machine) {
    return static_cast<char>(run.size()) + run + machine;
  };
  return {{both(one, ""), both("", one + two), both(two, one), both(one.substr(0, 20), one + "\n"),
           both("", "0 a b\n")},
          {" ", "\n", "\r\n", one, two, "0", std::string(1, '\0'), "\xFF"},
          algorithms_body};
}

FuzzTarget fuzz_position() {
  const std::string least = TrainerState{.step = 3, .epoch = 1.5}.to_json();
  TrainerState most{.step = 7, .position = position_text({{"epoch", 3}, {"batch", 17}}, 0xc0ffee)};
  most.best = -2.5, most.has_best = true, most.plateau = {.stale = 2, .waited = 1, .decays = 1};
  most.rounded = {{"train/1x1/only", "3 5"}}, most.valid_due = true;
  return {{least, most.to_json(), "{}"},
          json_scraps({"\"step\"", "\"position\"", "\"rounded\"", "\"valid_due\"",
                       "\"epoch 3 batch 17 data \"", "\\n", "epoch ", "batch ", "data "}),
          position_body};
}

FuzzTarget fuzz_budget() {
  return {{"30MB\n", "1.5 GiB", " 4096 \n", "much", " "},
          {"MB", "GiB", "TB", "EiB", " ", "\n", "-", "+", ".", "e9", "0x", "99999999999999999999",
           "nan", "inf", "none", std::string(1, '\0'), "\xFF"},
          budget_body};
}

}  // namespace pal
