"""Makes transformer_steps.json and transformer_steps.safetensors: PyTorch's ten steps of the
Transformer for golden_test.cc.

    python make_transformer_steps.py

Needs torch, numpy and safetensors. The model is bench/compare/pytorch_transformer.py; batches are
those of make_nmt_steps.py. The weights are drawn here, under our names and shapes, gains and shifts
away from one and zero.
"""
import json
import pathlib
import sys

import numpy as np
import torch
from safetensors.numpy import load_file, save_file

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2] / "bench" / "compare"))
from pytorch_nmt import train_step  # noqa: E402
from pytorch_transformer import Transformer  # noqa: E402

SOURCE_VOCAB, TARGET_VOCAB, LAYERS = 30, 24, 2
D, FFN, HEADS = 12, 20, 3  # transformer_steps.yaml
# Adam's first step goes by a gradient's sign, and the sign of one that is zero but for rounding
# means nothing. With these weights there is none such: run() looks.
SEED = 87109

# name, model options, train options, under the configuration's names. The test runs each fused
# and unfused.
CASES = [
    ("post", {}, {}),
    ("pre", {"norm": "pre"}, {"label_smoothing": 0.1, "clip_norm": 0.5}),
    ("tied_target", {"tie_embeddings": "target", "norm": "pre"}, {"optimizer": "sgd", "lr": 0.1}),
    ("tied_all", {"tie_embeddings": "all"},
     {"label_smoothing": 0.1, "beta2": 0.98, "eps": 1e-9, "lr": 0.002}),
]


def places(norm, tie_embeddings):
    """Our name of each of PyTorch's parameters, and whether ours is its transpose."""
    out = {}
    table = "embedding" if tie_embeddings == "all" else None
    out["source_embedding.weight"] = (table or "source/embedding", False)
    out["target_embedding.weight"] = (table or "target/embedding", False)
    out["output.weight"] = (("output/w", True) if tie_embeddings == "none"
                            else (table or "target/embedding", False))
    for stack, sublayers in (("encoder", ["self_attention", "ffn"]),
                             ("decoder", ["self_attention", "source_attention", "ffn"])):
        for layer in range(LAYERS):
            for number, name in enumerate(sublayers):
                ours, theirs = f"{stack}/layer{layer}/{name}", f"{stack}.{layer}.{number}"
                out[f"{theirs}.norm.weight"] = (f"{ours}/norm/gain", False)
                out[f"{theirs}.norm.bias"] = (f"{ours}/norm/bias", False)
                if name == "ffn":
                    for place, which in ((0, "1"), (3, "2")):
                        out[f"{theirs}.sublayer.{place}.weight"] = (f"{ours}/w{which}", True)
                        out[f"{theirs}.sublayer.{place}.bias"] = (f"{ours}/b{which}", False)
                else:
                    for which in "qkvo":
                        out[f"{theirs}.sublayer.{which}.weight"] = (f"{ours}/w{which}", True)
        if norm == "pre":
            out[f"{stack}_norm.weight"] = (f"{stack}/norm/gain", False)
            out[f"{stack}_norm.bias"] = (f"{stack}/norm/bias", False)
    return out


def stacked(tensors):
    """The matrices that attention multiplies one operand with, transposed, one below the other."""
    out = dict(tensors)
    for name in tensors:
        at, _, which = name.rpartition("/")
        if which == "wk":
            parts = "qkv" if at.endswith("self_attention") else "kv"
            out[f"{at}/w{parts}"] = np.concatenate([out.pop(f"{at}/w{p}").T for p in parts])
    return out


def draw(name, shape):
    """Depends on name and shape alone, so that the cases share most weights."""
    seed = SEED + sum((i + 1) * b for i, b in enumerate(f"{name}{shape}".encode()))
    x = np.random.default_rng(seed).normal(size=shape)
    if name.endswith("gain"):
        return (1 + 0.2 * x).astype(np.float32)
    # The weights are large, so that every part of the model shows in the loss.
    return (x * (0.5 if len(shape) == 2 else 0.2)).astype(np.float32)


def run(options, train, data):
    options = {"norm": "post", "tie_embeddings": "none"} | options
    # One vocabulary for both languages where they share a table.
    shared = options["tie_embeddings"] == "all"
    vocab = (SOURCE_VOCAB, SOURCE_VOCAB if shared else TARGET_VOCAB)
    model = Transformer(*vocab, D, FFN, HEADS, LAYERS, LAYERS, dropout=0.0, **options)
    names = places(**options)
    parameters = dict(model.named_parameters(remove_duplicate=False))
    assert parameters.keys() == names.keys(), parameters.keys() ^ names.keys()
    initial = {}
    with torch.no_grad():
        for theirs, (ours, transposed) in names.items():
            p = parameters[theirs]
            shape = tuple(p.shape[::-1] if transposed else p.shape)
            initial[ours] = draw(ours, shape)
            p.copy_(torch.from_numpy(initial[ours].T if transposed else initial[ours]))
    if train.get("optimizer") == "sgd":
        optimizer = torch.optim.SGD(model.parameters(), lr=train["lr"])
    else:
        optimizer = torch.optim.Adam(model.parameters(), lr=train.get("lr", 0.01),
                                     betas=(0.9, train.get("beta2", 0.999)),
                                     eps=train.get("eps", 1e-8))
    rest = {k: train[k] for k in ("label_smoothing", "clip_norm") if k in train}
    losses = []
    for batch in data:
        tensors = [torch.from_numpy(batch[k]).long()
                   for k in ("source", "source_lengths", "target_in", "target_out")]
        losses.append(float(train_step(model, optimizer, tensors, **rest)))
        if len(losses) == 1 and isinstance(optimizer, torch.optim.Adam):
            for theirs, p in model.named_parameters():
                least = p.grad[p.grad != 0].abs().min() / p.grad.abs().max()
                assert least > 5e-6, f"{theirs}: a gradient of {least:g} of the largest"
    final = {}
    for theirs, (ours, transposed) in names.items():
        value = parameters[theirs].detach().numpy()
        final[ours] = np.ascontiguousarray(value.T if transposed else value)
    return losses, stacked(initial), stacked(final)


def main():
    torch.set_num_threads(1)
    batches = {k: v for k, v in load_file(HERE / "nmt_steps.safetensors").items()
               if k.startswith("batch/")}
    steps = len(batches["batch/source"])
    data = [{k.removeprefix("batch/"): v[s] for k, v in batches.items()} for s in range(steps)]
    tensors, cases = dict(batches), []
    for name, options, train in CASES:
        sets = [f"model.{k}={v}" for k, v in options.items()]
        sets += [f"train.{k}={v}" for k, v in train.items()]
        if options.get("tie_embeddings") == "all":
            sets += ["data.shared_vocabulary=true", "data.target_vocab_size=null"]
        losses, initial, final = run(options, train, data)
        for key, value in initial.items():
            tensors[f"initial/{key}:{'x'.join(map(str, value.shape))}"] = value
            tensors[f"final/{name}/{key}"] = final[key]
        cases.append({"name": name, "set": sets, "losses": losses})
        print(name, " ".join(f"{x:.5f}" for x in losses))
    save_file(tensors, HERE / "transformer_steps.safetensors")
    (HERE / "transformer_steps.safetensors").chmod(0o644)
    inputs = 14695981039346656037  # FNV-1a, in the order of the names
    for key in sorted(tensors):
        if not key.startswith("final/"):
            for byte in np.ascontiguousarray(tensors[key]).tobytes():
                inputs = (inputs ^ byte) * 1099511628211 % 2**64
    golden = {"made_by": f"make_transformer_steps.py, PyTorch {torch.__version__.split('+')[0]}",
              "config": "transformer_steps.yaml", "inputs_fnv1a": f"{inputs:016x}", "cases": cases}
    (HERE / "transformer_steps.json").write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()
