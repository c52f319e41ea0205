// The part of YAML a configuration needs, read strictly: one document of maps, lists and scalars,
// every node with its line. yaml-cpp stays behind this header.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pal {

struct YamlNode {
  enum class Kind : unsigned char { null, scalar, list, map };
  Kind kind = Kind::null;
  std::string text{};             // of a scalar
  bool quoted = false;            // a quoted scalar is a string whatever it looks like
  int line = 0;                   // counted from 1
  std::vector<YamlNode> items{};  // of a list; of a map: the values, in the order of `keys`
  std::vector<YamlNode> keys{};   // of a map: scalars
};

// What a scalar is by the YAML 1.2 core schema.
enum class ScalarType : unsigned char { null, boolean, integer, number, string };
ScalarType scalar_type(const YamlNode& scalar);
// "the integer 3", "the string \"abc\"", "a list", "a map", "null": for error messages.
std::string describe(const YamlNode& node);

// Reads one document. Malformed YAML, text that is not UTF-8, control characters, tabs as
// indentation, duplicate keys, anchors, aliases, tags, and a second document throw UsageError
// "NAME:LINE: what; what to do".
YamlNode parse_yaml(const std::string& text, const std::string& name);

// `text` as a YAML string scalar, quoted only where it would read back as something else.
std::string yaml_quoted(std::string_view text);

}  // namespace pal
