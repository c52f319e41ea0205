"""VGG16 (models/zoo_plain.cc) in PyTorch, as its users would write it.

Run by itself it times training steps and prints one JSON object.
"""
import torch.nn as nn

import timing
from pytorch_resnet import time_images


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
    time_images(args, vgg16(size=args.size), lr=0.01, weight_decay=5e-4)


if __name__ == "__main__":
    main()
