// The head, the style, and the small pieces of our pages.
#include "train/report/html_page.h"

#include <algorithm>
#include <cstdio>
#include <iterator>

#include "core/text.h"
#include "memory/plan/report.h"
#include "train/config/wording.h"

namespace pal {
namespace {

constexpr const char* kStyle = R"(
:root{color-scheme:light dark;--page:#f6f7f9;--card:#fff;--text:#1b2330;--soft:#5d6878;
--line:#e3e7ed;--one:#2563eb;--two:#e07b00;--three:#0f9d76;--four:#8b46d8;--code:#f1f3f6}
@media (prefers-color-scheme:dark){:root{--page:#10141b;--card:#181e28;--text:#e6eaf1;
--soft:#98a3b5;--line:#2b3442;--one:#6ea0ff;--two:#ffad42;--three:#43cfa4;--four:#bf90ff;
--code:#11161e}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--text);font:15px/1.5 system-ui,-apple-system,
"Segoe UI",Roboto,"Noto Sans",sans-serif;font-variant-numeric:tabular-nums}
main{max-width:1180px;margin:0 auto;padding:32px 24px 56px}
header{display:flex;align-items:baseline;gap:14px;flex-wrap:wrap}
h1{font-size:27px;margin:0;letter-spacing:-.01em}
h2{font-size:17px;margin:36px 0 12px}
.state{font-size:13px;padding:2px 11px;border-radius:99px;background:var(--one);color:var(--card)}
.soft{color:var(--soft);margin:6px 0 0}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px;
margin:22px 0 0}
.card{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:14px 16px;
margin:0}
.tile b{display:block;font-size:23px;font-weight:650;letter-spacing:-.01em}
.tile span{color:var(--soft);font-size:13px}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,460px),1fr));gap:14px}
figcaption{display:flex;gap:10px;align-items:baseline;flex-wrap:wrap;margin-bottom:6px}
.unit{color:var(--soft);font-size:13px;margin-right:auto}
.key{font-size:13px;color:var(--soft);display:inline-flex;align-items:center;gap:6px}
.key i{width:16px;height:0;border-top:3px solid;border-radius:2px}
i.one{color:var(--one)}i.two{color:var(--two)}i.three{color:var(--three)}i.four{color:var(--four)}
svg{display:block;width:100%;height:auto}
.grid line{stroke:var(--line)}.grid text{fill:var(--soft);font-size:11.5px}
polyline{fill:none;stroke-width:2.2;stroke-linejoin:round;stroke-linecap:round}
polyline.one,polyline.faint{stroke:var(--one)}polyline.two{stroke:var(--two)}
polyline.three{stroke:var(--three)}polyline.four{stroke:var(--four)}
polyline.faint{opacity:.28;stroke-width:1.2}
circle.one{fill:var(--one)}circle.two{fill:var(--two)}circle.three{fill:var(--three)}
circle.four{fill:var(--four)}
.empty{color:var(--soft);padding:60px 0;text-align:center}
.bar{display:flex;height:34px;border-radius:8px;overflow:hidden;gap:2px;margin:4px 0 14px}
.bar i{display:block;min-width:2px}
table{border-collapse:collapse;width:100%}
td,th{text-align:left;padding:7px 10px 7px 0;border-top:1px solid var(--line);vertical-align:top}
tr:first-child td,tr:first-child th{border-top:0}
td.n{text-align:right;white-space:nowrap}td.half{width:50%}
.bytes{max-width:560px}
th{font-weight:600;font-size:13px;color:var(--soft)}
.swatch{display:inline-block;width:12px;height:12px;border-radius:3px;margin-right:9px}
pre{margin:0;padding:14px 16px;background:var(--code);border-radius:8px;overflow-x:auto;
white-space:pre-wrap;overflow-wrap:anywhere;
font:12.5px/1.55 ui-monospace,SFMono-Regular,Menlo,"DejaVu Sans Mono",monospace}
summary{cursor:pointer;font-weight:600}details[open] summary{margin-bottom:12px}
.pictures .card{padding:16px 18px 12px}
.pictures svg text{fill:var(--soft);font-size:11.5px}
.pictures .rule{stroke:var(--line)}.pictures .peak{stroke:var(--text);stroke-dasharray:4 3}
.pictures .mark{fill:var(--text);font-weight:600}
.arena{shape-rendering:crispEdges}.arena rect:hover{stroke:var(--text);stroke-width:1.5}
.legend{display:flex;gap:6px 18px;flex-wrap:wrap;font-size:13px;color:var(--soft);margin:10px 0 0}
.legend .swatch{margin-right:6px}
.two-columns{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,440px),1fr));gap:14px}
td.track{width:38%;padding-right:0}.track div{height:9px;border-radius:3px;margin-top:6px;min-width:1px}
td.name{overflow-wrap:anywhere}
footer{color:var(--soft);font-size:13px;margin-top:36px}
)";

}  // namespace

std::string html_page(const std::string& title, const std::string& body) {
  return "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
         "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><title>" +
         escape_html(title) + " &middot; Palimpsest</title><style>" + kStyle +
         "</style></head><body><main>" + body + "</main></body></html>\n";
}

std::string page_header(const std::string& name, const std::string& state) {
  return "<header><h1>" + escape_html(name) + "</h1>" +
         (state.empty() ? "" : "<span class=\"state\">" + escape_html(state) + "</span>") +
         "</header>\n";
}

std::string tile(const std::string& value, const std::string& label) {
  return "<div class=\"card tile\"><b>" + escape_html(value) + "</b><span>" + escape_html(label) +
         "</span></div>";
}

std::string preformatted(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return "<pre>" + escape_html(text) + "</pre>";
}

std::string bytes_card(const std::vector<std::pair<std::string, int64_t>>& parts, int64_t total) {
  std::string bar = "<div class=\"bar\">", table = "<table class=\"bytes\">";
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto& [name, bytes] = parts[i];
    const double share = 100.0 * double(bytes) / double(std::max<int64_t>(1, total));
    const std::string fill = "style=\"background:" + part_colour(name, i);
    bar += "<i " + fill + ";flex:" + fixed(share, 3) + "\" title=\"" +
           escape_html(words(name) + ", " + format_bytes(bytes)) + "\"></i>";
    table += "<tr><td><span class=\"swatch\" " + fill + "\"></span>" + escape_html(words(name)) +
             "</td><td class=\"n\">" + format_bytes(bytes) + "</td><td class=\"n\">" +
             fixed(share, 1) + "&thinsp;%</td></tr>";
  }
  return "<div class=\"card\">" + bar + "</div>" + table + "</table></div>";
}

std::string part_colour(const std::string& name, size_t i) {
  for (size_t r = 0; r < kRoles; ++r) {
    if (name == to_string(Role(r))) return colour(r);
  }
  return name == "lost to packing" ? "#9aa3af" : colour(i);
}

std::string colour(size_t i) {
  static constexpr const char* colours[] = {"#3b78e7", "#e8871e", "#17a07c", "#9a5de0", "#d9477a",
                                            "#0fa3b8", "#b5a21b", "#7a8798", "#c2593f", "#5b9c36"};
  return colours[i % std::size(colours)];
}

std::string svg_number(double v) { return fixed(v, 1); }

std::string element(const char* name, const std::vector<Attribute>& attributes,
                    const std::string& body) {
  std::string out = std::string("<") + name;
  for (const Attribute& each : attributes) out += printed(" %s=\"", each.name) + each.value + "\"";
  return out + (body.empty() ? "/>" : ">" + body + "</" + name + ">");
}

std::string words(std::string name) {
  std::replace(name.begin(), name.end(), '_', ' ');
  return name;
}

}  // namespace pal
