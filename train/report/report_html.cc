// Composing the page: what the rows of metrics.jsonl say, in tiles and charts; the footprint, the
// plan, samples, the configuration.
#include "train/report/report_html.h"

#include <algorithm>
#include <sstream>

#include "core/text.h"
#include "data/atomic_file.h"
#include "memory/plan/report.h"
#include "train/config/wording.h"
#include "train/report/html_page.h"
#include "train/report/report_chart.h"

namespace pal {
namespace {

constexpr int64_t kDots = 60;  // of a curve of validations; more would be a band

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char ch) { return char(std::toupper(ch)); });
  return text;
}

// Error rates and perplexities are better low; everything else that tasks report is better high.
double best_of(const std::string& name, const Curve& curve) {
  return name == "wer" || name == "cer" || name == "perplexity" ? curve.lowest() : curve.highest();
}

std::string tiles(const RunReport& r, const RunCurves& c) {
  std::string out = "<section class=\"tiles\">";
  for (const auto& [name, value] : r.test) {
    out += name == "loss" ? tile(fixed(value, 3), "test loss, nats per " + r.sample)
                          : tile(fixed(value, 2), "test " + upper(name));
  }
  for (const auto& [name, curve] : c.metrics) {
    if (curve.count() > 0) out += tile(fixed(best_of(name, curve), 2), "best valid " + upper(name));
  }
  if (c.valid_loss.count() > 0) {
    out += tile(fixed(c.valid_loss.last(), 3), "last valid loss, nats per " + r.sample);
  }
  out += tile(short_number(double(c.step), 7), "updates, " + fixed(c.epoch, 2) + " epochs");
  if (c.tokens.count() > 0) {
    out += tile(short_number(c.tokens.mean()), r.unit + " a second, mean");
  }
  out += tile(format_bytes(r.arena_bytes), "planned for a step, all included");
  if (r.run_bytes > r.arena_bytes) {
    out += tile(format_bytes(r.run_bytes), "planned for the run, validation included");
  }
  if (r.process_peak_bytes) {
    out += tile(format_bytes(*r.process_peak_bytes), "peak of the whole process, measured");
  }
  return out + "</section>";
}

std::string charts(const RunReport& r, const RunCurves& c) {
  Chart loss{.title = "Loss", .unit = "nats per " + r.sample + ", by step", .series = {}};
  const auto& train = c.loss.points();
  if (train.size() > 40) {
    loss.series.push_back({"", "faint", train});
    const double window = double(train.size()) / 25;
    loss.series.push_back({"training, smoothed", "one", smoothed(train, window)});
  } else {
    loss.series.push_back({"training", "one", train});
  }
  loss.series.push_back(
      {"validation", "two", c.valid_loss.points(), c.valid_loss.count() <= kDots});
  std::string out = "<section class=\"charts\">" + chart_html(loss);

  Chart metric{.title = "Validation", .unit = "by step", .series = {}};
  const char* styles[] = {"three", "four", "two"};
  for (const auto& [name, curve] : c.metrics) {
    const bool alone = c.metrics.size() == 1;
    if (alone) metric.title = upper(name), metric.unit = "on validation data, by step";
    metric.series.push_back({alone ? "" : upper(name), styles[metric.series.size() % 3],
                             curve.points(), curve.count() <= kDots});
  }
  out += chart_html(metric);
  out += chart_html({.title = "Learning rate",
                     .unit = "by step",
                     .series = {{"", "four", c.rate.points()}},
                     .from_zero = true});
  out += chart_html({.title = "Throughput",
                     .unit = r.unit + " a second, by step",
                     .series = {{"", "one", c.tokens.points()}},
                     .from_zero = true});
  return out + "</section>";
}

std::string footprint(const RunReport& r) {
  auto parts = r.bytes;
  std::sort(parts.begin(), parts.end(), [](auto& a, auto& b) { return a.second > b.second; });
  if (const int64_t lost = r.arena_bytes - r.lower_bound_bytes; lost > 0) {
    parts.emplace_back("lost to packing", lost);
  }
  return "<h2>Memory: the largest step at its peak, " + format_bytes(r.arena_bytes) + "</h2>" +
         bytes_card(parts, r.arena_bytes);
}

std::string samples(const RunReport& r) {
  if (r.samples.empty()) return "";
  std::string out = "<h2>Samples of " + std::string(r.test.empty() ? "validation" : "test") +
                    " data</h2><div class=\"card\"><table><tr><th>source</th><th>output</th></tr>";
  for (const auto& [source, output] : r.samples) {
    out += "<tr><td class=\"half\">" + escape_html(source) + "</td><td>" + escape_html(output) +
           "</td></tr>";
  }
  return out + "</table></div>";
}

std::string sparse_steps(const RunReport& r) {
  std::string out;
  for (const std::string& line : r.sparse) {
    out += "<p class=\"soft\">Sparse maps, " + escape_html(line) + "</p>";
  }
  return out;
}

}  // namespace

std::string report_html(const RunReport& r, const std::string& metrics) {
  RunCurves curves;
  std::istringstream text(metrics);
  curves.read(text);
  return report_html(r, curves);
}

std::string report_html(const RunReport& r, const RunCurves& curves) {
  const bool running = r.state == "training" || r.state == "interrupted";
  std::string out = page_header(r.name, running ? r.state : "ended: " + words(r.state));
  for (const std::string& line : r.described) {
    out += "<p class=\"soft\">" + escape_html(line) + "</p>";
  }
  out += tiles(r, curves) + "\n<h2>Training</h2>" + charts(r, curves) + "\n" + samples(r) + "\n" +
         footprint(r) + r.front +
         "\n<h2>The plan, and what each pass did</h2><div class=\"card\">" + preformatted(r.plan) +
         sparse_steps(r) + "</div>\n<h2>Configuration</h2><details class=\"card\"><summary>" +
         "Every option of this run</summary>" + preformatted({r.config}) +
         "</details>\n<footer>Written by Palimpsest. All figures are of this run, from "
         "metrics.jsonl and plan.json beside this page.</footer>";
  return html_page(r.name, out);
}

void save_report(const std::filesystem::path& folder, const RunReport& report, RunCurves& curves) {
  curves.follow(folder / "metrics.jsonl");
  const std::string page = report_html(report, curves);
  AtomicFile out((folder / "report.html").string());
  out.write(page.data(), page.size());
  out.commit();
}

}  // namespace pal
