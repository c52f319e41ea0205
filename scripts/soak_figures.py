"""What a soak's figures say: the line through each series, its error and verdict, a table, and a page of plots.

scripts/soak reads them; here nothing is run.
"""
import html
import math
import statistics

WARM_UP = 0.1  # of a run's time; its first step programs are planned, its caches are filled
LATEST_WARM_UP = 0.5  # a program that is planned later than this shows as what it is, a rise
BLOCKS = 24
WINDOW = 8  # samples, of whose stretch it is known what part of a processor the process had


class Series:
    def __init__(self, title, unit, tolerance, share=False):
        self.title, self.unit, self.tolerance, self.share = title, unit, tolerance, share


# What a series may drift in a run, whatever its error says: a part of its height, or a number. A page of
# the heap that is met late is no leak; a file or a thread is one whole. A peak only ever rises.
SERIES = {
    "memory": Series("memory", "MB", 0.005, share=True),
    "peak": Series("peak memory", "MB", 0.01, share=True),
    "files": Series("open files", "", 0.5),
    "threads": Series("threads", "", 0.5),
    "step": Series("step time", "ms", 0.02, share=True),
    "processor": Series("a step's processor time", "ms", 0.02, share=True),
}
ERRORS = 3  # standard errors that a slope may have


def line_through(points):
    """Slope, its standard error, and the line's height at the first point, by least squares.

    The error takes into account that a point resembles the one before it: with a correlation r of
    neighbours, n points tell as much as n (1 - r) / (1 + r) that know nothing of each other.
    """
    n = len(points)
    if n < 4:
        raise ValueError(f"{n} points are too few for a line and its error; let the run take longer")
    x0, y0 = (statistics.fmean(point[i] for point in points) for i in (0, 1))
    across = sum((x - x0) ** 2 for x, _ in points)
    slope = sum((x - x0) * (y - y0) for x, y in points) / across
    rest = [y - y0 - slope * (x - x0) for x, y in points]
    square = sum(r * r for r in rest)
    error = math.sqrt(square / (n - 2) / across)
    if square > 0:
        r = sum(a * b for a, b in zip(rest, rest[1:])) / square
        error *= math.sqrt((1 + r) / (1 - r)) if r > 0 else 1
    return slope, error, y0 + slope * (points[0][0] - x0)


def block_medians(points, begin, end, blocks=BLOCKS):
    """The median of each of some equal stretches of time, in which there is one.

    Step times have long tails (another program's work, a save's writes), and neighbours resemble each
    other: a median passes over the tails, and medians of long stretches are nearly independent.
    """
    width = (end - begin) / blocks
    by_block = {}
    for t, value in points:
        if begin <= t <= end:
            by_block.setdefault(min(int((t - begin) / width), blocks - 1), []).append(value)
    return [(begin + (block + 0.5) * width, statistics.median(values)) for block, values in sorted(by_block.items())]


def steps_alike(rows):
    """(time, milliseconds) of step rows, as if all were of one bucket.

    A longer bucket's step takes longer, and its planned peak tells it apart: each time is taken as a
    part of the median of its like, times the median of all.
    """
    like = {}
    for row in rows:
        like.setdefault(row["peak_bytes"], []).append(row["step_ms"])
    usual = {peak: statistics.median(values) for peak, values in like.items()}
    whole = statistics.median(row["step_ms"] for row in rows)
    return [(row["t"], row["step_ms"] / usual[row["peak_bytes"]] * whole) for row in rows]


def processor_times(steps, samples):
    """Of (time, milliseconds) of steps the milliseconds that the process was on a processor.

    A step waits while other programs have the processors, and these come and go. What part of the
    time the process had one is known of each stretch of some seconds; it counts for the steps in it.
    """
    out, at = [], 0
    for first, last in zip(samples[::WINDOW], samples[WINDOW::WINDOW]):
        share = (last["own"] - first["own"]) / (last["t"] - first["t"])
        while at < len(steps) and steps[at][0] <= last["t"]:
            if steps[at][0] > first["t"]:
                out.append((steps[at][0], steps[at][1] * share))
            at += 1
    return out


def warm_up_of(plans, seconds):
    """Seconds that are left out: a tenth, and until the last program was planned in the first half."""
    early = [t for t in plans if t <= LATEST_WARM_UP * seconds]
    return max([WARM_UP * seconds] + early)


def judge(points, begin, end, series):
    """A verdict on a series between two times, as it stands in soak.json."""
    medians = block_medians(points, begin, end)
    slope, error, height = line_through(medians)
    drift = slope * (end - begin)
    allowed = series.tolerance * (abs(height) if series.share else 1)
    verdict = "level"
    if abs(slope) > ERRORS * error and abs(drift) > allowed:
        verdict = "rises" if slope > 0 else "falls"
    return {"slope_per_hour": slope * 3600, "error_per_hour": error * 3600, "height": height, "drift": drift, "verdict": verdict,
            "medians": medians}


def points_of(run):
    """The series of a run, in the units of the table: {name: [(seconds, value)]}."""
    samples, steps = run["samples"], steps_alike(run["steps"]) if run["steps"] else []
    return {
        "memory": [(each["t"], each["memory"] / 1e6) for each in samples],
        "peak": [(each["t"], each["peak"] / 1e6) for each in samples],
        "files": [(each["t"], each["files"]) for each in samples],
        "threads": [(each["t"], each["threads"]) for each in samples],
        "step": steps,
        "processor": processor_times(steps, samples),
    }


def judge_run(run):
    """{series: verdict} of a run, and when its warm-up ends."""
    end = run["samples"][-1]["t"]
    begin = warm_up_of(run["plans"], end)
    return {name: judge(points, begin, end, SERIES[name]) for name, points in points_of(run).items()}, begin


def number(value):
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}" if abs(value) > 1e-9 else "0"


def table_of(runs):
    lines = [f"{'trainer':<12} {'minutes':>7} {'steps':>7}  {'series':<23} {'height':>10} {'slope an hour':>22}  {'drift':>9}  verdict"]
    for run in runs:
        if "verdicts" not in run:
            continue
        for n, (name, found) in enumerate(run["verdicts"].items()):
            series = SERIES[name]
            head = f"{run['name']:<12} {run['samples'][-1]['t'] / 60:>7.1f} {run['steps'][-1]['step']:>7,}" if n == 0 else " " * 28
            slope = f"{number(found['slope_per_hour'])} ± {number(found['error_per_hour'])}"
            share = series.share and found["height"] != 0  # a step may take no tick of the clock
            drift = f"{100 * found['drift'] / found['height']:+.2f} %" if share else f"{found['drift']:+.2g}"
            unit = " " + series.unit if series.unit else ""
            lines.append(f"{head}  {series.title:<23} {number(found['height']) + unit:>10} {slope + unit:>22}  {drift:>9}  {found['verdict']}")
    return "\n".join(lines)


def judge_all(soak):
    """Adds the verdicts to the runs; what fell short, as lines."""
    wrong = []
    for run in soak["runs"]:
        wrong += run["failures"]
        try:
            run["verdicts"], run["warm_up"] = judge_run(run)
        except (ValueError, IndexError) as error:
            wrong.append(f"{run['name']}: {error}")
            continue
        wrong += [f"{run['name']}: {SERIES[name].title} {found['verdict']}" for name, found in run["verdicts"].items()
                  if found["verdict"] == "rises"]
    return wrong


# The page: a row for each trainer, a column for each series; all axes begin at zero.

COLUMNS = ("memory", "files", "threads", "step", "processor")
LEFT, TOP, WIDE, HIGH, GAP_X, GAP_Y = 118, 104, 204, 84, 22, 34
MOST_POINTS = 150  # of what was read, in a cell
STYLE = """
text{font:12px system-ui,sans-serif;fill:#1b2330}
.page{fill:#fff}.soft{fill:#5d6878}.head{font-size:17px;font-weight:600}.name{font-weight:600}.bad{fill:#b3261e;font-weight:600}
.cell{fill:#f3f5f8}.warm{fill:#dfe4ec}.axis{stroke:#9aa5b5}.small{font-size:11px}
.read{fill:none;stroke:#3f6fb5;stroke-opacity:.4}.peak{fill:none;stroke:#b8661b}.medians{fill:#1f4f97}.line{stroke:#c2185b;stroke-width:1.4}
"""
DARK = """
text{fill:#e6eaf1}.page{fill:#10141b}.soft{fill:#9aa7b8}.bad{fill:#ff8a80}.cell{fill:#1b222d}.warm{fill:#2a3443}.axis{stroke:#5d6878}
.read{stroke:#7fa8e6}.peak{stroke:#e39a54}.medians{fill:#a9c8fb}.line{stroke:#ff7eb0}
"""


def thinned(points, most=MOST_POINTS):
    """The medians of so many stretches at most; a stretch as high as its neighbours is left out."""
    if len(points) > most:
        points = block_medians(points, points[0][0], points[-1][0], most)
    return [point for i, point in enumerate(points)
            if i in (0, len(points) - 1) or not points[i - 1][1] == point[1] == points[i + 1][1]]


def text_at(x, y, words, style="", anchor="start"):
    return f'<text x="{x:g}" y="{y:g}" class="{style}" text-anchor="{anchor}">{html.escape(words)}</text>'


def cell(run, name, left, top):
    series, found, end = SERIES[name], run["verdicts"][name], run["samples"][-1]["t"]
    points = [point for point in points_of(run)[name] if point[0] > 0.02 * end]  # the program's first moments are out of scale
    others = points_of(run)["peak"] if name == "memory" else []
    highest = max(max(value for _, value in thinned(points) + others), found["height"]) * 1.25 or 1

    def at(point):
        return f"{left + WIDE * point[0] / end:.1f},{top + HIGH * (1 - point[1] / highest):.1f}"

    def polyline(style, many):
        return f'<polyline class="{style}" points="{" ".join(map(at, many))}"/>'

    unit = " " + series.unit if series.unit else ""
    out = [f'<rect class="cell" x="{left}" y="{top}" width="{WIDE}" height="{HIGH}"/>',
           f'<rect class="warm" x="{left}" y="{top}" width="{WIDE * run["warm_up"] / end:.1f}" height="{HIGH}"/>',
           f'<path class="axis" d="M{left} {top + HIGH}h{WIDE}"/>', polyline("read", thinned(points))]
    if others:
        out.append(polyline("peak", thinned(others[1:])))
    out += [f'<circle class="medians" cx="{x}" cy="{y}" r="1.6"/>' for x, y in (at(point).split(",") for point in found["medians"])]
    (x0, _), (x1, _) = found["medians"][0], found["medians"][-1]
    (ax, ay), (bx, by) = (at((x, found["height"] + found["slope_per_hour"] / 3600 * (x - x0))).split(",") for x in (x0, x1))
    out.append(f'<path class="line" d="M{ax} {ay}L{bx} {by}"/>')
    out.append(text_at(left + WIDE, top - 6, number(found["height"]) + unit, "name", "end"))
    verdict = found["verdict"]
    if others and run["verdicts"]["peak"]["verdict"] != "level":
        verdict = "its peak " + run["verdicts"]["peak"]["verdict"]
    out.append(text_at(left, top - 6, f"{number(found['slope_per_hour'])} ± {number(found['error_per_hour'])}{unit}/h", "small soft"))
    if verdict != "level":
        out.append(text_at(left + 6, top + HIGH - 8, verdict, "small bad"))
    return "".join(out)


def page_of(soak):
    """The page as an SVG, light or dark as its reader's machine is."""
    runs = [run for run in soak["runs"] if "verdicts" in run]
    wide, high = LEFT + len(COLUMNS) * (WIDE + GAP_X), TOP + len(runs) * (HIGH + GAP_Y) - 12
    hours = sum(run["samples"][-1]["t"] for run in runs) / 3600
    threads = f"{soak['threads']} thread" + ("s" if soak["threads"] > 1 else "")
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}" viewBox="0 0 {wide} {high}">'
           f"<style>{STYLE}@media (prefers-color-scheme:dark){{{DARK}}}</style>", f'<rect class="page" width="{wide}" height="{high}"/>',
           text_at(16, 28, f"{hours:.1f} hours of training, {len(runs)} trainers in turn", "head"),
           text_at(16, 47, f"{soak['began']}, {soak['machine']}, {threads}, other work beside it. "
                   "Axes begin at zero. Dots: medians of stretches; red: the line through them; brown: the peak; shaded: warm-up, left out.",
                   "small soft")]
    for column, name in enumerate(COLUMNS):
        out.append(text_at(LEFT + column * (WIDE + GAP_X), TOP - 28, SERIES[name].title, "name"))
    for row, run in enumerate(runs):
        top = TOP + row * (HIGH + GAP_Y)
        out.append(text_at(16, top + 20, run["name"], "name"))
        out.append(text_at(16, top + 37, f"{run['steps'][-1]['step']:,} steps", "small soft"))
        out.append(text_at(16, top + 52, f"{run['samples'][-1]['t'] / 60:.0f} minutes", "small soft"))
        for column, name in enumerate(COLUMNS):
            out.append(cell(run, name, LEFT + column * (WIDE + GAP_X), top))
    return "\n".join(out) + "\n</svg>\n"
