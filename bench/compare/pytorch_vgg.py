"""VGG16 (models/zoo_plain.cc) in PyTorch, as its users would write it.

Run by itself it times training steps and prints one JSON object.
"""
import torch
import torch.nn as nn

import timing
from pytorch_resnet import train_step


def vgg16(classes=1000, size=224):
    """Simonyan and Zisserman 2015, configuration D, for images of (3, size, size)."""
    layers, inputs = [], 3
    for depth, channels in ((2, 64), (2, 128), (3, 256), (3, 512), (3, 512)):
        for _ in range(depth):
            layers += [nn.Conv2d(inputs, channels, 3, padding=1), nn.ReLU(inplace=True)]
            inputs = channels
        layers.append(nn.MaxPool2d(2))
    inputs *= (size // 32) ** 2
    for outputs in (4096, 4096):
        layers += [nn.Flatten(), nn.Linear(inputs, outputs), nn.ReLU(inplace=True), nn.Dropout(0.5)]
        inputs = outputs
    return nn.Sequential(*layers, nn.Linear(inputs, classes))


def main():
    parser = timing.options(__doc__, batch=128, size=224)
    args = parser.parse_args()
    timing.start(args)
    model = vgg16(size=args.size).to(args.device).to(memory_format=torch.channels_last)
    images = torch.randn(args.batch, 3, args.size, args.size, device=args.device)
    images = images.contiguous(memory_format=torch.channels_last)
    labels = torch.randint(1000, (args.batch,), device=args.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4,
                                fused=True)
    timing.report(args, model, lambda m: train_step(m, optimizer, images, labels),
                  samples=args.batch, tokens=args.batch)


if __name__ == "__main__":
    main()
