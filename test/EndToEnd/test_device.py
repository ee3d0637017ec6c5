# Every verb on a device whose memory the host does not see.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The device `separate` hands out addresses that fault, and does submitted work
late, its two streams in an order that a seed chooses. All that a binary does
there must give the bits that it gives on the CPU."""

import json
import os
import re
import tempfile
import unittest

import heddle_test as h

ROWS, SEQ, STEPS = 4, 16, 4
COMMAND = re.compile(r"^ +(?:%\w+ = )?plan\.(?:launch|call|loop|fragments|copy|fill|"
                     r"collective|record|wait|send|recv|flush)\b")
LIVE = re.compile(r"live\[(\d+), (\d+)\]")


def copies_beside(lines):
    """A sequence whose copies run on the stream `copy`, between points that
    order them; lifetimes count the new commands."""
    first, last, out, count, copies = [], [], [], 0, 0
    for line in lines:
        out.append(line)
        if not COMMAND.match(line):
            continue
        first.append(count)
        if " plan.copy " in line:
            copies += 1
            out[-1:] = [f"      %ready{copies} = plan.record compute",
                        f"      plan.wait %ready{copies} on copy",
                        line.replace(" : ", " on copy : ", 1),
                        f"      %copied{copies} = plan.record copy",
                        f"      plan.wait %copied{copies}"]
            count += 4
        last.append(count)
        count += 1
    first.append(count)
    last.append(count)

    def lives(match):
        return f"live[{first[int(match[1])]}, {last[int(match[2])]}]"
    return [LIVE.sub(lives, line) for line in out], copies


def kept_aside(text):
    """The plan with its copies beside, and what training keeps in pinned
    memory."""
    port = re.compile(r"(plan\.buffer at) \d+ (live\[.*output = #nn\.port<logits>)")
    lines, out, total, kept = text.split("\n"), [], 0, 0
    while lines:
        if not lines[0].lstrip().startswith("plan.sequence"):
            out.append(lines.pop(0))
            continue
        indent = len(lines[0]) - len(lines[0].lstrip())
        end = next(n for n, line in enumerate(lines)
                   if n and line[:indent + 1] == " " * indent + "}")
        body, copies = copies_beside(lines[:end])
        if "#nn.program<train>" in body[0]:
            kept += sum(bool(port.search(line)) for line in body)
            body = [port.sub(r"\1 0 in pinned \2", line) for line in body]
        out, lines, total = out + body, lines[end:], total + copies
    text = "\n".join(out)
    text, sizes = re.subn(r"(arena_bytes = #plan\.bytes<device \d+)",
                          r"\1, pinned 1048576", text)
    return text, total, kept, sizes


class Device(h.HeddleTest):
    def prepare(self, *flags, **options):
        self.model, config, _ = self.make_model(dropout=0.1, **options)
        self.data, _ = self.make_tokens(ROWS * SEQ * STEPS + 1,
                                        config["vocab_size"])
        self.binary = self.compile(self.model, "--batch", ROWS, "--seq", SEQ,
                                   "--threads", 2, *flags, config=h.ds_config())

    def call(self, device, *arguments):
        return h.run_ranks(self.ranks, [self.binary, *arguments],
                           HEDDLE_DEVICE=device).stdout

    def train(self, device, folder, steps, *flags):
        log = os.path.join(folder, f"log-{steps}.jsonl")
        self.call(device, "train", "--data", self.data, "--steps", steps, "--log",
                  log, "--save", os.path.join(folder, "saved"), "--dump",
                  os.path.join(folder, "dump.safetensors"), "--progress", "none",
                  *flags)
        return [(line["loss"], line["grad_norm"]) for line in h.read_log(log)]

    def outcome(self, device):
        """What the verbs print and write."""
        folder = tempfile.mkdtemp(dir=self.folder)
        found = {"whole": self.train(device, folder, STEPS)}
        files = {name: os.path.join(folder, name)
                 for name in ("dump.safetensors",
                              f"saved/step-{STEPS:06}/model.safetensors",
                              f"saved/step-{STEPS:06}/heddle/optimizer.safetensors")}
        for name, path in files.items():
            with open(path, "rb") as file:
                found[name] = file.read()
        saved = os.path.join(folder, "saved")
        found["resumed"] = self.train(device, folder, STEPS + 2, "--resume", saved,
                                      "--val", self.data, "--val-every", 1)
        found["eval"] = json.loads(self.call(device, "eval", "--data", self.data,
                                             "--weights", saved, "--json"))
        found["text"] = self.call(device, "generate", "--prompt-ids", "1,2,3",
                                  "--max-new-tokens", 4, "--weights", saved)
        return found

    def check(self, *devices, ranks=1):
        self.ranks = ranks
        expected = self.outcome("cpu")
        self.assertEqual(len(expected["whole"]), STEPS)
        for device in devices:
            found = self.outcome(device)
            self.assertEqual(found.keys(), expected.keys())
            for name, value in expected.items():
                self.assertTrue(found[name] == value, f"{name} on {device}")

    def test_one_rank(self):
        self.prepare("--accumulate", 2, "--keep", "logits")
        self.check("separate", "separate:7")

    def test_rows_of_a_table(self):
        """Ids are read when the stream comes to the copy, in any order of streams."""
        self.prepare("--accumulate", 2, "--place", "parameters=file,activations=file",
                     vocab=4099)
        said = h.run([h.HEDDLE, "explain", self.binary]).stdout
        self.assertRegex(said, "[0-9]+ cop(y|ies) of rows")
        self.check("separate:1", "separate:4", "separate:6")

    def test_copies_of_another_stream(self):
        dumps = self.path("dumps")
        self.prepare("--keep", "logits", "--dump-phases", dumps)
        self.ranks = 1
        expected = self.outcome("cpu")
        with open(os.path.join(dumps, "prove.mlir")) as file:
            text, copies, kept, sizes = kept_aside(file.read())
        self.assertGreater(copies, 1)
        self.assertGreater(kept, 0)
        self.assertEqual(sizes, 1)
        edited = self.path("edited.mlir")
        with open(edited, "w") as file:
            file.write(text)
        self.binary = self.path("beside")
        h.run([h.HEDDLE, "compile", edited, "--start-from", "prove", "-o",
               self.binary])
        explained = h.run([h.HEDDLE, "explain", self.binary]).stdout
        self.assertRegex(explained, r"copy +\d+ cop")
        self.assertIn("= peak in pinned", explained)
        for device in ("cpu", "separate:1", "separate:2", "separate:3"):
            found = self.outcome(device)
            for name, value in expected.items():
                self.assertTrue(found[name] == value, f"{name} on {device}")
        # Without the point before it, a copy reads too early: refused.
        wrong = re.sub(r"\n *plan\.wait %ready\d+ on copy", "", text, count=1)
        self.assertNotEqual(wrong, text)
        with open(edited, "w") as file:
            file.write(wrong)
        found = h.run([h.HEDDLE, "compile", edited, "--start-from", "prove", "-o",
                       self.binary], status=3)
        self.assertIn("is on the stream copy, which waits for nothing", found.stderr)

    @h.needs_mpi
    def test_data_ranks_with_split_states(self):
        self.prepare("--mesh", "data=2", "--zero", 2, "--precision", "bf16")
        self.check("separate:1", ranks=2)

    @h.needs_mpi
    def test_tensor_ranks(self):
        self.prepare("--mesh", "tensor=2", vocab=96)
        self.check("separate:2", ranks=2)

    @h.needs_mpi
    def test_stages(self):
        self.prepare("--mesh", "pipe=2", "--accumulate", 4)
        self.check("separate:3", ranks=2)

    def test_gpu_without_its_driver_or_code(self):
        self.prepare("--target", "x86-64,sm_90")
        command = [self.binary, "bench", "--steps", 1, "--device", "cuda"]
        # A file that is no library hides a driver that may be installed.
        open(self.path("libcuda.so.1"), "w").close()
        for code, status, run in (
                ("H0280", 4, dict(command=command, env=dict(
                    os.environ, LD_LIBRARY_PATH=self.folder))),
                ("H0282", 4, dict(command=[h.HEDDLE, "emulate", "--", *command],
                                  env=dict(os.environ, HEDDLE_EMULATE_FAULT="no-device")))):
            with self.subTest(code=code):
                self.assertIn(code, h.run(status=status, **run).stderr)

    def test_unknown_device(self):
        self.prepare()
        for name in ("gpu", "separate:x", "separate:1:2", ""):
            found = h.run([self.binary, "bench", "--steps", 1], status=2,
                          env=dict(os.environ, HEDDLE_DEVICE=name))
            self.assertIn("H0190", found.stderr)
            self.assertIn("HEDDLE_DEVICE", found.stderr)
        found = h.run([self.binary, "bench", "--device", "cuda"], status=2)
        self.assertIn("H0172", found.stderr)


if __name__ == "__main__":
    unittest.main()
