"""Results as a page, and files that are whole at any time."""
import os


def write_whole(path, data):
    """Whoever reads, at any time, finds a whole file."""
    fresh = path.with_name(path.name + ".new")
    fresh.write_bytes(data)
    os.replace(fresh, path)


def one_line(text, most=300):
    text = " ".join(str(text).split())
    return text if len(text) <= most else text[:most - 3] + "..."


def state(result):
    return {True: "ok", False: "FAILED", None: "skipped"}[result["ok"]]


def table(rows):
    keys = list(dict.fromkeys(k for row in rows for k in row))
    lines = ["| " + " | ".join(keys) + " |", "|" + "---|" * len(keys)]
    for row in rows:
        cells = [f"{row[k]:.3g}" if isinstance(row.get(k), float) and abs(row[k]) < 1e-2
                 else str(row.get(k, "")) for k in keys]
        cells = [c.replace("\n", " ").replace("|", "/") for c in cells]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def code_lines(code):
    """Whose code the operators of each case run by."""
    lines = []
    for case, operators in code.items():
        lines += [f"- {case}, by whose code:"]
        for name, ways in operators.items():
            lines += [f"  - {name}: " + ", ".join(f"{by} ({count})" for by, count in ways.items())]
    return lines


def markdown(results):
    lines = ["# On a GPU", "", f"{results['date']}, device {results['device_asked_for']}.", ""]
    lines += table([{"part": name, "result": state(r), "seconds": r["seconds"]}
                    for name, r in results["parts"].items()] or [{"part": "none"}])
    for name, result in results["parts"].items():
        lines += ["", f"## {name}: {state(result)}", ""]
        if result.get("note"):
            lines += [result["note"], ""]
        for some in [table(result["rows"]) if result["rows"] else [],
                     [f"- {one_line(line, 600)}" for line in result["failed"]],
                     code_lines(result.get("code", {})),
                     [f"    {command}" for command in result["commands"]]]:
            lines += some + [""] if some else []
    return "\n".join(lines) + "\n"
