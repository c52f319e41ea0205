"""Makes bf16_losses.json: the losses of the ten steps of make_nmt_steps.py, make_transformer_steps.py,
make_resnet_steps.py and make_speech_steps.py when PyTorch runs them under autocast to bfloat16.

    python -O make_bf16_losses.py [STEM...]  # those alone; without the assertions, which are about
                                             # gradients in f32

How far they are from those in f32 is what a step in bf16 is measured by (golden_steps.h).
"""
import json
import pathlib
import sys

import torch
from safetensors.numpy import load_file

import make_nmt_steps
import make_resnet_steps
import make_speech_steps
import make_transformer_steps

HERE = pathlib.Path(__file__).resolve().parent
STEPS = 10


def single(x):
    if isinstance(x, tuple):
        return tuple(map(single, x))
    return x.float() if isinstance(x, torch.Tensor) and x.is_floating_point() else x


def under_autocast(step):
    def run(*args, **options):
        with torch.autocast("cpu", torch.bfloat16):
            return step(*map(single, args), **options)
    return run


def nmt(tensors):
    data = [{k.removeprefix("batch/"): v[s] for k, v in tensors.items() if k.startswith("batch/")}
            for s in range(STEPS)]
    for name, model_options, train in make_nmt_steps.CASES:
        final = f"final/{name}/"
        initial = {k.removeprefix(final): tensors[
            f"initial/{k.removeprefix(final)}:{'x'.join(map(str, v.shape))}"]
            for k, v in tensors.items() if k.startswith(final)}
        yield name, make_nmt_steps.run(initial, model_options, train, data)[0]


def transformer(tensors):
    data = [{k.removeprefix("batch/"): v[s] for k, v in tensors.items() if k.startswith("batch/")}
            for s in range(STEPS)]
    for name, options, train in make_transformer_steps.CASES:
        yield name, make_transformer_steps.run(options, train, data)[0]


def resnet(tensors):
    for name, options, train, size in make_resnet_steps.CASES:
        images = tensors[f"batch/images{size}"]
        yield name, make_resnet_steps.run(options, train, images, tensors["batch/labels"])[0]


def speech(tensors):
    data = [{k.removeprefix("batch/"): v[s] for k, v in tensors.items() if k.startswith("batch/")}
            for s in range(STEPS)]
    for name, options, train in make_speech_steps.CASES:
        yield name, make_speech_steps.run(options, train, data)[0]


def main():
    torch.set_num_threads(1)
    # The references for f32 are computed in f64, which autocast would leave alone.
    torch.nn.Module.double = torch.nn.Module.float
    out = {"made_by": f"make_bf16_losses.py, PyTorch {torch.__version__.split('+')[0]}"}
    wanted = sys.argv[1:]
    if wanted:
        out = json.loads((HERE / "bf16_losses.json").read_text())
    for stem, module, cases in (("nmt_steps", make_nmt_steps, nmt),
                                ("transformer_steps", make_transformer_steps, transformer),
                                ("resnet_steps", make_resnet_steps, resnet),
                                ("speech_steps", make_speech_steps, speech)):
        if wanted and stem not in wanted:
            continue
        module.train_step = under_autocast(module.train_step)
        in_f32 = json.loads((HERE / f"{stem}.json").read_text())["cases"]
        golden = {case["name"]: case["losses"] for case in in_f32}
        out[stem] = {}
        for name, losses in cases(load_file(HERE / f"{stem}.safetensors")):
            out[stem][name] = losses
            off = max(abs(a / b - 1) for a, b in zip(losses, golden[name]))
            print(f"{stem} {name}: at most {off:.2e} from f32")
    (HERE / "bf16_losses.json").write_text(json.dumps(out, indent=1) + "\n")


if __name__ == "__main__":
    main()
