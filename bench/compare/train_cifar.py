"""Trains ResNet-20 on CIFAR's binaries in PyTorch, with the recipe of configs/resnet20_cifar10.yaml.

For an accuracy beside `pal train`'s (docs/images.md): the same network, initial distributions, crops,
mirroring, batches (the rest of an epoch that fills none is left out), SGD and steps of its rate. Only the
random numbers differ. Prints one JSON object, the accuracy that of the last weights.
"""
import argparse
import json
import time

import numpy
import torch
import torch.nn as nn
import torch.nn.functional as F

from pytorch_resnet import ResNet, train_step

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
PAD = 4


def read(paths):
    """Images in 0 to 1, N x 3 x 32 x 32, and labels."""
    records = torch.from_numpy(numpy.concatenate(
        [numpy.fromfile(path, numpy.uint8).reshape(-1, 3073) for path in paths]))
    return records[:, 1:].reshape(-1, 3, 32, 32).float() / 255, records[:, 0].long()


def normalise(images):
    mean, std = (torch.tensor(x).view(1, 3, 1, 1) for x in (MEAN, STD))
    return ((images - mean) / std).contiguous(memory_format=torch.channels_last)


def augment(images):
    """A random window of the image with a black frame, mirrored half of the time."""
    n, _, height, width = images.shape
    rows = torch.randint(2 * PAD + 1, (n, 1)) + torch.arange(height)
    columns = torch.randint(2 * PAD + 1, (n, 1)) + torch.arange(width)
    columns = torch.where(torch.rand(n, 1) < 0.5, columns.flip(1), columns)
    padded = F.pad(images, (PAD,) * 4)
    index = torch.arange(n).view(n, 1, 1)
    return padded.permute(0, 2, 3, 1)[index, rows.unsqueeze(2), columns.unsqueeze(1)].permute(
        0, 3, 1, 2)


def initialise(model):
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")


def accuracy(model, images, labels):
    model.eval()
    with torch.no_grad():
        right = sum((model(normalise(x)).argmax(1) == y).sum().item()
                    for x, y in zip(images.split(500), labels.split(500)))
    model.train()
    return right / len(labels)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--train", nargs="+", required=True, help="data_batch_*.bin")
    parser.add_argument("--test", nargs="+", required=True, help="test_batch.bin")
    parser.add_argument("--steps", type=int, default=64000)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--divide-at", type=int, nargs="+", default=[32000, 48000])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    images, labels = read(args.train)
    model = ResNet(20, "cifar", shortcut="identity", classes=10)
    initialise(model)
    model = model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=1e-4,
                                fused=True)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, args.divide_at)
    begin, order = time.perf_counter(), torch.empty(0, dtype=torch.long)
    for step in range(1, args.steps + 1):
        if len(order) < args.batch:
            order = torch.randperm(len(images))
        chosen, order = order[:args.batch], order[args.batch:]
        loss = train_step(model, optimizer, normalise(augment(images[chosen])), labels[chosen])
        scheduler.step()
        if step % 100 == 0:
            rate = step * args.batch / (time.perf_counter() - begin)
            print(f"step {step}  loss {loss.item():.4f}  {rate:.0f} images/s", flush=True)
    top1 = accuracy(model, *read(args.test))
    print(json.dumps({"program": f"PyTorch {torch.__version__}", "steps": args.steps,
                      "seed": args.seed, "top1": round(100 * top1, 2),
                      "minutes": round((time.perf_counter() - begin) / 60, 1)}))


if __name__ == "__main__":
    main()
