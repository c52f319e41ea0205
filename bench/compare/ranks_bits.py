#!/usr/bin/env python3
"""Whether checkpoints depend on how many ranks trained, and on what each has a piece of.

    bench/compare/ranks_bits.py [--config nmt_small ...] [--ranks 2,4] [--updates 20] [--pal build/pal]

For every configuration and every variant (plain, echo, clip_norm, ema) one rank trains under
train.reduction: ordered; then each number of ranks does at each level of train.shard. Every
last.safetensors must be that of one rank to the byte. Ends with 1 where one is not. Wants Open MPI
and a build of this tree; ranks may outnumber cores.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONFIGS = ("nmt_small", "transformer_small", "resnet_small", "deepspeech2_small")
LEVELS = ("none", "optimizer", "gradients", "weights")
VARIANTS = {
    "plain": [],
    "echo": ["memory.recompute=echo"],
    "clip_norm": ["train.clip_value=null", "train.clip_norm=0.5"],
    "ema": ["train.ema=0.9"],
}


def train(args, config, ranks, options, folder):
    """The checkpoint's bytes."""
    command = [str(args.pal), "train", "--config", config, "--steps", str(args.updates)]
    for option in [*options, "train.accumulate=4", "train.reduction=ordered", "device.threads=1"]:
        command += ["--set", option]
    if ranks > 1:
        command = ["mpirun", "--oversubscribe", "-n", str(ranks), *command]
    out = pathlib.Path(folder) / "run"
    env = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
           "OMP_WAIT_POLICY": "passive"}
    done = subprocess.run([*command, "--out", str(out)], cwd=ROOT, env=env, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        sys.exit(" ".join(command) + "\n" + done.stdout[-2000:])
    return (out / "last.safetensors").read_bytes()


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", nargs="+", default=CONFIGS)
    parser.add_argument("--ranks", default="2,4", help="numbers of ranks, each a part of 4")
    parser.add_argument("--updates", type=int, default=20)
    parser.add_argument("--pal", type=pathlib.Path, default=ROOT / "build/pal")
    args = parser.parse_args()
    args.pal = args.pal.resolve()
    counts = [int(n) for n in args.ranks.split(",")]
    differing = 0
    for config in args.config:
        for variant, options in VARIANTS.items():
            cells = []
            with tempfile.TemporaryDirectory() as folder:
                alone = train(args, config, 1, options, folder)
            for level in LEVELS:
                for ranks in counts:
                    with tempfile.TemporaryDirectory() as folder:
                        same = alone == train(args, config, ranks,
                                              [*options, f"train.shard={level}"], folder)
                    differing += not same
                    cells.append(f"{level} {ranks}: {'same' if same else 'DIFFERS'}")
            print(f"{config} {variant} ({len(alone)} bytes): " + ", ".join(cells), flush=True)
    print(f"{differing} differ")
    return differing > 0


if __name__ == "__main__":
    sys.exit(main())
