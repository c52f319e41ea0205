#!/usr/bin/env python3
"""Steps of two ranks on this machine's processor, measured beside what pal plan predicts.

    bench/compare/ranks_steps.py [--config resnet_small ...] [--rounds 5] [--pal build/pal]

First the processor and what joins two ranks are measured (pal bench --profile, --link; into a folder
of this run). Each round trains every configuration, with one length of sentences or utterances so
that all steps are of one program; its step is the median of those after the first five. Prints the
median of the rounds, the prediction for two devices with that profile and link, and their ratio;
ends with 1 where it is outside 0.7 to 1.4. Wants a machine that does nothing else.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Options that leave one bucket.
CONFIGS = {
    "nmt_small": ["data.bucket_width=30"],
    "transformer_small": ["data.bucket_width=30"],
    "resnet_small": [],
    "deepspeech2_small": ["data.buckets=1"],
}
LEAST, MOST = 0.7, 1.4
WARM = 5


def pal(args, *words):
    done = subprocess.run([str(args.pal), *words], cwd=ROOT, env=args.env, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode:
        sys.exit(" ".join(words) + "\n" + done.stdout[-1000:] + done.stderr[-1000:])
    return done.stdout


def settings(config):
    words = ["--config", config]
    for option in CONFIGS[config]:
        words += ["--set", option]
    return words


def measured(args, config):
    with tempfile.TemporaryDirectory() as folder:
        pal(args, "train", *settings(config), "--ranks", "2", "--steps", str(args.steps), "--set",
            "train.log_every=1", "--out", folder + "/run")
        lines = (pathlib.Path(folder) / "run/metrics.jsonl").read_text().splitlines()
    events = [json.loads(line) for line in lines]
    times = [event["step_ms"] for event in events if event["event"] == "step"]
    return statistics.median(times[WARM:])


def predicted(args, config):
    plan = json.loads(pal(args, "plan", *settings(config), "--profile", "cpu", "--devices", "2",
                          "--link", "measured", "--json"))
    return plan["time"]["step_ms"], plan["devices"]["communication_ms"]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", nargs="+", default=list(CONFIGS), choices=list(CONFIGS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--pal", type=pathlib.Path, default=ROOT / "build/pal")
    args = parser.parse_args()
    args.pal = args.pal.resolve()
    with tempfile.TemporaryDirectory() as home:
        args.env = {**os.environ, "XDG_CONFIG_HOME": home}
        pal(args, "bench", "--profile")
        print(pal(args, "bench", "--link").splitlines()[0], flush=True)
        times = {config: [] for config in args.config}
        for _ in range(args.rounds):
            for config in args.config:
                times[config].append(measured(args, config))
        print("| configuration | measured, ms | lowest, highest | predicted, ms | of it exchanges | "
              "measured / predicted |")
        print("|---|---|---|---|---|---|")
        outside = 0
        for config in args.config:
            ms = statistics.median(times[config])
            step, exchanges = predicted(args, config)
            outside += not LEAST <= ms / step <= MOST
            print(f"| {config} | {ms:.1f} | {min(times[config]):.1f}, {max(times[config]):.1f} | "
                  f"{step:.1f} | {exchanges:.1f} | {ms / step:.2f} |")
    return outside > 0


if __name__ == "__main__":
    sys.exit(main())
