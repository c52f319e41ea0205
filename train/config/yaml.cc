// Strict YAML on top of yaml-cpp's event parser. Events rather than YAML::Node, because nodes hide
// duplicate keys and aliases (a few nested aliases expand to gigabytes).
#include "train/config/yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <cstring>
#include <sstream>

#include "core/error.h"
#include "data/utf8.h"

namespace pal {
namespace {

constexpr size_t kMaxDepth = 16;
constexpr size_t kMaxBytes = 1 << 20;

[[noreturn]] void fail(const std::string& name, int line, const std::string& what) {
  throw UsageError(name + ":" + std::to_string(line) + ": " + what);
}

class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(const std::string& text, const std::string& name) : text_(text), name_(name) {}
  YamlNode take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuse_extras(mark, "", anchor);
    add({.kind = YamlNode::Kind::null, .line = mark.line + 1});
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    fail(name_, mark.line + 1, "aliases (*name) are not supported; write the value out");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    bool quoted = tag == "!";  // what yaml-cpp reports for any scalar that is not plain
    refuse_extras(mark, quoted ? "" : tag, anchor);
    if (quoted && !closes(static_cast<size_t>(mark.pos)))
      fail(name_, mark.line + 1, "malformed YAML: a quote is opened and never closed");
    for (unsigned char c : value)
      if ((c < 32 && c != '\n' && c != '\r' && c != '\t') || c == 127)
        fail(name_, mark.line + 1, "a control character in a value; leave it out");
    // yaml-cpp 0.7 makes one byte of \_ and \N, which stand for characters of two.
    if (find_invalid_utf8(value) < value.size())
      fail(name_, mark.line + 1,
           "a value that is not UTF-8; write the characters that \\_ and \\N stand for");
    add({.kind = YamlNode::Kind::scalar, .text = value, .quoted = quoted, .line = mark.line + 1});
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, YamlNode::Kind::list);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, YamlNode::Kind::map);
  }
  void OnMapEnd() override { close(); }

 private:
  void refuse_extras(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    if (anchor != 0)
      fail(name_, mark.line + 1, "anchors (&name) are not supported; write the value out");
    if (!tag.empty() && tag != "?")
      fail(name_, mark.line + 1, "tags (!type) are not supported; write the plain value");
  }
  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
            YamlNode::Kind kind) {
    refuse_extras(mark, tag, anchor);
    if (open_.size() >= kMaxDepth) fail(name_, mark.line + 1, "nested too deeply");
    open_.push_back({.kind = kind, .line = mark.line + 1});
  }
  void close() {
    YamlNode done = std::move(open_.back());
    open_.pop_back();
    add(std::move(done));
  }
  // Puts a finished node where it belongs: the root, the open list, or the open map's key or value.
  void add(YamlNode node) {
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    YamlNode& parent = open_.back();
    bool is_key = parent.kind == YamlNode::Kind::map && parent.keys.size() == parent.items.size();
    if (!is_key) {
      parent.items.push_back(std::move(node));
      return;
    }
    if (node.kind != YamlNode::Kind::scalar)
      fail(name_, node.line, "a key must be a plain word, not " + describe(node));
    if (node.text.size() > 64 || node.text.find_first_of("\n\r\t") != std::string::npos)
      fail(name_, node.line, "a key must be a plain word, got " + describe(node));
    for (const YamlNode& earlier : parent.keys)
      if (earlier.text == node.text)
        fail(name_, node.line,
             node.text + ": given twice, first on line " + std::to_string(earlier.line) +
                 "; keep one of them");
    parent.keys.push_back(std::move(node));
  }

  // Whether the quote at text_[start] has its end: yaml-cpp 0.7 forgives one that is missing before
  // the file's last line break, and swallows every option in between.
  bool closes(size_t start) const {
    if (start >= text_.size() || (text_[start] != '"' && text_[start] != '\'')) return true;
    char quote = text_[start];
    for (size_t i = start + 1; i < text_.size(); ++i) {
      if (quote == '"' && text_[i] == '\\') {
        ++i;
      } else if (text_[i] == quote) {
        if (quote == '"' || i + 1 == text_.size() || text_[i + 1] != '\'') return true;
        ++i;
      }
    }
    return false;
  }

  const std::string& text_;
  const std::string& name_;
  YamlNode root_;
  std::vector<YamlNode> open_;
};

// Refuses what yaml-cpp would let through or report badly.
void check_text(const std::string& text, const std::string& name) {
  if (text.size() > kMaxBytes) fail(name, 1, "larger than 1 MiB: not a configuration");
  auto line_of = [&](size_t pos) {
    auto end = text.begin() + static_cast<std::ptrdiff_t>(pos);
    return 1 + static_cast<int>(std::count(text.begin(), end, '\n'));
  };
  size_t bad = find_invalid_utf8(text);
  if (bad < text.size()) fail(name, line_of(bad), "not UTF-8; save the file as UTF-8");
  bool indentation = true;
  for (size_t i = 0; i < text.size(); ++i) {
    auto c = static_cast<unsigned char>(text[i]);
    if (c == '\t' && indentation) fail(name, line_of(i), "a tab in the indentation; use spaces");
    if ((c < 32 && c != '\n' && c != '\r' && c != '\t') || c == 127)
      fail(name, line_of(i), "a control character; this is not a text file");
    indentation = c == '\n' || (indentation && c == ' ');
  }
}

bool is_integer(std::string_view s) {
  if (!s.empty() && (s[0] == '-' || s[0] == '+')) s.remove_prefix(1);
  return !s.empty() && s.find_first_not_of("0123456789") == std::string_view::npos;
}

// [-+]? (digits (. digits?)? | . digits) ([eE] [-+]? digits)?, or .inf and .nan
bool is_number(std::string_view s) {
  if (!s.empty() && (s[0] == '-' || s[0] == '+')) s.remove_prefix(1);
  if (s == ".inf" || s == ".Inf" || s == ".INF" || s == ".nan" || s == ".NaN" || s == ".NAN")
    return true;
  size_t e = s.find_first_of("eE");
  if (e != std::string_view::npos && !is_integer(s.substr(e + 1))) return false;
  s = s.substr(0, e);
  size_t dots = static_cast<size_t>(std::count(s.begin(), s.end(), '.'));
  return dots <= 1 && s.size() > dots &&
         s.find_first_not_of("0123456789.") == std::string_view::npos;
}

bool one_of(std::string_view s, std::initializer_list<std::string_view> list) {
  return std::find(list.begin(), list.end(), s) != list.end();
}

}  // namespace

ScalarType scalar_type(const YamlNode& scalar) {
  if (scalar.kind == YamlNode::Kind::null) return ScalarType::null;
  if (scalar.quoted) return ScalarType::string;
  const std::string& s = scalar.text;
  if (one_of(s, {"", "~", "null", "Null", "NULL"})) return ScalarType::null;
  if (one_of(s, {"true", "True", "TRUE", "false", "False", "FALSE"})) return ScalarType::boolean;
  if (is_integer(s)) return ScalarType::integer;
  if (is_number(s)) return ScalarType::number;
  return ScalarType::string;
}

std::string describe(const YamlNode& node) {
  if (node.kind == YamlNode::Kind::list) return "a list";
  if (node.kind == YamlNode::Kind::map) return "a map";
  std::string shown = node.text.substr(0, 60);  // may cut a character: shown in an error only
  while (!shown.empty() && (shown.back() & 0x80) && node.text.size() > 60) shown.pop_back();
  for (char& c : shown)
    if (c == '\n' || c == '\r' || c == '\t') c = ' ';
  switch (scalar_type(node)) {
    case ScalarType::null: return "null";
    case ScalarType::boolean: return shown;
    case ScalarType::integer: return "the integer " + shown;
    case ScalarType::number: return "the number " + shown;
    case ScalarType::string: break;
  }
  return "the string \"" + shown + "\"";
}

YamlNode parse_yaml(const std::string& text, const std::string& name) {
  check_text(text, name);
  TreeBuilder builder(text, name);
  try {
    std::istringstream in(text);
    YAML::Parser parser(in);
    YamlNode root;
    if (parser.HandleNextDocument(builder)) root = builder.take();
    TreeBuilder second(text, name);
    if (parser.HandleNextDocument(second))
      fail(name, second.take().line, "a second YAML document; keep one per file");
    return root;
  } catch (const YAML::Exception& e) {
    fail(name, std::max(0, e.mark.line) + 1, "malformed YAML: " + e.msg);
  }
}

std::string yaml_quoted(std::string_view text) {
  auto plain_char = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::strchr("_./+-", c) != nullptr;
  };
  YamlNode plain{.kind = YamlNode::Kind::scalar, .text = std::string(text)};
  bool safe = std::all_of(text.begin(), text.end(), plain_char) &&
              text.find('\0') == std::string_view::npos &&
              scalar_type(plain) == ScalarType::string && text[0] != '-';
  if (safe) return plain.text;
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n')
      out += "\\n";
    else if (c == '\t')
      out += "\\t";
    else if (c == '\r')
      out += "\\r";
    else
      out += c;
  }
  return out + "\"";
}

}  // namespace pal
