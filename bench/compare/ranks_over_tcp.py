#!/usr/bin/env python3
"""Bytes that two ranks exchange over TCP, by the counters of the interfaces between them.

    sudo bench/compare/ranks_over_tcp.py [--config transformer_small] [--pal build/pal] [--set K=V ...]
                                         [--per-node 2]

Two network namespaces with names of their own stand for two machines, and a pair of virtual
interfaces for the cable. mpirun starts a rank in each, told to use TCP. Each row trains twice, for
few steps and for more: the difference of what the counters say, for a step, beside what the table
of docs/ranks.md says of the configuration's weights. With several ranks on each machine sums go by
levels, and as many bytes leave a machine as with one (a library's sums are left out). Ends with 1 where they differ by more than 5 %.
Wants root, iproute2, Open MPI, and a build of this tree.
"""
import argparse
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
NODES = ("pal_a", "pal_b")
FEW, MORE = 4, 14
# Options of train, and what they send in (N - 1) / N of the weights' bytes.
ROWS = (
    (["train.reduction=ordered"], 2),
    (["train.reduction=library"], 2),
    (["train.shard=optimizer"], 2),
    (["train.exchange=bf16"], 1),
)


def must(*command):
    subprocess.run(command, check=True)


def inside(node, folder):
    return ["nsenter", f"--net=/run/netns/{node}", f"--uts={folder}/{node}"]


def build_nodes(folder, per_node):
    """Two names, two interfaces that are one cable, and how mpirun reaches the second node."""
    for node in NODES:
        must("ip", "netns", "add", node)
    must("ip", "link", "add", "veth_a", "type", "veth", "peer", "name", "veth_b")
    for number, node in enumerate(NODES, 1):
        veth = node.replace("pal", "veth")
        must("ip", "link", "set", veth, "netns", node)
        must("ip", "-n", node, "addr", "add", f"10.77.0.{number}/24", "dev", veth)
        must("ip", "-n", node, "link", "set", veth, "up")
        must("ip", "-n", node, "link", "set", "lo", "up")
        (folder / node).touch()
        must("unshare", f"--uts={folder / node}", "hostname", node.replace("_", "-"))
    agent = folder / "agent"
    agent.write_text("#!/bin/sh\nshift\nexec " + " ".join(inside(NODES[1], folder)) + ' sh -c "$*"\n')
    agent.chmod(0o755)
    (folder / "hosts").write_text(
        f"10.77.0.1 slots={per_node}\n10.77.0.2 slots={per_node}\n")


def remove_nodes(folder):
    for node in NODES:
        subprocess.run(["ip", "netns", "del", node], check=False, stderr=subprocess.DEVNULL)
        subprocess.run(["umount", folder / node], check=False, stderr=subprocess.DEVNULL)


def sent():
    """Bytes that left the first node."""
    return int(subprocess.run(["ip", "netns", "exec", NODES[0], "cat",
                               "/sys/class/net/veth_a/statistics/tx_bytes"],
                              check=True, capture_output=True, text=True).stdout)


def train(args, folder, out, steps, options):
    before = sent()
    words = [word for option in options + args.set for word in ("--set", option)]
    run = subprocess.run(
        [*inside(NODES[0], folder), "mpirun", "--allow-run-as-root", "--hostfile", folder / "hosts",
         "-np", str(2 * args.per_node), "--bind-to", "none", "--mca", "plm_rsh_agent", folder / "agent", "--mca", "pml", "ob1", "--mca", "btl",
         "tcp,self", "-x", "OMP_NUM_THREADS=1", args.pal, "train", "--config", args.config, "--steps",
         str(steps), "--set", "train.valid_every=1000000", *words, "--out", out],
        cwd=ROOT, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        sys.exit(run.stdout + run.stderr)
    return sent() - before


def weight_bytes(checkpoint):
    with open(checkpoint, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
    total = 0
    for name, tensor in header.items():
        if name != "__metadata__" and not name.startswith("optimizer/"):
            begin, end = tensor["data_offsets"]
            total += end - begin
    return total


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", default="transformer_small")
    parser.add_argument("--set", nargs="*", default=[])
    parser.add_argument("--pal", default=str(ROOT / "build" / "pal"))
    parser.add_argument("--per-node", type=int, default=1)
    args = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("namespaces want root")
    far = False
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        build_nodes(folder, args.per_node)
        try:
            print("| options | by the table, a step | by the counters | |\n|---|---|---|---|")
            for number, (options, parts) in enumerate(ROWS):
                if args.per_node > 1 and "train.reduction=library" in options:
                    continue
                few = train(args, folder, folder / f"{number}few", FEW, options)
                more = train(args, folder, folder / f"{number}more", MORE, options)
                counted = (more - few) / (MORE - FEW)
                table = parts * weight_bytes(folder / f"{number}few" / "last.safetensors") / 2
                far |= abs(counted / table - 1) > 0.05
                print(f"| `{' '.join(options)}` | {table / 1e6:.3f} MB | {counted / 1e6:.3f} MB |"
                      f" {counted / table - 1:+.1%} |", flush=True)
        finally:
            remove_nodes(folder)
    sys.exit(1 if far else 0)


if __name__ == "__main__":
    main()
