// What the pages that we write share: the head with its style, and small pieces of HTML. The pages
// are self-contained: no script, nothing from a network.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace pal {

// The whole page around `body`, which is HTML; `title` is text.
std::string html_page(const std::string& title, const std::string& body);
// The heading: a name, and beside it a word on its state (empty: none).
std::string page_header(const std::string& name, const std::string& state);

// A card with one figure and what it is.
std::string tile(const std::string& value, const std::string& label);
// Lines of text as they are, in a fixed pitch.
std::string preformatted(const std::vector<std::string>& lines);

// A bar of parts, and below it a table: name, bytes, share of `total`.
std::string bytes_card(const std::vector<std::pair<std::string, int64_t>>& parts, int64_t total);
// The colour of that part in its bar: the same on every page for the roles of values.
std::string part_colour(const std::string& name, size_t i);

// The i-th of ten colours that are told apart on light and on dark.
std::string colour(size_t i);
// A coordinate of a picture, to a tenth of a pixel.
std::string svg_number(double v);

// An attribute of an element: text as it is, which has no quotes in it, or a coordinate.
struct Attribute {
  Attribute(const char* attribute, std::string text) : name(attribute), value(std::move(text)) {}
  Attribute(const char* attribute, double v) : name(attribute), value(svg_number(v)) {}
  const char* name;
  std::string value;
};
// <name attribute="value">body</name>; without a body <name attribute="value"/>. `body` is HTML.
std::string element(const char* name, const std::vector<Attribute>& attributes,
                    const std::string& body = "");
// weight_gradient -> "weight gradient"
std::string words(std::string name);

}  // namespace pal
