"""Makes nmt_steps.json and nmt_steps.safetensors: PyTorch's ten steps for golden_test.cc.

    python make_nmt_steps.py PAL      # PAL: the program, which draws the initial weights

Needs torch, numpy and safetensors. The model is bench/compare/pytorch_nmt.py, loaded with the
weights that `pal train` draws for nmt_steps.yaml (a step with a learning rate of zero leaves them
as drawn).
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import torch
from safetensors.numpy import load_file, save_file

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2] / "bench" / "compare"))
from pytorch_nmt import Nmt, train_step  # noqa: E402

SOURCE_VOCAB, TARGET_VOCAB, S, T, B, STEPS = 30, 24, 7, 6, 4, 10
BASE = {"hidden": 12, "embedding": 10, "attention_size": 8}

# name, model options, train options, under the configuration's names. The test runs each fused
# and unfused.
CASES = [
    ("mlp", {}, {"clip_value": 0.01}),
    ("mlp_no_feeding", {"input_feeding": False, "reverse_source": True}, {"clip_norm": 0.3}),
    ("luong", {"attention": "scaled_luong", "attention_size": 12},
     {"label_smoothing": 0.1, "clip_norm": 0.3}),
    ("luong_no_feeding", {"attention": "scaled_luong", "input_feeding": False,
                          "bidirectional": False}, {"optimizer": "sgd", "lr": 0.5}),
    ("tied_smoothed", {"tie_embeddings": "target", "embedding": 12, "encoder_layers": 1,
                       "decoder_layers": 1}, {"label_smoothing": 0.1, "weight_decay": 0.01}),
]


def settings(model, train):
    values = {f"model.{k}": v for k, v in model.items()}
    values |= {f"train.{k}": v for k, v in train.items()}
    return [f"{k}={json.dumps(v) if isinstance(v, bool) else v}" for k, v in values.items()]


def initial_weights(pal, sets):
    """The weights as the program draws them."""
    with tempfile.TemporaryDirectory() as folder:
        command = [pal, "train", "--config", HERE / "nmt_steps.yaml", "--out", f"{folder}/run",
                   "--steps", "1"]
        for s in sets + ["train.lr=0", "train.optimizer=sgd"]:
            command += ["--set", s]
        subprocess.run(command, check=True, capture_output=True)
        state = load_file(f"{folder}/run/last.safetensors")
    return {k: v for k, v in state.items() if k.split("/")[0] in ("encoder", "decoder", "source",
                                                                   "target", "output", "embedding")}


def batches():
    """(S, B) and (T, B) words, padded with 0."""
    draw = np.random.default_rng(17)
    out = []
    for step in range(STEPS):
        lengths = draw.integers(1, S + 1, B)
        target_lengths = draw.integers(1, T + 1, B)
        lengths[0], target_lengths[0] = S, T
        source, before, after = (np.zeros((n, B), np.int32) for n in (S, T, T))
        for b in range(B):
            words = draw.integers(4, TARGET_VOCAB, target_lengths[b] - 1)
            source[:lengths[b], b] = draw.integers(4, SOURCE_VOCAB, lengths[b])
            before[:target_lengths[b], b] = np.concatenate([[2], words])
            after[:target_lengths[b], b] = np.concatenate([words, [3]])
        out.append({"source": source, "source_lengths": lengths.astype(np.int32),
                    "target_in": before, "target_out": after})
    return out


def to_torch(ours, layers):
    """PyTorch's parameters given our weights by name; ours are (in, out), PyTorch's (out, in)."""
    w = {k: torch.from_numpy(np.array(v)) for k, v in ours.items()}
    out = {"source_embedding.weight": w["source/embedding"],
           "target_embedding.weight": w["target/embedding"],
           "key.weight": w["encoder/attention/wk"].T,
           "query.weight": w["decoder/attention/wq"].T,
           "combine.weight": torch.cat([w["decoder/attention/wc"], w["decoder/attention/wh"]]).T,
           "output.weight": w["output/w"].T if "output/w" in w else w["target/embedding"],
           "output.bias": w["output/bias"]}
    for name in ("v", "g"):
        if f"decoder/attention/{name}" in w:
            out[name] = w[f"decoder/attention/{name}"]
    for layer in range(layers[0]):
        for way, end in (("", ""), ("/forward", ""), ("/backward", "_reverse")):
            scope = f"encoder/rnn{layer}{way}"
            if f"{scope}/wx" in w:
                at = f"encoder.{layer}."
                out[f"{at}weight_ih_l0{end}"] = w[f"{scope}/wx"].T
                out[f"{at}weight_hh_l0{end}"] = w[f"{scope}/wh"].T
                out[f"{at}bias_ih_l0{end}"] = w[f"{scope}/bias"]
    for layer in range(layers[1]):
        for state in "hc":
            out[f"init_{state}.{layer}.weight"] = w[f"decoder/init/w{state}{layer}"].T
            out[f"init_{state}.{layer}.bias"] = w[f"decoder/init/b{state}{layer}"]
        scope = "decoder/embed/rnn0" if layer == 0 else f"decoder/rnn{layer}"
        wx = [w[f"{scope}/wx"]]
        if layer == 0 and "decoder/rnn0/wf" in w:
            wx.append(w["decoder/rnn0/wf"])
        out[f"decoder.{layer}.weight_ih"] = torch.cat(wx).T
        out[f"decoder.{layer}.weight_hh"] = w[f"decoder/rnn{layer}/wh"].T
        out[f"decoder.{layer}.bias_ih"] = w[f"{scope}/bias"]
    return out


def to_ours(parameters, names, layers):
    """The inverse of to_torch: each of our weights is filled with its elements' own numbers, sent
    through to_torch, and found again where those numbers arrive."""
    sizes = {k: int(np.prod(v)) for k, v in names.items()}
    first = dict(zip(sizes, np.cumsum([0, *sizes.values()])))
    numbers = {k: (np.arange(sizes[k], dtype=np.float64) + first[k]).reshape(v)
               for k, v in names.items()}
    flat = np.full(sum(sizes.values()), np.nan, np.float32)
    for name, places in to_torch(numbers, layers).items():
        flat[places.numpy().astype(np.int64)] = parameters[name].detach().numpy()
    assert not np.isnan(flat).any(), "a weight of ours has no place in the PyTorch model"
    return {k: flat[first[k]:first[k] + sizes[k]].reshape(v) for k, v in names.items()}


def run(initial, model_options, train, data):
    o = BASE | model_options
    o["tie_target"] = o.pop("tie_embeddings", None) == "target"
    model = Nmt(SOURCE_VOCAB, TARGET_VOCAB, **o)
    layers = (len(model.encoder), len(model.decoder))
    parameters = dict(model.named_parameters(remove_duplicate=False))
    trained = {k for k, v in parameters.items() if v.requires_grad}
    values = to_torch(initial, layers)
    assert values.keys() == trained, values.keys() ^ trained
    with torch.no_grad():
        for name, value in values.items():
            parameters[name].copy_(value)  # shapes must be equal, bar broadcasting
            assert parameters[name].shape == value.shape, name
    kind = torch.optim.SGD if train.get("optimizer") == "sgd" else torch.optim.Adam
    optimizer = kind([p for p in model.parameters() if p.requires_grad], lr=train.get("lr", 0.01),
                     weight_decay=train.get("weight_decay", 0))
    rest = {k: train[k] for k in ("label_smoothing", "clip_value", "clip_norm") if k in train}
    losses = []
    for batch in data:
        source, lengths, before, after = (torch.from_numpy(batch[k]).long() for k in (
            "source", "source_lengths", "target_in", "target_out"))
        losses.append(float(train_step(model, optimizer, (source, lengths, before, after), **rest)))
    shapes = {k: v.shape for k, v in initial.items()}
    return losses, to_ours(parameters, shapes, layers)


def main():
    torch.set_num_threads(1)
    data = batches()
    tensors, cases, drawn = {}, [], {}
    for key in data[0]:
        tensors[f"batch/{key}"] = np.stack([batch[key] for batch in data])
    for name, model_options, train in CASES:
        sets = settings(model_options, train)
        initial = initial_weights(sys.argv[1], sets)
        losses, final = run(initial, model_options, train, data)
        for key, value in initial.items():
            # A slot's draw depends on its name and shape alone, so most are the same in every case.
            same = drawn.setdefault((key, value.shape), value)
            assert np.array_equal(same, value), key
            shape = "x".join(map(str, value.shape))
            tensors[f"initial/{key}:{shape}"] = value
            tensors[f"final/{name}/{key}"] = final[key]
        cases.append({"name": name, "set": sets, "losses": losses})
        print(name, " ".join(f"{x:.5f}" for x in losses))
    save_file(tensors, HERE / "nmt_steps.safetensors")
    (HERE / "nmt_steps.safetensors").chmod(0o644)
    inputs = 14695981039346656037  # FNV-1a, in the order of the names
    for key in sorted(tensors):
        if not key.startswith("final/"):
            for byte in np.ascontiguousarray(tensors[key]).tobytes():
                inputs = (inputs ^ byte) * 1099511628211 % 2**64
    golden = {"made_by": f"make_nmt_steps.py, PyTorch {torch.__version__.split('+')[0]}",
              "inputs_fnv1a": f"{inputs:016x}", "cases": cases}
    (HERE / "nmt_steps.json").write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()
