#!/usr/bin/env python3
"""Compares our safetensors reader and writer with the package `safetensors`.

usage: safetensors_conformance.py PROBE
       safetensors_conformance.py --record | --check

Both must accept and refuse the same randomly changed files, and a file that the
package wrote must come out of our writer byte for byte. What the package does is
recorded in test/Oracles/safetensors.json: --record writes the record anew, --check
compares it with what the package does now.
"""
import base64
import json
import os
import random
import re
import struct
import subprocess
import sys
import tempfile
import zlib

RECORD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..",
                      "Oracles", "safetensors.json")
COUNT = 2000
HEADER = json.dumps({
    "a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
    "b": {"dtype": "BF16", "shape": [2], "data_offsets": [8, 12]},
    "__metadata__": {"f": "x"},
}).encode()
PIECES = [b"0", b"1", b"4", b"8", b"12", b'"F32"', b'"BF16"', b'"F4"', b'"I64"',
          b"[]", b"{}", b",", b'"a"', b'"b"', b'"shape"', b"-1", b"1.0",
          b"null", b" ", b'"__metadata__"', b"18446744073709551615",
          b"9223372036854775808", b"4611686018427387904"]


def changed(rng):
    parts = re.findall(rb'"[^"]*"|-?\d+|[\[\]{},:]|\s+', HEADER)
    for _ in range(rng.randrange(3)):
        at = rng.randrange(len(parts))
        kind = rng.randrange(4)
        if kind == 0:
            parts[at] = rng.choice(PIECES)
        elif kind == 1:
            del parts[at]
        elif kind == 2:
            parts.insert(at, rng.choice(PIECES))
        else:
            other = rng.randrange(len(parts))
            parts[at], parts[other] = parts[other], parts[at]
    header = b"".join(parts)
    length = len(header) + rng.choice([0] * 60 + [-1, 1, 1000])
    data = b"x" * rng.choice([12, 12, 12, 12, 12, 11, 13, 0])
    return struct.pack("<Q", length) + header + data


def files():
    rng = random.Random(3)
    return [changed(rng) for _ in range(COUNT)]


def digest(of):
    return zlib.crc32(b"".join(of))


def written_by_package():
    """A file with every kind of tensor."""
    import numpy
    from safetensors.numpy import save

    rng = numpy.random.default_rng(1)
    tensors = {
        "b.w": rng.standard_normal((3, 4)).astype(numpy.float32),
        "scalar": numpy.array(3, dtype=numpy.int64),
        "half": rng.standard_normal((2, 2)).astype(numpy.float16),
        "empty": numpy.zeros((0, 3), dtype=numpy.float32),
        "bytes": numpy.arange(5, dtype=numpy.uint8),
        'é"\n': rng.standard_normal(1),
        "flag": numpy.array([True]),
    }
    return save(tensors, metadata={"format": "pt"})


def ask_package():
    import safetensors

    def accepts(data):
        try:
            safetensors.deserialize(data)
            return "1"
        except safetensors.SafetensorError:
            return "0"

    changed_files = files()
    return {"files": digest(changed_files),
            "accepted": "".join(map(accepts, changed_files)),
            "written": base64.b64encode(written_by_package()).decode()}


def compare_reading(probe, directory, record):
    path = os.path.join(directory, "x.safetensors")
    ours = subprocess.Popen([probe, "open"], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, text=True)
    changed_files = files()
    if digest(changed_files) != record["files"]:
        print("this Python's random numbers give other files than were recorded")
        return False
    differences = 0
    for data, theirs in zip(changed_files, record["accepted"]):
        with open(path, "wb") as out:
            out.write(data)
        ours.stdin.write(path + "\n")
        ours.stdin.flush()
        answer = ours.stdout.readline().strip()
        if (answer == "ok") != (theirs == "1"):
            differences += 1
            print("differs:", answer, theirs, data)
    ours.stdin.close()
    ours.wait()
    print(f"{COUNT} files, {record['accepted'].count('1')} accepted, "
          f"{differences} differences")
    return differences == 0


def compare_writing(probe, directory, record):
    source = os.path.join(directory, "in.safetensors")
    copy = os.path.join(directory, "out.safetensors")
    with open(source, "wb") as file:
        file.write(base64.b64decode(record["written"]))
    subprocess.run([probe, "rewrite", source, copy], check=True)
    with open(source, "rb") as a, open(copy, "rb") as b:
        same = a.read() == b.read()
    print("written alike:", same)
    return same


def main():
    if sys.argv[1] == "--record":
        with open(RECORD, "w") as file:
            json.dump(ask_package(), file)
            file.write("\n")
        return 0
    with open(RECORD) as file:
        record = json.load(file)
    if sys.argv[1] == "--check":
        return 0 if ask_package() == record else 1
    with tempfile.TemporaryDirectory() as directory:
        read = compare_reading(sys.argv[1], directory, record)
        written = compare_writing(sys.argv[1], directory, record)
    return 0 if read and written else 1


if __name__ == "__main__":
    sys.exit(main())
