"""Scripts of this folder, one after the other in one process, which imports PyTorch once.

Reads a case a line, a JSON list of a script and its options, and answers each with a line as soon as it
is done: {"result": what the script printed}, or {"error": why not}. It goes on behind a case that
fails; with "ends" in the answer it does not, since the card's error or memory would stay.

    echo '["pytorch_bert.py", "--device", "cuda"]' | python3 bench/compare/pytorch_cases.py
"""
import contextlib
import gc
import io
import json
import os
import pathlib
import runpy
import sys

import torch

HERE = pathlib.Path(__file__).resolve().parent
LEAST_LEFT = 1 << 30  # bytes of the card that somebody else might want


def printed(case):
    """The last line that a script prints, an object."""
    script, *options = case
    out = io.StringIO()
    sys.argv = [script, *map(str, options)]
    with contextlib.redirect_stdout(out):
        runpy.run_path(str(HERE / script), run_name="__main__")
    return json.loads(out.getvalue().splitlines()[-1])


def forget():
    """Gives back what a case has left behind; true where some of it stays."""
    if "torch._dynamo" in sys.modules:
        torch._dynamo.reset()
    gc.collect()
    if not torch.cuda.is_initialized():
        return False
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    return torch.cuda.memory_reserved() > LEAST_LEFT


def answer_of(line):
    try:
        answer = {"result": printed(json.loads(line))}
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001: a script may also exit
        said = str(error).strip().splitlines() or [""]
        answer = {"error": f"{type(error).__name__}: {said[0]}"}
    try:
        ends = forget()
    except Exception:  # noqa: BLE001: the card is at fault, and stays so
        ends = True
    return answer | ({"ends": True} if ends else {})


def main():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # nothing else comes between the answers
    for line in sys.stdin:
        answer = answer_of(line)
        print(json.dumps(answer), file=answers, flush=True)
        if "ends" in answer:
            sys.exit(1)


if __name__ == "__main__":
    main()
