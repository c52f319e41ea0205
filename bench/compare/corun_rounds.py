#!/usr/bin/env python3
"""Pairs of small models side by side and in turns, in alternating rounds on this machine.

    bench/compare/corun_rounds.py [--rounds 5] [--seconds 8] [--pair NAME ...] [--quarter 2] [--pal build/pal]

Every mode of a pair runs for some seconds within one budget (--quarter: so far from the least to
what both need apart), then is stopped. A job's rate is that of the second half of its steps, in the
clock's time, relative to the job alone with the whole machine. A line for each pair: the median over
the rounds of the sum of rates, relative to turns in the same round, its range, and what `pal corun
--dry-run` predicts for --mode shared (after `pal bench --profile`, for this processor). Ends with 1
where `auto` is slower than turns by more than 3 %.
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


def measure(pal, name, args):
    first, second, sets = PAIRS[name]
    least = planned(pal, first, second, sets, "turns", 10**12)["bytes"]
    most = planned(pal, first, second, sets, "unshared", 10**12)["bytes"]
    budget = least + max(0, most - least) * args.quarter // 4
    plan = planned(pal, first, second, sets, "shared", budget)
    if plan is None:
        print(f"{name:26s} no way to share within {budget} bytes")
        return 1.0
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
    def relative(mode):
        ratios = [a / b for a, b in zip(totals[mode], totals["turns"])]
        return statistics.median(ratios), min(ratios), max(ratios)
    shared, auto = relative("shared"), relative("auto")
    print(f"{name:26s} {budget / 1e6:7.1f} MB  {plan['way']:8s} predicted {plan['predicted']['total']:.2f}"
          f"  shared {shared[0]:.2f} ({shared[1]:.2f}-{shared[2]:.2f})"
          f"  auto {auto[0]:.2f} ({auto[1]:.2f}-{auto[2]:.2f})"
          f"  turns {statistics.median(totals['turns']):.2f} of alone", flush=True)
    return auto[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--quarter", type=int, default=2)
    parser.add_argument("--pair", nargs="*", default=list(PAIRS), choices=list(PAIRS))
    parser.add_argument("--pal", default=str(ROOT / "build" / "pal"))
    args = parser.parse_args()
    slowest = min(measure(args.pal, name, args) for name in args.pair)
    sys.exit(0 if slowest >= 0.97 else 1)


if __name__ == "__main__":
    main()
