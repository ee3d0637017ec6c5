#!/usr/bin/env python3
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The logs of one run in three forms say the same: JSON lines, CSV, and event files
of TensorBoard, read here by their formats' rules alone."""

import csv
import glob
import os
import struct
import unittest

import heddle_test as h

ROWS, SEQ = 2, 8
SCALARS = {"step": ("loss", "grad_norm", "lr", "tokens_per_s", "mfu"),
           "eval": ("loss", "perplexity")}


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(path):
    """The records of a TFRecord file."""
    with open(path, "rb") as file:
        data = file.read()
    while data:
        length, check = struct.unpack("<QI", data[:12])
        assert check == masked(data[:8]), "checksum of a length"
        record = data[12:12 + length]
        (check,) = struct.unpack("<I", data[12 + length:16 + length])
        assert len(record) == length and check == masked(record), "checksum"
        yield record
        data = data[16 + length:]


def fields(message):
    """Number and value of each field of a Protocol Buffers message."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
            continue
        size = {1: 8, 5: 4}.get(key & 7) or varint()
        yield key >> 3, message[at:at + size]
        at += size


def events(path):
    for record in records(path):
        event = dict(fields(record))
        event[1] = struct.unpack("<d", event[1])[0]
        event[5] = [dict(fields(value)) for _, value in fields(event.get(5, b""))]
        yield event


class Logs(h.HeddleTest):
    def setUp(self):
        model, config, _ = self.make_model(layers=1, embed=16, heads=2)
        self.data, _ = self.make_tokens(ROWS * SEQ * 9 + 1, config["vocab_size"])
        self.binary = self.compile(model, "--batch", ROWS, "--seq", SEQ)
        self.board = self.path("board")

    def run_with_logs(self, steps, *flags):
        h.run([self.binary, "train", "--data", self.data, "--steps", steps, "--val",
               self.data, "--val-every", 2, "--save", self.path("out"), "--log",
               self.path("run.jsonl"), "--log-csv", self.path("log.csv"),
               "--log-tensorboard", self.board, *flags])

    def logged(self):
        return [line for event in ("step", "eval")
                for line in h.read_log(self.path("run.jsonl"), event)]

    def check_csv(self):
        with open(self.path("log.csv"), newline="") as file:
            rows = list(csv.DictReader(file))
        lines = self.logged()
        self.assertEqual(len(rows), len(lines))
        for line in lines:
            prefix = "eval_" if line["event"] == "eval" else ""
            row = next(row for row in rows if row["step"] == str(line["step"])
                       and row[prefix + "loss"])
            for key, text in row.items():
                own = key.startswith("eval_") == bool(prefix) or key == "step"
                value = line.get(key[len(prefix):]) if own and key != "step" else None
                if key != "step":
                    self.assertEqual(text, "" if value is None else text)
                    self.assertEqual(value, float(text) if text else None, key)

    def check_board(self, files):
        found = {}
        paths = sorted(glob.glob(os.path.join(self.board, "events.out.tfevents.*")))
        self.assertEqual(len(paths), files)
        starts = []
        for path in paths:
            all_events = list(events(path))
            self.assertEqual(all_events[0][3], b"brain.Event:2")
            self.assertEqual(dict(fields(all_events[1][7])), {1: 1})
            starts.append(all_events[1][2])
            for event in all_events[2:]:
                self.assertGreater(event[1], 1.6e9)
                for value in event[5]:
                    found[value[1].decode(), event[2]] = struct.unpack("<f", value[2])[0]
        expected = {}
        for line in self.logged():
            prefix = "eval/" if line["event"] == "eval" else "train/"
            for key in SCALARS[line["event"]]:
                if line.get(key) is not None:
                    expected[prefix + key, line["step"]] = line[key]
        self.assertEqual(set(found), set(expected))
        for key, value in expected.items():
            self.assertAlmostEqual(found[key], value, delta=1e-6 * abs(value), msg=key)
        return starts

    def test_three_forms_say_the_same(self):
        self.run_with_logs(5)
        self.check_csv()
        self.assertEqual(self.check_board(files=1), [1])
        # A resumed run goes on in all three.
        self.run_with_logs(8, "--resume", self.path("out"))
        self.assertEqual([line["step"] for line in self.logged()],
                         [1, 2, 3, 4, 5, 6, 7, 8, 2, 4, 5, 6, 8])
        self.check_csv()
        self.assertEqual(self.check_board(files=2), [1, 6])
        # A row that was cut stays apart from what follows.
        with open(self.path("log.csv"), "a") as file:
            file.write("9,1.")
        self.run_with_logs(9, "--resume", self.path("out"))
        with open(self.path("log.csv")) as file:
            rows = file.read().splitlines()
        self.assertEqual(rows[-3], "9,1.")
        self.assertTrue(all(row.count(",") == 9 for row in rows[-2:]))
        # A new run begins a new table, and does not go on in a foreign one.
        self.run_with_logs(2, "--overwrite")
        self.check_csv()
        with open(self.path("log.csv"), "w") as file:
            file.write("a,b\n1,2\n")
        result = h.run([self.binary, "train", "--data", self.data, "--steps", 3,
                        "--resume", self.path("out"), "--log-csv",
                        self.path("log.csv")], status=5)
        self.assertIn("error[H0440]", result.stderr)

    def test_logs_that_cannot_be_written(self):
        with open(self.path("file"), "w"):
            pass
        for flags, code in ((["--log-csv", "/dev/full"], "H0411"),
                            (["--log-csv", self.path("no/such/log")], "H0411"),
                            (["--log-tensorboard", self.path("file")], "H0402")):
            result = h.run([self.binary, "train", "--data", self.data, "--steps", 1,
                            *flags], status=5)
            self.assertIn(f"error[{code}]", result.stderr)


if __name__ == "__main__":
    unittest.main()
