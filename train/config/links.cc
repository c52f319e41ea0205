// Reading links, and putting them together.
#include "train/config/links.h"

#include "core/error.h"
#include "train/config/figures.h"
#include "train/config/wording.h"
#include "train/config/yaml.h"

namespace pal {
namespace {

constexpr const char* kLinkFolder = "links";
constexpr const char* kLinkWords = "a link";
constexpr const char* kMeasured = "measured";

}  // namespace

Link parse_link(const std::string& text, const std::string& file) {
  Link link;
  read_figures(text, file, kLinkWords,
               {text_key("name", true, link.name), number_key("gb_s", true, link.rate, 1e9),
                number_key("latency_us", true, link.latency, 1e-6),
                number_key("efficiency", true, link.efficiency, 1, 1)});
  return link;
}

std::filesystem::path measured_link_path() {
  std::filesystem::path path = measured_path("link.yaml");
  if (!path.empty()) return path;
  throw UsageError(
      "the measured link has no place: neither XDG_CONFIG_HOME nor HOME is set; name a file (bench "
      "--link --out FILE, plan --link FILE)");
}

std::string link_text(const Link& link, const std::vector<std::string>& comments) {
  std::string text;
  for (const std::string& line : comments) text += "# " + line + "\n";
  return text + "name: " + yaml_quoted(link.name) + printed("\ngb_s: %.4g\n", link.rate * 1e-9) +
         printed("latency_us: %.4g\nefficiency: %.4g\n", link.latency * 1e6, link.efficiency);
}

Link load_link(const std::string& name, const std::string& option) {
  if (name == kMeasured) {
    const std::filesystem::path path = measured_link_path();
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(path, ignored)) {
      throw UsageError(option + ": measured: the ranks of this machine are not measured yet (" +
                       path.string() + "); run ./pal bench --link, which takes a few seconds");
    }
    return parse_link(open_figures(path, kLinkWords).text, path.string());
  }
  const FiguresFile file = find_figures(kLinkFolder, name, kLinkWords);
  if (file.path.empty()) no_figures(option, name, "link", link_names());
  return parse_link(file.text, file.path.string());
}

std::vector<std::string> link_names() {
  std::vector<std::string> names = figure_names(kLinkFolder);
  names.emplace_back(kMeasured);
  return names;
}

Links links_of(int64_t devices, std::optional<int64_t> per_node, const std::string& names) {
  const std::string n = std::to_string(devices);
  if (names.empty() && devices > 1) {
    throw UsageError("--devices: what joins the " + n +
                     " devices is not said; add --link NAME "
                     "(there are: " +
                     comma_list(link_names()) + ")");
  }
  const size_t comma = names.find(',');
  const bool two = comma != std::string::npos;
  Links links{.ranks = devices, .per_node = per_node.value_or(devices)};
  if (!names.empty()) links.inside = load_link(names.substr(0, comma));
  if (two) links.between = load_link(names.substr(comma + 1));
  if (two && !per_node) {
    throw UsageError(
        "--link: two links, one inside a node and one between nodes; say how many "
        "devices a node has (--per-node 8)");
  }
  if (devices % links.per_node != 0) {
    throw UsageError("--per-node: " + n + " devices are not so many nodes of " +
                     std::to_string(links.per_node) + "; choose a divisor of " + n);
  }
  if (links.nodes() > 1 && !two) {
    throw UsageError("--link: " + std::to_string(links.nodes()) + " nodes of " +
                     std::to_string(links.per_node) +
                     " devices need a second link, between nodes: --link " +
                     (names.empty() ? "nvlink4" : one_line(names)) + ",ndr400");
  }
  return links;
}

std::string to_string(const Links& links) {
  if (links.inside.name.empty()) return "none";
  return links.inside.name +
         (links.between.name.empty() ? "" : ", between nodes " + links.between.name);
}

}  // namespace pal
