"""The residual networks of models/resnet.h in PyTorch, as its users would write them.

It serves two ends: it times training steps beside ours (bench/compare/README.md), and
tests/train/golden/make_resnet_steps.py takes golden values from it. Run by itself it times training
steps and prints one JSON object.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F

import timing

IMAGENET = {18: (False, (2, 2, 2, 2)), 34: (False, (3, 4, 6, 3)), 50: (True, (3, 4, 6, 3)),
            101: (True, (3, 4, 23, 3)), 152: (True, (3, 8, 36, 3)), 200: (True, (3, 24, 36, 3))}


def conv(inputs, outputs, kernel, stride=1):
    return nn.Conv2d(inputs, outputs, kernel, stride, padding=(kernel - 1) // 2, bias=False)


class Subsample(nn.Module):
    """Every other pixel, and channels of zeros: the shortcut without parameters."""

    def __init__(self, stride, added):
        super().__init__()
        self.stride, self.added = stride, added

    def forward(self, x):
        return F.pad(x[:, :, ::self.stride, ::self.stride], (0, 0, 0, 0, 0, self.added))


class Block(nn.Module):
    def __init__(self, inputs, width, stride, bottleneck, version, identity):
        super().__init__()
        self.version, self.bottleneck = version, bottleneck
        outputs = 4 * width if bottleneck else width
        shape = ([(inputs, width, 1, 1), (width, width, 3, stride), (width, outputs, 1, 1)]
                 if bottleneck else [(inputs, width, 3, stride), (width, outputs, 3, 1)])
        for i, (a, b, kernel, s) in enumerate(shape, 1):
            setattr(self, f"conv{i}", conv(a, b, kernel, s))
            setattr(self, f"bn{i}", nn.BatchNorm2d(a if version == "v2" else b))
        self.count = len(shape)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            if identity:
                self.downsample = Subsample(stride, outputs - inputs)
            elif version == "v2":
                self.downsample = nn.Sequential(conv(inputs, outputs, 1, stride))
            else:
                self.downsample = nn.Sequential(conv(inputs, outputs, 1, stride),
                                                nn.BatchNorm2d(outputs))

    def forward(self, x):
        y, other = x, x
        for i in range(1, self.count + 1):
            c, norm = getattr(self, f"conv{i}"), getattr(self, f"bn{i}")
            if self.version == "v2":
                y = F.relu(norm(y))
                if i == 1 and isinstance(self.downsample, nn.Sequential):
                    other = self.downsample(y)
                y = c(y)
            else:
                y = norm(c(y))
                if i < self.count:
                    y = F.relu(y)
        if self.version == "v2":
            return y + (self.downsample(x) if isinstance(self.downsample, Subsample) else other)
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    def __init__(self, depth=50, family="imagenet", version="v1.5", shortcut="projection",
                 channels=3, classes=1000, width=None):
        super().__init__()
        self.cifar, self.version = family == "cifar", version
        if self.cifar:
            bottleneck, blocks = False, ((depth - 2) // 6,) * 3
        else:
            bottleneck, blocks = IMAGENET[depth]
        width = width or (16 if self.cifar else 64)
        self.conv1 = (conv(channels, width, 3) if self.cifar
                      else nn.Conv2d(channels, width, 7, 2, padding=3, bias=False))
        if not (self.cifar and version == "v2"):
            self.bn1 = nn.BatchNorm2d(width)
        inputs = width
        for stage, number in enumerate(blocks):
            layers = []
            for i in range(number):
                stride = 2 if i == 0 and stage > 0 else 1
                layers.append(Block(inputs, width, stride, bottleneck, version,
                                    shortcut == "identity"))
                inputs = 4 * width if bottleneck else width
            setattr(self, f"layer{stage + 1}", nn.Sequential(*layers))
            width *= 2
        self.stages = len(blocks)
        if version == "v2":
            self.norm = nn.BatchNorm2d(inputs)
        self.fc = nn.Linear(inputs, classes)

    def forward(self, x):
        x = self.conv1(x)
        if not (self.cifar and self.version == "v2"):
            x = F.relu(self.bn1(x))
        if not self.cifar:
            x = F.max_pool2d(x, 3, 2, padding=1)
        for stage in range(self.stages):
            x = getattr(self, f"layer{stage + 1}")(x)
        if self.version == "v2":
            x = F.relu(self.norm(x))
        return self.fc(x.mean(dim=(2, 3)))


def train_step(model, optimizer, images, labels, label_smoothing=0.0):
    """One update; returns the loss, a tensor."""
    optimizer.zero_grad(set_to_none=True)
    loss = F.cross_entropy(model(images), labels, label_smoothing=label_smoothing)
    loss.backward()
    optimizer.step()
    return loss.detach()


def time_images(args, model, lr, weight_decay, plain=False):
    """Times steps of SGD with momentum over random images (timing.report)."""
    model = model.to(args.device)
    images = torch.randn(args.batch, 3, args.size, args.size, device=args.device)
    if not plain:
        model = model.to(memory_format=torch.channels_last)
        images = images.contiguous(memory_format=torch.channels_last)
    labels = torch.randint(1000, (args.batch,), device=args.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9,
                                weight_decay=weight_decay, fused=True)
    timing.report(args, model, lambda m: train_step(m, optimizer, images, labels),
                  samples=args.batch, tokens=args.batch)


def main():
    parser = timing.options(__doc__, batch=8, size=224, depth=50)
    parser.add_argument("--plain", action="store_true", help="NCHW instead of channels_last")
    args = parser.parse_args()
    timing.start(args)
    time_images(args, ResNet(args.depth), lr=0.0125, weight_decay=1e-4, plain=args.plain)


if __name__ == "__main__":
    main()
