#!/usr/bin/env python3
"""Splits data/samples/tatoeba_en_vi/attribution.tsv into train, valid and test.

Usage: scripts/split_tatoeba.py [--check]    with --check nothing is written: the files are compared
"""
import hashlib
import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "data/samples/tatoeba_en_vi"


def part_of(english):
    """The part an English sentence belongs to; all its translations, in either case, go along."""
    remainder = int(hashlib.md5(english.lower().encode()).hexdigest(), 16) % 20
    return {0: "test", 1: "valid"}.get(remainder, "train")


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(__doc__.strip())
    parts, languages = ("train", "valid", "test"), ("en", "vi")
    files = {f"{part}.{language}": [] for part in parts for language in languages}
    with open(FOLDER / "attribution.tsv", encoding="utf-8", newline="\n") as table:
        for line in table:
            english, vietnamese, _ = line.rstrip("\n").split("\t")
            files[part_of(english) + ".en"].append(english)
            files[part_of(english) + ".vi"].append(vietnamese)
    differing = 0
    for name, lines in files.items():
        content = "".join(line + "\n" for line in lines).encode()
        if "--check" not in sys.argv:
            (FOLDER / name).write_bytes(content)
        elif (FOLDER / name).read_bytes() != content:
            print(f"{name} differs from what attribution.tsv gives", file=sys.stderr)
            differing += 1
    sys.exit(1 if differing else 0)


if __name__ == "__main__":
    main()
