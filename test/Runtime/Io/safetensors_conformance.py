#!/usr/bin/env python3
"""Compares our safetensors reader and writer with the package `safetensors`.

usage: safetensors_conformance.py PROBE

Both must accept and refuse the same randomly changed files, and a file that the
package wrote must come out of our writer byte for byte. Exits with 77, which
counts as skipped, where the package is missing.
"""
import json
import os
import random
import re
import struct
import subprocess
import sys
import tempfile

try:
    import numpy
    import safetensors
    from safetensors.numpy import save_file
except ImportError:
    sys.exit(77)

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


def accepted_by_package(data):
    try:
        safetensors.deserialize(data)
        return True
    except safetensors.SafetensorError:
        return False


def compare_reading(probe, directory, count):
    path = os.path.join(directory, "x.safetensors")
    ours = subprocess.Popen([probe, "open"], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, text=True)
    rng = random.Random(3)
    differences = accepted = 0
    for _ in range(count):
        data = changed(rng)
        with open(path, "wb") as out:
            out.write(data)
        ours.stdin.write(path + "\n")
        ours.stdin.flush()
        answer = ours.stdout.readline().strip()
        theirs = accepted_by_package(data)
        accepted += theirs
        if (answer == "ok") != theirs:
            differences += 1
            print("differs:", answer, theirs, data)
    ours.stdin.close()
    ours.wait()
    print(f"{count} files, {accepted} accepted, {differences} differences")
    return differences == 0


def compare_writing(probe, directory):
    source = os.path.join(directory, "in.safetensors")
    copy = os.path.join(directory, "out.safetensors")
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
    save_file(tensors, source, metadata={"format": "pt"})
    subprocess.run([probe, "rewrite", source, copy], check=True)
    with open(source, "rb") as a, open(copy, "rb") as b:
        same = a.read() == b.read()
    print("written alike:", same)
    return same


def main():
    with tempfile.TemporaryDirectory() as directory:
        read = compare_reading(sys.argv[1], directory, 2000)
        written = compare_writing(sys.argv[1], directory)
    return 0 if read and written else 1


if __name__ == "__main__":
    sys.exit(main())
