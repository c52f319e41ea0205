// Any bytes as a configuration: refused in one line, or read, written and read back equal.
#include "core/error.h"
#include "tests/fuzz/fuzz.h"
#include "train/config/config.h"

namespace pal {
namespace {

bool body(std::string_view bytes) {
  try {
    const Config config = parse_config(std::string(bytes), "c.yaml");
    const Config again = parse_config(dump_config(config), "again.yaml");
    require(diff(config, again).empty(), "the dump reads back equal");
    require(config_hash(config) == config_hash(again), "equal configurations, equal hashes");
    return true;
  } catch (const UsageError& error) {
    require_one_line(error.what());
    return false;
  }
}

}  // namespace

FuzzTarget fuzz_config() {
  const std::string least = "model: {type: nmt}\ntrain: {steps: 1}\n";
  return {{dump_config(parse_config(least, "c.yaml")),  // every option of a kind
           "model: {type: nmt, hidden: 64}\ndata: {root: \"a b\", source_lang: \"no\"}\n"
           "train: {max_epochs: 2, lr: 1e-3, batch_words: 400}\nmemory: {budget: 1.5 GB}\n",
           "model:\n  type: nmt  # the kind\ntrain:\n  steps: 5\n  clip_value: null\n"
           "memory:\n  encode: []\n  inplace: false\ndevice:\n  threads: 2\n",
           "model:\n  type: 'nmt'\ntrain:\n  max_epochs: 1\ndata:\n  tokenizer: sentencepiece\n"
           "  sentencepiece_file: |\n    x.model\n"},
          {"[",           "]",       "{",
           "}",           ": ",      "- ",
           "&a ",         "*a",      "!!int ",
           "\"",          "'",       "|\n",
           ">-\n",        "#",       "\t",
           "\n",          "\r\n",    "? ",
           "%YAML 1.2\n", "---\n",   "...\n",
           "null",        "~",       "1e999",
           "-",           "0x1F",    "9223372036854775808",
           ".inf",        "\xff",    "\xef\xbb\xbf",
           "<<: ",        "\\u0000", "1GiB",
           "train:",      "data:",   "lr: ",
           "budget: "},
          body};
}

}  // namespace pal
