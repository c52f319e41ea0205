"""Makes resnet_steps.json and resnet_steps.safetensors: PyTorch's ten steps of residual networks for
golden_resnet_test.cc.

    python make_resnet_steps.py

Needs torch, numpy and safetensors. The model is bench/compare/pytorch_resnet.py. Images and weights
are drawn here, under our names and shapes, gains and shifts away from one and zero. All is computed in
f64: a norm over the few pixels of so small an image is steep.
"""
import json
import pathlib
import sys

import numpy as np
import torch
from safetensors.numpy import save_file

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2] / "bench" / "compare"))
from pytorch_resnet import ResNet, train_step  # noqa: E402

STEPS, BATCH, CHANNELS, CLASSES = 10, 6, 3, 5
SEED = 4711
# Of the deep ones only some of the weights that ten steps lead to are kept here.
KEPT = ("conv1", "bn1", "layer1/0", "layer3/5", "layer4/0", "norm", "fc")

# name, model options, train options, under the configuration's names; the size of an image.
CASES = [
    ("cifar", {"depth": 8, "family": "cifar", "width": 4}, {}, 8),
    ("cifar_identity", {"depth": 8, "family": "cifar", "width": 4, "shortcut": "identity"},
     {"optimizer": "nesterov", "label_smoothing": 0.1, "decay_vectors": False}, 8),
    ("cifar_v2", {"depth": 8, "family": "cifar", "width": 4, "version": "v2"}, {}, 8),
    ("bottleneck", {"depth": 50, "family": "imagenet", "width": 2},
     {"lr": 0.00085, "decay_vectors": False}, 32),
    ("bottleneck_v2", {"depth": 50, "family": "imagenet", "width": 2, "version": "v2"},
     {"lr": 0.0015}, 32),
]


def ours_of(theirs):
    return theirs.replace(".", "/")


def to_ours(theirs, value):
    """(O, I, H, W) -> (O, H, W, I); the output layer (O, I) -> (I, O)."""
    if value.ndim == 4:
        value = value.transpose(0, 2, 3, 1)
    elif value.ndim == 2:
        value = value.T
    return np.ascontiguousarray(value)


def draw(name, shape):
    """Depends on name and shape alone."""
    seed = SEED + sum((i + 1) * b for i, b in enumerate(f"{name}{shape}".encode()))
    x = np.random.default_rng(seed).normal(size=shape)
    if name.endswith("running_var"):
        return np.ones(shape, np.float32)
    if name.endswith("running_mean"):
        return np.zeros(shape, np.float32)
    if "bn3.weight" in name:  # of a deep network's blocks: else PyTorch's own f32 and f64 part ways
        return (0.1 + 0.02 * x).astype(np.float32)
    if len(shape) == 1:
        return ((1 if name.endswith("weight") else 0) + 0.2 * x).astype(np.float32)
    fan = int(np.prod(shape[1:]))
    return (x * (2 / fan) ** 0.5).astype(np.float32)


def run(options, train, images, labels):
    model = ResNet(channels=CHANNELS, classes=CLASSES, **options).double()
    state = {k: v for k, v in model.state_dict().items() if "num_batches" not in k}
    initial = {}
    with torch.no_grad():
        for theirs, value in state.items():
            drawn = draw(theirs, tuple(value.shape))
            value.copy_(torch.from_numpy(drawn))
            initial[ours_of(theirs)] = to_ours(theirs, drawn)
    decay = 1e-3
    groups = [{"params": [p for p in model.parameters() if p.ndim > 1], "weight_decay": decay},
              {"params": [p for p in model.parameters() if p.ndim <= 1],
               "weight_decay": decay if train.get("decay_vectors", True) else 0}]
    optimizer = torch.optim.SGD(groups, lr=train.get("lr", 0.05), momentum=0.9,
                                nesterov=train.get("optimizer") == "nesterov")
    losses = []
    for x, y in zip(images, labels):
        x = torch.from_numpy(x.transpose(0, 3, 1, 2).astype(np.float64) / 128 - 1)
        losses.append(float(train_step(model, optimizer, x, torch.from_numpy(y).long(),
                                       train.get("label_smoothing", 0.0))))
    final = {ours_of(k): to_ours(k, v.detach().numpy().astype(np.float32))
             for k, v in model.state_dict().items() if "num_batches" not in k}
    return losses, initial, final


def main():
    torch.set_num_threads(1)
    random = np.random.default_rng(SEED)
    tensors, cases = {}, []
    for size in sorted({c[3] for c in CASES}):
        tensors[f"batch/images{size}"] = random.integers(
            0, 256, (STEPS, BATCH, size, size, CHANNELS)).astype(np.uint8)
    tensors["batch/labels"] = random.integers(0, CLASSES, (STEPS, BATCH)).astype(np.int32)
    for name, options, train, size in CASES:
        losses, initial, final = run(options, train, tensors[f"batch/images{size}"],
                                     tensors["batch/labels"])
        for key, value in initial.items():
            tensors[f"initial/{name}/{key}"] = value
        for key, value in final.items():
            if options["depth"] > 8 and not key.startswith(KEPT):
                continue
            tensors[f"final/{name}/{key}"] = value
        sets = [f"model.{k}={v}" for k, v in options.items()]
        sets += [f"train.{k}={str(v).lower()}" for k, v in train.items()]
        cases.append({"name": name, "set": sets, "size": size, "losses": losses})
        print(name, [round(x, 4) for x in losses])
    save_file(tensors, HERE / "resnet_steps.safetensors")
    (HERE / "resnet_steps.json").write_text(
        json.dumps({"cases": cases, "torch": torch.__version__}, indent=1) + "\n")


if __name__ == "__main__":
    main()
