"""Makes speech_steps.json and speech_steps.safetensors: PyTorch's ten steps of Deep Speech 2 for
speech_golden_test.cc.

    python make_speech_steps.py

Needs torch, numpy and safetensors. The model is bench/compare/pytorch_deepspeech2.py, in f64; batches and
weights are drawn here, the weights under our names and shapes. Utterances are of different lengths, one
has no labels, and one is too short for its transcript.
"""
import json
import pathlib
import sys

import numpy as np
import torch
from safetensors.numpy import save_file

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2] / "bench" / "compare"))
from pytorch_deepspeech2 import DeepSpeech2, train_step  # noqa: E402

BINS, LABELS, CHANNELS, HIDDEN = 9, 6, 3, 5
CONVS = ((5, 5, 2, 2), (3, 3, 1, 2))
STEPS, B, F, L = 10, 4, 24, 5

# name, model options under the configuration's names, train options.
CASES = [
    ("gru", {}, {}),
    ("lstm", {"cell": "lstm"}, {"clip_norm": 5.0}),
    ("concat", {"directions": "concat", "fully_connected": 7},
     {"optimizer": "momentum", "lr": 0.005, "clip_norm": 5.0}),
]


def batches(rng):
    frames = rng.integers(14, F + 1, (STEPS, B)).astype(np.int32)
    frames[:, 0] = F
    lengths = rng.integers(1, L + 1, (STEPS, B)).astype(np.int32)
    lengths[2, 1] = 0
    labels = rng.integers(1, LABELS, (STEPS, L, B)).astype(np.int32)
    frames[3, 2], lengths[3, 2], labels[3, :, 2] = 5, 5, 2  # impossible
    features = rng.normal(size=(STEPS, B, F, BINS)).astype(np.float32)
    for s in range(STEPS):
        for b in range(B):
            features[s, b, frames[s, b]:] = 0
    return {"features": features, "frames": frames, "labels": labels, "label_lengths": lengths}


def places(model, cell):
    """Our name of each of PyTorch's parameters and running statistics, and how to turn ours to theirs."""
    same, matrix = (lambda x: x), (lambda x: np.ascontiguousarray(x.T))
    kernel = lambda x: np.ascontiguousarray(np.moveaxis(x, 3, 1))  # (O,KH,KW,C) -> (O,C,KH,KW)
    out = {}

    def norm(theirs, ours):
        for a, b in (("weight", "gain"), ("bias", "shift"), ("running_mean", "running_mean"),
                     ("running_var", "running_variance")):
            out[f"{theirs}.{a}"] = (f"{ours}/{b}", same)

    for i in range(len(model.convs)):
        out[f"convs.{i}.weight"] = (f"conv{i}/w", kernel)
        norm(f"conv_norms.{i}.norm", f"conv{i}")
    for i in range(len(model.rnns)):
        for suffix, way in (("", "forward"), ("_reverse", "backward")):
            out[f"rnns.{i}.weight_ih_l0{suffix}"] = (f"rnn{i}/{way}/wx", matrix)
            out[f"rnns.{i}.weight_hh_l0{suffix}"] = (f"rnn{i}/{way}/wh", matrix)
            out[f"rnns.{i}.bias_ih_l0{suffix}"] = (f"rnn{i}/{way}/bias", same)
            if cell == "gru":
                out[f"rnns.{i}.bias_hh_l0{suffix}"] = (f"rnn{i}/{way}/bias_h", same)
        last = i + 1 == len(model.rnns)
        norm(f"norms.{i}", "output" if last else f"rnn{i + 1}")
    if model.fully_connected is not None:
        out["fully_connected.weight"] = ("output/fully_connected/w", matrix)
        out["fully_connected.bias"] = ("output/fully_connected/bias", same)
    out["output.weight"], out["output.bias"] = ("output/w", matrix), ("output/bias", same)
    return out


def draw(name, shape):
    """Depends on name and shape alone, so that the cases share most weights."""
    if name.endswith("running_mean"):
        return np.zeros(shape, np.float32)
    if name.endswith("running_variance"):
        return np.ones(shape, np.float32)
    seed = 11 + sum((i + 1) * b for i, b in enumerate(f"{name}{shape}".encode()))
    x = np.random.default_rng(seed).normal(size=shape)
    return ((1 + 0.2 * x) if name.endswith("gain") else 0.4 * x).astype(np.float32)


def run(options, train, data):
    cell = options.get("cell", "gru")
    model = DeepSpeech2(bins=BINS, labels=LABELS, convs=CONVS, channels=CHANNELS, layers=2,
                        hidden=HIDDEN, **options).double()
    tensors = dict(model.named_parameters()) | {
        k: v for k, v in model.named_buffers() if "running" in k}
    names = places(model, cell)
    frozen = {k for k, v in model.named_parameters() if not v.requires_grad}
    assert tensors.keys() - frozen == names.keys(), (tensors.keys() - frozen) ^ names.keys()
    initial = {}
    with torch.no_grad():
        for theirs, (ours, turn) in names.items():
            shape = tuple(tensors[theirs].shape)
            if len(shape) == 4:
                shape = (shape[0], shape[2], shape[3], shape[1])
            elif len(shape) == 2:
                shape = shape[::-1]
            initial[ours] = draw(ours, shape)
            tensors[theirs].copy_(torch.from_numpy(turn(initial[ours])))
    parameters = [p for p in model.parameters() if p.requires_grad]
    if train.get("optimizer") == "momentum":
        optimizer = torch.optim.SGD(parameters, lr=train["lr"], momentum=0.9)
    else:
        optimizer = torch.optim.Adam(parameters, lr=train.get("lr", 0.01), eps=1e-4)
    losses = []
    for batch in data:
        features, frames, labels, lengths = (torch.from_numpy(batch[k]) for k in (
            "features", "frames", "labels", "label_lengths"))
        losses.append(float(train_step(
            model, optimizer, (features.double(), frames.long(), labels.long().T, lengths.long()),
            clip_norm=train.get("clip_norm"))))
    final = {}
    for theirs, (ours, _) in names.items():
        value = tensors[theirs].detach().numpy()
        if value.ndim == 4:
            value = np.moveaxis(value, 1, 3)
        elif value.ndim == 2:
            value = value.T
        final[ours] = np.ascontiguousarray(value).astype(np.float32)
    return losses, initial, final


def main():
    torch.set_num_threads(1)
    stacked = batches(np.random.default_rng(5))
    data = [{k: v[s] for k, v in stacked.items()} for s in range(STEPS)]
    tensors, cases = {f"batch/{k}": v for k, v in stacked.items()}, []
    for name, options, train in CASES:
        sets = [f"model.{k}={v}" for k, v in options.items()]
        sets += [f"train.{k}={v}" for k, v in train.items()]
        losses, initial, final = run(options, train, data)
        for key, value in initial.items():
            tensors[f"initial/{key}:{'x'.join(map(str, value.shape))}"] = value
            tensors[f"final/{name}/{key}"] = final[key]
        cases.append({"name": name, "set": sets, "losses": losses})
        print(name, " ".join(f"{x:.5f}" for x in losses))
    save_file(tensors, HERE / "speech_steps.safetensors")
    (HERE / "speech_steps.safetensors").chmod(0o644)
    golden = {"made_by": f"make_speech_steps.py, PyTorch {torch.__version__.split('+')[0]}",
              "cases": cases}
    (HERE / "speech_steps.json").write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()
