// Links as files: those in configs/links, and others of the same form.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "memory/price/links.h"

namespace pal {

// A path of a .yaml file, a name in configs/links (of the working directory, else the program's
// own), or "measured": what pal bench --link has written here. UsageError lists the names there
// are, or names the line at fault; `option` is who gave the name.
Link load_link(const std::string& name_or_path, const std::string& option = "--link");
// The link in the file's text; `file` only names it in errors.
Link parse_link(const std::string& text, const std::string& file);
std::vector<std::string> link_names();
// Where pal bench --link writes; UsageError where the environment names no place.
std::filesystem::path measured_link_path();
// A link's file, with lines of comment at its head.
std::string link_text(const Link& link, const std::vector<std::string>& comments);

// What --devices, --per-node and --link say: `names` is one name, or two with a comma between, of
// what joins the devices of a node and what joins nodes. One name: there is one node. UsageError
// where they do not fit together.
Links links_of(int64_t devices, std::optional<int64_t> per_node, const std::string& names);
// "NVLink 4, between nodes NDR 400"; "none" of one device without a link.
std::string to_string(const Links& links);

}  // namespace pal
