"""Results as a page, and files that are whole at any time."""
import os

LEGEND = """A step's time is the median of those that were timed. `peak MB` is what the plan has
(Palimpsest), or the most that was allocated (PyTorch). `products TFLOP/s` counts products alone
over the time of the whole step; `of the ceiling` is beside what `ceilings` measured here,
`predicted ms` is of the profile for such a card. Commands stand under their part; files in
temporary folders are gone: a test is run again by `--gtest_filter`."""


def write_whole(path, data):
    """Whoever reads, at any time, finds a whole file."""
    fresh = path.with_name(path.name + ".new")
    fresh.write_bytes(data)
    os.replace(fresh, path)


def one_line(text, most=300):
    text = " ".join(str(text).split())
    return text if len(text) <= most else text[:most - 3] + "..."


def state(result):
    if not result["ended"]:
        return "did not end"
    return {True: "ok", False: "FAILED", None: "skipped"}[result["ok"]]


def why(result):
    """A note and the first thing that failed, of so many; nothing where all is well."""
    failed = result["failed"]
    count = f"{len(failed)} failures, the first: " if len(failed) > 1 else ""
    return one_line(". ".join(filter(None, [result["note"], count + failed[0] if failed else ""])))


def cell(value):
    if isinstance(value, float):
        value = f"{value:.3g}" if abs(value) < 1e-2 else round(value, 4)
    return "" if value is None else str(value).replace("\n", " ").replace("|", "/")


def table(rows):
    keys = list(dict.fromkeys(k for row in rows for k in row))
    lines = [keys, ["---"] * len(keys), *([cell(row.get(k)) for k in keys] for row in rows)]
    return ["| " + " | ".join(line) + " |" for line in lines]


def code_lines(code):
    """Whose code the operators of each case run by."""
    lines = []
    for case, operators in code.items():
        lines += [f"- {case}, by whose code:"]
        for name, ways in operators.items():
            lines += [f"  - {name}: " + ", ".join(f"{by} ({count})" for by, count in ways.items())]
    return lines


def summary(results):
    """The state of all parts in a sentence or two."""
    by_state = {}
    for name, result in results["parts"].items():
        by_state.setdefault(state(result), []).append(name)
    ok = len(by_state.pop("ok", []))
    said = [f"{ok} of {len(results['parts'])} parts are ok"]
    said += [f"{how}: {', '.join(names)}" for how, names in sorted(by_state.items())]
    return "; ".join(said) + "."


def markdown(results):
    card = f" ({results['card']})" if results["card"] else ""
    lines = ["# What gpu-check found", "",
             f"{results['date']}, device {results['device_asked_for']}{card}, "
             f"{results['seconds']:.0f} s. {summary(results)}", ""]
    lines += table([{"part": name, "result": state(r), "seconds": r["seconds"], "why": why(r)}
                    for name, r in results["parts"].items()] or [{"part": "none"}])
    lines += ["", LEGEND]
    for name, result in results["parts"].items():
        lines += ["", f"## {name}: {state(result)}", ""]
        for text in [result["what"], result["note"]]:
            lines += [text, ""] if text else []
        for some in [table(result["rows"]) if result["rows"] else [],
                     [f"- {one_line(line, 600)}" for line in result["failed"]],
                     code_lines(result.get("code", {})),
                     [f"    {command}" for command in result["commands"]]]:
            lines += some + [""] if some else []
    return "\n".join(lines) + "\n"
