# Ten training steps of the zoo's image networks by torchvision's own models, an eighth as wide, and
# the loss afterwards in evaluation (which reads the running statistics): zoo_steps.json.
#
#   python make_zoo_steps.py
#
# torch 2.15, torchvision 0.29, CPU, in double precision. Weights, images and labels are not stored:
# number() below makes them, here and in tests/models/zoo_golden_test.cc, in the framework's order of
# axes. The shifts of norms are near one: about zero, relu leaves channels of so small a batch with
# hardly a pixel, and rounding grows a thousandfold at every step (in PyTorch's f32 as well).
import json
import pathlib

import numpy as np
import torch
from torch import nn

CLASSES, BATCH, STEPS, MOMENTUM = 5, 8, 10, 0.9
SCALE = 8


def wide(channels):
    return channels if channels == 3 else max(1, channels // SCALE)


class Conv2d(nn.Conv2d):
    def __init__(self, in_channels, out_channels, *args, groups=1, **kwargs):
        groups = groups if groups == 1 else wide(groups)
        super().__init__(wide(in_channels), wide(out_channels), *args, groups=groups, **kwargs)


class Conv3d(nn.Conv3d):
    def __init__(self, in_channels, out_channels, *args, **kwargs):
        super().__init__(wide(in_channels), wide(out_channels), *args, **kwargs)


class Linear(nn.Linear):
    def __init__(self, c, o, **kwargs):
        c = {256 * 36: 256, 512 * 49: 512}.get(c, c)  # of images that are one pixel by then
        super().__init__(wide(c), o if o == CLASSES else wide(o), **kwargs)


class BatchNorm2d(nn.BatchNorm2d):
    def __init__(self, c, *args, **kwargs):
        super().__init__(wide(c), *args, **kwargs)


class BatchNorm3d(nn.BatchNorm3d):
    def __init__(self, c, *args, **kwargs):
        super().__init__(wide(c), *args, **kwargs)


def adaptive(size):
    return nn.Identity() if size in ((6, 6), (7, 7)) else Adaptive(size)


Adaptive = nn.AdaptiveAvgPool2d
nn.AdaptiveAvgPool2d = adaptive
for layer in (Conv2d, Conv3d, Linear, BatchNorm2d, BatchNorm3d):
    setattr(nn, layer.__name__, layer)
from torchvision import models  # noqa: E402  (the layers that it is made of stand now)


def number(count, stream):
    """`count` floats in [-1, 1), by the finaliser of MurmurHash3."""
    with np.errstate(over="ignore"):
        x = np.arange(count, dtype=np.uint32) * np.uint32(2654435761)
        x += np.uint32(stream) * np.uint32(0x9E3779B9)
        for shift, factor in ((15, 0x85EBCA6B), (13, 0xC2B2AE35)):
            x ^= x >> np.uint32(shift)
            x *= np.uint32(factor)
        x ^= x >> np.uint32(16)
    return (x >> np.uint32(8)).astype(np.float32) / np.float32(1 << 23) - np.float32(1)


def ours(name, p):
    """The parameter's parts as the framework has them: (name, writable view with its axes)."""
    if "in_proj" in name:
        parts = p.view(3, -1) if p.ndim == 1 else p.view(3, p.shape[1], p.shape[1]).transpose(1, 2)
        return [(name, part) for part in parts]
    if name.endswith("pos_embedding"):
        return [(name, p[0])]
    if name.endswith("class_token"):
        return [(name, p.view(-1))]
    if p.ndim == 2:
        return [(name, p.t())]
    if p.ndim > 2:  # (O, C, K..) -> (O, K.., C)
        return [(name, p.permute(0, *range(2, p.ndim), 1))]
    return [(name, p)]


def parts_of(model):
    out = []
    for name, p in model.named_parameters():
        out += ours(name, p.data)
    # query, key and value are numbered one after the other: weight, bias, weight, bias, ..
    order = []
    i = 0
    while i < len(out):
        if "in_proj_weight" in out[i][0]:
            order += [out[i], out[i + 3], out[i + 1], out[i + 4], out[i + 2], out[i + 5]]
            i += 6
        else:
            order.append(out[i])
            i += 1
    return order


def fill(model):
    in_norm = False
    for stream, (name, p) in enumerate(parts_of(model)):
        x = torch.from_numpy(number(p.numel(), stream)).view(p.shape)
        if p.ndim == 1:
            gain = name.endswith("weight")
            p.copy_(1 + 0.25 * x if gain else in_norm + 0.1 * x)
            in_norm = gain
        else:
            in_norm = False
            fan_in = p.shape[0] if p.ndim == 2 else p.numel() // p.shape[0]
            p.copy_(x * np.float32(np.sqrt(np.float32(6.0 / fan_in))))


def batch(step, shape):
    x = torch.from_numpy(number(int(np.prod(shape)), 1000 + step)).view(shape)
    labels = torch.tensor([(i * 7 + step * 3) % CLASSES for i in range(BATCH)])
    return x.movedim(-1, 1).contiguous().double(), labels


def vit():
    global SCALE
    SCALE = 1
    model = models.VisionTransformer(image_size=32, patch_size=16, num_layers=12, num_heads=1,
                                     hidden_dim=96, mlp_dim=384, num_classes=CLASSES)
    SCALE = 8
    return model


# By name: the images' edge, the learning rate, the model.
CASES = {
    "alexnet": (64, 1e-3, lambda: models.alexnet(num_classes=CLASSES, dropout=0)),
    "efficientnet_b0": (64, 1e-3, lambda: models.efficientnet_b0(
        num_classes=CLASSES, dropout=0, stochastic_depth_prob=0)),
    "googlenet": (48, 1e-3, lambda: models.googlenet(
        num_classes=CLASSES, dropout=0, aux_logits=False, init_weights=False)),
    "inception_v3": (107, 3e-4, lambda: models.inception_v3(
        num_classes=CLASSES, dropout=0, aux_logits=False, init_weights=False)),
    "mnasnet": (64, 1e-3, lambda: models.mnasnet1_0(num_classes=CLASSES, dropout=0)),
    "mobilenet_v2": (64, 1e-3, lambda: models.mobilenet_v2(num_classes=CLASSES, dropout=0)),
    "resnet3d_18": (32, 1e-3, lambda: models.video.r3d_18(num_classes=CLASSES)),
    "resnext50": (64, 1e-3, lambda: models.resnext50_32x4d(num_classes=CLASSES)),
    "vgg16": (32, 5e-4, lambda: models.vgg16(num_classes=CLASSES, dropout=0, init_weights=False)),
    "vit_b16": (32, 1e-3, vit),
}


def run(name):
    edge, lr, make = CASES[name]
    torch.manual_seed(0)
    model = make()
    with torch.no_grad():
        fill(model)
    model.double()
    shape = (BATCH, 16, edge, edge, 3) if "3d" in name else (BATCH, edge, edge, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=MOMENTUM)
    losses = []
    model.train()
    for step in range(STEPS):
        x, labels = batch(step, shape)
        loss = nn.functional.cross_entropy(model(x), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    with torch.no_grad():
        x, labels = batch(0, shape)
        after = nn.functional.cross_entropy(model(x), labels).item()
    print(name, losses, after, flush=True)
    return {"network": name, "edge": edge, "lr": lr, "losses": losses, "evaluated": after}


torch.use_deterministic_algorithms(True)
torch.set_num_threads(1)
out = {"classes": CLASSES, "batch": BATCH, "momentum": MOMENTUM, "width": 1 / SCALE,
       "cases": [run(name) for name in CASES]}
path = pathlib.Path(__file__).with_name("zoo_steps.json")
path.write_text(json.dumps(out, indent=1) + "\n")
