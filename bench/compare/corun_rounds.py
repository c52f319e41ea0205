#!/usr/bin/env python3
"""Pairs of small models side by side and in turns, in alternating rounds on this machine.

    bench/compare/corun_rounds.py [--rounds 5] [--minutes 11] [--pair NAME ...] [--quarter 2] [--pal build/pal]

Every mode of a pair runs for some seconds within one budget (--quarter: so far from the least to
what both need apart), then is stopped; how long follows from --minutes, which all takes together. A
job's rate is that of the second half of its steps, in the clock's time, relative to the job alone
with the whole machine. A row for each pair: for `shared` and `auto` the way, what `pal corun
--dry-run` predicts (after `pal bench --profile`, for this processor), and the median over the rounds
of the sum of rates, relative to turns in the same round, with its range. Then what follows: whether
`auto` is slower than turns by more than 3 % anywhere, and how far predictions are from what was
measured. Ends with 1 where `auto` is.
"""
import argparse
import json
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAIRS = {  # those of tests/train/commands/corun_pairs_test.cc
    "resnet_zoo": ("resnet_small", "zoo_small", ["1:train.batch_size=16", "2:train.batch_size=8"]),
    "bert_resnet": ("bert_small", "resnet_small", ["1:train.batch_size=4", "2:train.batch_size=16"]),
    "bert_bert": ("bert_small", "bert_small", ["1:train.batch_size=4", "2:train.batch_size=8"]),
    "nmt_zoo": ("nmt_small", "zoo_small", ["train.batch_size=8", "1:data.max_length=12"]),
    "transformer_deepspeech2": ("transformer_small", "deepspeech2_small",
                                ["1:train.batch_size=8", "1:data.max_length=12",
                                 "2:train.batch_size=2"]),
}
MODES = ("turns", "shared", "auto")
COMMON = ["train.log_every=1", "train.valid_every=1000000", "train.steps=1000000"]


def settings(sets, job=None):
    """--set words; of one job where pal train is to have them."""
    words = []
    for text in sets + COMMON:
        number, colon, rest = text.partition(":")
        if job is not None and colon and number.isdigit():
            if int(number) != job:
                continue
            text = rest
        words += ["--set", text]
    return words


def run_for(seconds, command):
    """Starts a command and stops it so many seconds after its first step."""
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                          text=True) as process:
        begun = None
        for line in process.stderr:
            if begun is None and "  loss " in line:
                begun = time.monotonic()
            if begun is not None and time.monotonic() - begun > seconds:
                process.send_signal(signal.SIGTERM)
                break
        process.stderr.read()


def rate(folder):
    """Steps a second, of the second half of the steps by the clock's time."""
    times = []
    for row in (folder / "metrics.jsonl").read_text().splitlines():
        row = json.loads(row)
        if row["event"] == "step":
            times.append(row["step_ms"] / 1000)
    half, late = sum(times) / 2, []
    for t in reversed(times):
        if sum(late) >= half:
            break
        late.append(t)
    return len(late) / sum(late)


def planned(pal, first, second, sets, mode, budget):
    out = subprocess.run([pal, "corun", first, second, *settings(sets), "--mode", mode, "--budget",
                          str(budget), "--dry-run", "--json", "--out", "/nonexistent/plan"],
                         cwd=ROOT, capture_output=True, text=True, check=False)
    return json.loads(out.stdout)["memory"] if out.returncode == 0 else None


STARTUP = 1.5  # seconds that a program takes before its first step, and to stop


def seconds_a_mode(args):
    """How long each mode runs, so that all fits: in a round each job alone for half of it."""
    runs = args.rounds * len(args.pair)
    each = (args.minutes * 60 / runs - 5 * STARTUP) / (len(MODES) + 1)
    if each < 1.5:
        sys.exit(f"{args.minutes} minutes are {each:.1f} seconds a mode; fewer rounds or pairs")
    return each


def measure(pal, name, args):
    first, second, sets = PAIRS[name]
    least = planned(pal, first, second, sets, "turns", 10**12)["bytes"]
    most = planned(pal, first, second, sets, "unshared", 10**12)["bytes"]
    budget = least + max(0, most - least) * args.quarter // 4
    plans = {mode: planned(pal, first, second, sets, mode, budget) for mode in ("shared", "auto")}
    if None in plans.values():
        print(f"| {name} | {budget / 1e6:.1f} MB | no way to share |")
        return None
    totals = {mode: [] for mode in MODES}
    for i in range(args.rounds):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            alone = []
            for job, config in enumerate((first, second), 1):
                out = folder / f"alone{job}"
                run_for(args.seconds / 2, [pal, "train", "--config", config, *settings(sets, job),
                                           "--out", str(out)])
                alone.append(rate(out))
            for mode in MODES[i % 3:] + MODES[:i % 3]:  # what comes first differs
                out = folder / mode
                run_for(args.seconds, [pal, "corun", first, second, *settings(sets), "--mode", mode,
                                       "--budget", str(budget), "--out", str(out)])
                totals[mode].append(sum(rate(out / str(job)) / alone[job - 1] for job in (1, 2)))
    row, found = f"| {name} | {budget / 1e6:.1f} MB |", {}
    for mode, plan in plans.items():
        ratios = [a / b for a, b in zip(totals[mode], totals["turns"])]
        found[mode] = plan["predicted"]["total"], statistics.median(ratios)
        row += (f" {plan['way']} | {found[mode][0]:.2f} | {found[mode][1]:.2f}"
                f" ({min(ratios):.2f} to {max(ratios):.2f}) |")
    print(f"{row} {statistics.median(totals['turns']):.2f} |", flush=True)
    return found


def verdict(found):
    """What was found of pairs, for people; whether `auto` is nowhere slower than turns."""
    slow = [name for name, modes in found.items() if modes["auto"][1] < 0.97]
    print("\n`auto` is " + (f"slower than turns by more than 3 %: {', '.join(slow)}" if slow else
                            "nowhere slower than turns by more than 3 %"))
    for mode in ("shared", "auto"):
        off = {name: modes[mode][0] / modes[mode][1] - 1 for name, modes in found.items()}
        far = [f"{name} ({part:+.0%})" for name, part in off.items() if abs(part) > 0.15]
        print(f"`{mode}`: predicted within 15 % of measured in {len(off) - len(far)} of {len(off)}"
              + (f"; not {', '.join(far)}" if far else ""))
    return not slow


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--minutes", type=float, default=11, help="for all together")
    parser.add_argument("--seconds", type=float, help="a mode, whatever --minutes says")
    parser.add_argument("--quarter", type=int, default=2)
    parser.add_argument("--pair", nargs="*", default=list(PAIRS), choices=list(PAIRS))
    parser.add_argument("--pal", default=str(ROOT / "build" / "pal"))
    args = parser.parse_args()
    args.seconds = args.seconds or seconds_a_mode(args)
    began = time.monotonic()
    print("| pair | budget | `shared` | predicted | measured | `auto` | predicted | measured"
          " | turns, of alone |\n|---|---|---|---|---|---|---|---|---|", flush=True)
    found = {name: measure(args.pal, name, args) for name in args.pair}
    found = {name: modes for name, modes in found.items() if modes}
    if not found:
        sys.exit("no pair was measured")
    well = verdict(found)
    print(f"{args.rounds} rounds, {args.seconds:.1f} s a mode,"
          f" {(time.monotonic() - began) / 60:.1f} minutes")
    sys.exit(0 if well else 1)


if __name__ == "__main__":
    main()
