#!/usr/bin/env python3
"""The front's plans by what activations take, beside what others report of theirs and beside the
dynamic manager at equal budgets. All of it is predicted.

    bench/compare/front_beside.py [--ratios 2 3 4 6] [--pal build/pal]

Activations are what a plan has beside weights, optimizer state and inputs (gradients count with
them). For each network and each part of its recorded step's activations: what the fastest plan adds
to the step's time, with the card's link and without one, and what the manager delta adds within
exactly as many bytes, with the link. "-": no plan, or the manager refuses.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
CARD = "v100_16"
STEPS = {
    "ResNet-50, batch 32": ["resnet50_imagenet", "data.synthetic=true", "train.batch_size=32"],
    "ViT-B/16": ["vit_b16_imagenet", "data.synthetic=true"],
    "BERT, 32 x 512 (GPT-2 small's shape)": ["bert_base", "data.synthetic=true", "data.length=512"],
    "Transformer base": ["transformer_base", "data.synthetic=true", "data.source_vocab_size=32000",
                         "data.target_vocab_size=32000"],
}
STATE = ("weights", "optimizer_state", "inputs")


def pal(args, step, profile, *words, fails=False):
    command = [str(args.pal), "plan", "--config", step[0], "--profile", profile, "--json"]
    for setting in step[1:]:
        command += ["--set", setting]
    done = subprocess.run([*command, *words], cwd=ROOT, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE)
    if done.returncode:
        if fails:
            return None
        sys.exit(" ".join(command) + "\n" + done.stderr[-1000:])
    return json.loads(done.stdout)


def added(ms, plain):
    return "-" if ms is None else f"{100 * (ms / plain - 1):+.1f} %"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ratios", type=float, nargs="+", default=[2, 3, 4, 6])
    parser.add_argument("--pal", type=pathlib.Path, default=ROOT / "build/pal")
    args = parser.parse_args()
    text = (ROOT / "configs/devices" / f"{CARD}.yaml").read_text()
    with tempfile.TemporaryDirectory() as folder:
        unlinked = pathlib.Path(folder) / "unlinked.yaml"
        unlinked.write_text("".join(line for line in text.splitlines(True)
                                    if not line.startswith("link")))
        print("| step | activations as recorded | of these | link | no link | delta, link |")
        print("|---|---|---|---|---|---|")
        for name, step in STEPS.items():
            plain = pal(args, step, CARD)
            state = sum(plain["bytes"][key] for key in STATE)
            whole = plain["bytes"]["total"] - state
            plain_ms = plain["time"]["step_ms"]
            fronts = [pal(args, step, profile, "--front") for profile in (CARD, str(unlinked))]
            for ratio in args.ratios:
                budget = int(state + whole / ratio)
                row = [name, f"{whole / 1e9:.2f} GB", f"1/{ratio:g}"]
                for front in fronts:
                    fits = [p["step_ms"] for p in front["points"] if p["bytes"] <= budget]
                    row.append(added(min(fits, default=None), plain_ms))
                delta = pal(args, step, CARD, "--set", "memory.manager=delta", "--budget",
                            str(budget), fails=True)
                row.append(added(delta and delta["time"]["step_ms"], plain_ms))
                print("| " + " | ".join(row) + " |", flush=True)


main()
