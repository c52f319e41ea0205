#!/usr/bin/env python3
"""Makes the little JPEG and PNG files here, and images.json: what Pillow reads from them, and how it
resizes.

    pip install numpy pillow && python make_images.py
"""
import json
import pathlib

import numpy as np
from PIL import Image

HERE = pathlib.Path(__file__).resolve().parent


def picture(height, width):
    """Smooth, so that JPEG keeps it nearly."""
    y, x = np.mgrid[0:height, 0:width]
    red = 128 + 100 * np.sin(x / 5)
    green = 255 * y / height
    blue = 255 * (x + y) / (height + width)
    return np.stack([red, green, blue], axis=-1).round().astype(np.uint8)


def main():
    colour = Image.fromarray(picture(21, 30))
    files = {
        "baseline.jpg": (colour, {"quality": 95, "subsampling": 0}),
        "progressive.jpg": (colour, {"quality": 95, "subsampling": 0, "progressive": True}),
        "grey.jpg": (colour.convert("L"), {"quality": 95}),
        "colour.png": (colour, {}),
        "alpha.png": (Image.merge("RGBA", [*colour.split(), colour.convert("L")]), {}),
        "palette.png": (colour.quantize(32), {}),
        "grey16.png": (Image.fromarray(picture(21, 30)[..., 0].astype(np.uint16) * 257), {}),
    }
    out = {"decoded": {}, "resized": []}
    for name, (image, options) in files.items():
        image.save(HERE / name, **options)
        if name == "grey16.png":  # Pillow would clip 16 bits
            pixels = np.repeat(picture(21, 30)[..., :1], 3, axis=2)
        else:
            pixels = np.asarray(Image.open(HERE / name).convert("RGB"))
        out["decoded"][name] = pixels.flatten().tolist()
    Image.fromarray(picture(21, 30)[:1, :1]).save(HERE / "pixel.png")
    # (left, top, right, bottom), then the size: smaller, larger, both, a single pixel.
    for box, size in [((0, 0, 30, 21), (7, 5)), ((3, 2, 25, 20), (40, 33)), ((5, 0, 17, 21), (24, 6)),
                      ((4, 4, 5, 5), (3, 3))]:
        resized = colour.crop(box).resize(size, Image.BILINEAR)
        out["resized"].append({"box": box, "size": size,
                               "pixels": np.asarray(resized).flatten().tolist()})
    (HERE / "images.json").write_text(json.dumps(out) + "\n")


if __name__ == "__main__":
    main()
