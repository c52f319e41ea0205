// From a sentence to words, and back. Two ways: white space alone, for text that is tokenised
// already; or simple, which also splits off punctuation. Both are deterministic, keep case, and
// leave letters with diacritics whole (text is assumed in Unicode form NFC).
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pal {

enum class Tokenizer {
  whitespace,  // words as they stand
  simple       // punctuation apart: Tom's cat, 1,000.5 kg! -> Tom 's cat , 1,000.5 kg !
};

// The tokenizer of that name ("whitespace" or "simple"). UsageError names the choices.
Tokenizer tokenizer_named(std::string_view name);

// The words of a line of valid UTF-8. `simple` keeps together: hyphens, slashes and the like
// inside words, points inside numbers and abbreviations, a sign before a number, runs of one
// mark ("..."). English clitics ('s 't 're 've 'll 'd 'm) become words of their own.
std::vector<std::string> tokenize(std::string_view line, Tokenizer tokenizer);

// The reverse: a line of text. `simple` joins closing marks to the left, opening marks to the
// right and pairs straight quotes; detokenize(tokenize(x)) is x for conventionally spaced text.
std::string detokenize(std::span<const std::string> words, Tokenizer tokenizer);

}  // namespace pal
