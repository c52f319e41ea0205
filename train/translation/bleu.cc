// BLEU = BP · exp(1/4 Σ_n log p_n),  BP = min(1, exp(1 − r/c)); an order without a match gets
// p_n = 100 / (2^k · total_n), k counting such orders (smoothing method 3 of Chen and Cherry 2014).
#include "train/translation/bleu.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <vector>

#include "core/error.h"
#include "data/utf8.h"
#include "train/config/wording.h"

namespace pal {
namespace {

constexpr size_t kOrders = 4;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_point(char c) { return c == '.' || c == ','; }

// [\{-\~\[-\` -\&\(-\+\:-\@\/]: ASCII punctuation and space, but neither ' nor , - .
bool is_split(char c) {
  return (c >= '{' && c <= '~') || (c >= '[' && c <= '`') || (c >= ' ' && c <= '&') ||
         (c >= '(' && c <= '+') || (c >= ':' && c <= '@') || c == '/';
}

std::string replace_all(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

// Rewrites every pair of neighbours that matches, from the left, each character used once: what
// re.sub does with a pattern of two characters. Bytes serve as well as code points here, since
// only ASCII is tested for.
template <typename Match, typename Rewrite>
std::string substitute_pairs(const std::string& text, Match match, Rewrite rewrite) {
  std::string out;
  out.reserve(text.size() * 2);
  size_t i = 0;
  while (i < text.size()) {
    if (i + 1 < text.size() && match(text[i], text[i + 1])) {
      rewrite(out, text[i], text[i + 1]);
      i += 2;
    } else {
      out += text[i++];
    }
  }
  return out;
}

std::string_view strip_right(std::string_view line) {
  size_t end = 0;
  for (size_t pos = 0; pos < line.size();) {
    if (!is_space(decode_utf8(line, pos))) end = pos;
  }
  return line.substr(0, end);
}

std::string join(const std::vector<std::string_view>& words) {
  std::string line;
  for (const std::string_view word : words) {
    if (!line.empty()) line += ' ';
    line += word;
  }
  return line;
}

using Gram = std::array<int32_t, kOrders>;  // word numbers from 1; 0 beyond its order

// The n-grams of a sentence for n = 1..4, sorted.
std::vector<Gram> grams_of(const std::vector<int32_t>& words) {
  std::vector<Gram> grams;
  for (size_t i = 0; i < words.size(); ++i) {
    Gram gram{};
    for (size_t n = 0; n < kOrders && i + n < words.size(); ++n) {
      gram[n] = words[i + n];
      grams.push_back(gram);
    }
  }
  std::sort(grams.begin(), grams.end());
  return grams;
}

size_t order_of(const Gram& gram) {
  size_t n = 1;
  while (n < kOrders && gram[n] != 0) ++n;
  return n;
}

// Adds one sentence pair to the counts.
void count_sentence(const std::vector<int32_t>& hypothesis, const std::vector<int32_t>& reference,
                    BleuScore& score) {
  const std::vector<Gram> ours = grams_of(hypothesis), theirs = grams_of(reference);
  for (auto at = ours.begin(); at != ours.end();) {
    const auto next = std::upper_bound(at, ours.end(), *at);
    const auto found = std::equal_range(theirs.begin(), theirs.end(), *at);
    const size_t n = order_of(*at) - 1;
    score.total[n] += next - at;
    score.correct[n] += std::min(next - at, found.second - found.first);
    at = next;
  }
  score.hypothesis_length += static_cast<int64_t>(hypothesis.size());
  score.reference_length += static_cast<int64_t>(reference.size());
}

void finish(BleuScore& score) {
  const auto c = static_cast<double>(score.hypothesis_length);
  const auto r = static_cast<double>(score.reference_length);
  score.brevity_penalty = c >= r ? 1.0 : c > 0 ? std::exp(1 - r / c) : 0.0;
  if (std::all_of(score.correct.begin(), score.correct.end(), [](int64_t n) { return n == 0; })) {
    return;  // score and precisions stay 0
  }
  double smoothing = 1, logs = 0;
  for (size_t n = 0; n < kOrders; ++n) {
    const auto total = static_cast<double>(score.total[n]);
    if (score.total[n] == 0) return;  // no n-gram so long: the geometric mean is 0
    if (score.correct[n] == 0) {
      smoothing *= 2;
      score.precisions[n] = 100 / (smoothing * total);
    } else {
      score.precisions[n] = 100 * static_cast<double>(score.correct[n]) / total;
    }
    logs += std::log(score.precisions[n]);
  }
  score.score = score.brevity_penalty * std::exp(logs / kOrders);
}

}  // namespace

std::string tokenize_13a(std::string_view line) {
  std::string text = replace_all(std::string(strip_right(line)), "<skipped>", "");
  text = replace_all(replace_all(text, "-\n", ""), "\n", " ");
  text = replace_all(replace_all(text, "&quot;", "\""), "&amp;", "&");
  text = " " + replace_all(replace_all(text, "&lt;", "<"), "&gt;", ">") + " ";
  std::string split;
  split.reserve(text.size() * 2);
  for (const char c : text) {
    if (is_split(c)) {
      split += {' ', c, ' '};
    } else {
      split += c;
    }
  }
  // A point or comma not after a digit, then one not before a digit, then a dash after a digit.
  split = substitute_pairs(
      split, [](char a, char b) { return !is_digit(a) && is_point(b); },
      [](std::string& out, char a, char b) {
        out += {a, ' ', b, ' '};
      });
  split = substitute_pairs(
      split, [](char a, char b) { return is_point(a) && !is_digit(b); },
      [](std::string& out, char a, char b) {
        out += {' ', a, ' ', b};
      });
  split = substitute_pairs(
      split, [](char a, char b) { return is_digit(a) && b == '-'; },
      [](std::string& out, char a, char b) {
        out += {a, ' ', b, ' '};
      });
  return join(split_words(split));
}

BleuScore corpus_bleu(std::span<const std::string> hypotheses,
                      std::span<const std::string> references, BleuTokenizer tokenizer) {
  if (hypotheses.size() != references.size() || hypotheses.empty()) {
    throw UsageError("[bleu] " + std::to_string(hypotheses.size()) + " hypotheses against " +
                     std::to_string(references.size()) +
                     " references; give one reference for every hypothesis, and at least one");
  }
  std::unordered_map<std::string, int32_t> numbers;
  const auto number = [&](const std::string& line) {
    const std::string text = tokenizer == BleuTokenizer::none ? line : tokenize_13a(line);
    std::vector<int32_t> words;
    for (const std::string_view word : split_words(text)) {
      const auto next = static_cast<int32_t>(numbers.size() + 1);
      words.push_back(numbers.emplace(word, next).first->second);
    }
    return words;
  };
  BleuScore score;
  for (size_t i = 0; i < hypotheses.size(); ++i) {
    count_sentence(number(hypotheses[i]), number(references[i]), score);
  }
  finish(score);
  score.signature = std::string("nrefs:1|case:mixed|eff:no|tok:") +
                    (tokenizer == BleuTokenizer::none ? "none" : "13a") +
                    "|smooth:exp|version:palimpsest-1";
  return score;
}

std::string BleuScore::print() const {
  const double ratio = reference_length == 0 ? 0
                                             : static_cast<double>(hypothesis_length) /
                                                   static_cast<double>(reference_length);
  return printed(
      "BLEU = %.2f %.1f/%.1f/%.1f/%.1f (BP = %.3f ratio = %.3f hyp_len = %lld ref_len = %lld)",
      score, precisions[0], precisions[1], precisions[2], precisions[3], brevity_penalty, ratio,
      static_cast<long long>(hypothesis_length), static_cast<long long>(reference_length));
}

}  // namespace pal
