"""The parts that say whether what the card computes is right. None of them is timed."""
import functools
import hashlib
import json
import os
import re
import shutil
import subprocess

from gpu_check import shards
from gpu_check.processes import ROOT, together
from gpu_check.report import one_line
from gpu_check.visit import Skipped

# What is tried first: what a manual says of a mask's bits, then whole steps and the rest that is known
# from manuals alone. A process each.
FIRST = ["*GivesTheBitsOfTheCpu/matmul_relu_grad",
         "Steps.*:SetOnGpu.*:*GivesTheBitsOfTheCpu/matmul*:*GivesTheBitsOfTheCpu/attention*"]
# What compute-sanitizer runs, which is slow: kernels that share memory among threads.
SANITIZED = ":".join(f"*GivesTheBitsOfTheCpu/{op}" for op in [
    "attention", "attention_grad", "ctc_loss", "cross_entropy", "embedding_grad", "batch_norm",
    "layer_norm_grad", "masked_softmax", "sum_leading", "lstm_cell"])
SANITIZER_SECONDS = 90
SHARDS = 8  # that the tests are divided among, all at once
RECORDED = ["nmt_small", "transformer_small", "resnet_small", "deepspeech2_small"]
# Losses of the same step on the CPU and the GPU, relative: products add in other orders.
LOSS_TOLERANCE = 1e-3
NOT_RECORDED = "is not recorded"  # says pal train of a step


def listed(visit, *tests):
    return shards.listed(visit.run([visit.program("test_gpu"), "--gtest_list_tests",
                                    *(f"--gtest_filter={x}" for x in tests)]))


def any_ran(visit, rows):
    """Whether a test ran. Where there is no card none does, and that is why."""
    if any(row["run"] for row in rows):
        return True
    why = next((row["the first because"] for row in rows if "the first because" in row), "")
    if not visit.on_a_card() and why:
        raise Skipped(why)
    visit.fail("no test ran: " + (why or "there was none"))
    return False


def first(visit):
    """Whole steps, and what only manuals vouch for, before anything that takes long."""
    rows = [shards.run(visit, f"first {n}", listed(visit, tests))
            for n, tests in enumerate(FIRST, 1)]
    return {"ok": any_ran(visit, rows) and all(row["run"] for row in rows)}


def tests(visit):
    """All tests of kernels and steps, in processes that run at the same time."""
    names = listed(visit)
    rows = together([functools.partial(shards.run, visit, f"{n + 1} of {SHARDS}", names[n::SHARDS])
                     for n in range(SHARDS)])
    return {"ok": any_ran(visit, rows)}


def ranks(visit):
    """NCCL with one rank: every call, queued, recorded, replayed; what it takes of the card."""
    row = shards.run(visit, "ranks", listed(visit, "OneRank.*"))
    if row["run"] == 0:
        raise Skipped("there is no NCCL (or no GPU)")


def named(visit, config):
    """What pal calls a configuration."""
    return visit.args.configs / f"{config}.yaml" if visit.args.configs else config


def train(visit, config, device, *sets, steps=10):
    """Losses of so many steps, the last checkpoint's bytes, hashed, and what was not recorded."""
    folder = visit.folder / re.sub(r"\W+", "_", "-".join([config, device, *sets]))
    shutil.rmtree(folder, ignore_errors=True)
    command = [visit.program("pal"), "train", "--config", named(visit, config), "--steps", steps,
               "--out", folder, "--device", device, "--set", "train.log_every=1"]
    for s in sets:
        command += ["--set", s]
    done = visit.run_to_its_end(command)
    said = done.stderr.strip().splitlines()
    if done.returncode == 2:
        raise Skipped(said[-1])
    if done.returncode != 0:
        visit.keep(" ".join(map(str, command)), done.stderr)
        raise RuntimeError("\n".join(said[-3:]))
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    losses = [r["loss"] for r in rows if r["event"] == "step"]
    weights = hashlib.sha256((folder / "last.safetensors").read_bytes()).hexdigest()
    shutil.rmtree(folder)
    return losses, weights, [line for line in said if NOT_RECORDED in line]


def graph_row(visit, config):
    recorded, plain = [train(visit, config, visit.args.device, f"device.graphs={g}", steps=20)
                       for g in ("true", "false")]
    row = visit.add({"config": config, "same losses": recorded[0] == plain[0],
                     "same checkpoint": recorded[1] == plain[1], "recorded": not recorded[2]})
    for line in recorded[2]:
        visit.fail(f"{config}: {one_line(line)}")
    if not (row["same losses"] and row["same checkpoint"]):
        visit.fail(f"{config}: recorded steps differ from plain ones")


def graphs(visit):
    """A recorded step is a step: the same losses and the same checkpoint, bit for bit."""
    together([functools.partial(visit.tried, c, functools.partial(graph_row, visit, c))
              for c in RECORDED])


def sanitized(visit, tool, which):
    """Whether a tool has nothing to say; None: it was not done in time."""
    try:
        done = visit.run_to_its_end([tool, "--tool", which, "--error-exitcode", "9",
                                     visit.program("test_gpu"), f"--gtest_filter={SANITIZED}"],
                                    SANITIZER_SECONDS)
    except subprocess.TimeoutExpired:
        visit.add({"tool": which, "says": "not done in the time that it was given"})
        return None
    if done.returncode != 0:
        visit.keep(which, done.stdout + done.stderr)
    lines = [x for x in done.stdout.splitlines() if "SUMMARY" in x]
    visit.add({"tool": which, "exit code": done.returncode,
               "says": lines[-1].strip("= ") if lines else done.stderr[-200:]})
    return done.returncode == 0


def sanitizer(visit):
    """compute-sanitizer on kernels that share memory among threads."""
    tool = shutil.which("compute-sanitizer", path=os.environ.get("PATH", "") + ":/usr/local/cuda/bin")
    if not tool:
        raise Skipped("there is no compute-sanitizer")
    tools = ["memcheck", "racecheck", "synccheck"]
    said = together([functools.partial(sanitized, visit, tool, which) for which in tools])
    late = [which for which, ok in zip(tools, said) if ok is None]
    return {"ok": False if False in said else True if any(said) else None,
            "note": "not done in time: " + ", ".join(late) if late else ""}


def models(visit):
    """Ten steps of every configuration whose data is here, CPU beside GPU."""
    rows = []
    configs = visit.args.configs or ROOT / visit.args.share / "configs"
    for file in sorted(configs.glob("*.yaml")):
        row = {"config": file.stem}
        rows.append(row)
        visit.left()
        try:
            ours, theirs = (train(visit, file.stem, d)[0] for d in ("cpu", visit.args.device))
            off = max(abs(a - b) / abs(a) for a, b in zip(ours, theirs))
            row |= {"steps": len(theirs), "first loss": ours[0], "last loss": theirs[-1],
                    "largest difference": off, "ok": off <= LOSS_TOLERANCE}
            if not row["ok"]:
                visit.fail(f"{file.stem}: losses {ours} on the CPU, {theirs} here")
        except Skipped as why:
            row["note"] = str(why)
        except Exception as error:  # noqa: BLE001
            row |= {"ok": False, "note": one_line(error)}
            visit.fail(f"{file.stem}: {one_line(error)}")
        visit.add(row)
    done = [r for r in rows if "ok" in r]
    return {"ok": bool(done) and all(r["ok"] for r in done)}
