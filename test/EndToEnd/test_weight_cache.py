# Weights that a binary which serves keeps for its next start.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A second start has the same texts, and reads no weights; what is damaged, or of
other weights, is made again; and what is mapped is what is printed."""

import json
import os
import re
import resource
import subprocess
import unittest
import unittest.mock

import numpy as np

import heddle_test as h
from running_jobs import descendants
from test_serve_model import Served, mpirun
from test_encode import make_model as make_encoder

WAYS = "map", "read"
MIB = 1 << 20


class KeptTest(h.HeddleTest):
    def setUp(self):
        self.cache = self.path(f"kept-{self.id().rsplit('.', 1)[-1]}")
        patch = unittest.mock.patch.dict(os.environ, XDG_CACHE_HOME=self.cache)
        patch.start()
        self.addCleanup(patch.stop)
        self.place = os.path.join(self.cache, "heddle", "weights")

    def serve(self, *flags, output="serving", **options):
        model, _, self.weights = self.make_model(**options)
        self.file = os.path.join(model, "model.safetensors")
        return self.compile(model, "--mode", "serve", "--threads", 2, "--max-batch", 2,
                            *flags, output=output)

    def start(self, binary, *flags, **options):
        """The greedy text, and what is said."""
        result = h.run([binary, "generate", "--prompt-ids", "5,17,2",
                        "--max-new-tokens", 12, *flags], **options)
        return result.stdout, result.stderr

    def logits(self, binary, *flags):
        out = self.path("logits.safetensors")
        said = h.run([binary, "logits", "--prompt-ids", "5,17,2", "-o", out, *flags],
                     ).stderr
        return h.read_safetensors(out)["logits"], said

    def kept(self, place=None):
        place = place or self.place
        return [os.path.join(place, name) for name in sorted(os.listdir(place))]

    def check_nothing_is_kept(self):
        self.assertFalse(os.path.exists(self.path("model", ".heddle")))
        self.assertFalse(os.path.exists(self.cache))


class Kept(KeptTest):
    def test_a_binary_that_trains_keeps_none(self):
        """Whoever asks for it is told so."""
        model, _, _ = self.make_model()
        binary = self.compile(model, "--batch", 2, "--seq", 8, output="training")
        start = [binary, "generate", "--prompt-ids", "5,17,2", "--max-new-tokens", 2]
        for flags in (["--weight-cache", "map"], ["--weight-cache", "read"],
                      ["--weight-cache-dir", self.path("other")],
                      ["--weights-cache", "beside"]):
            self.assertIn("error[H0167]", h.run([*start, *flags], 2).stderr)
        for way in ("auto", "none"):
            h.run([*start, "--weight-cache", way])
        h.run([*start, "--weights-cache", "off"])
        self.check_nothing_is_kept()

    def check_again(self, *flags, **options):
        """The bits of starts with and without what was kept."""
        binary = self.serve(*flags, **options)
        made, said = self.logits(binary, "--weight-cache", "none")
        self.assertNotIn("weights: ", said)
        self.check_nothing_is_kept()
        first, said = self.logits(binary, "--weight-cache", "read")
        self.assertIn("kept in", said)
        np.testing.assert_array_equal(first, made)
        for way, words in zip(WAYS, ("mapped from", "read from")):
            again, said = self.logits(binary, "--weight-cache", way)
            self.assertIn(words, said)
            np.testing.assert_array_equal(again, made)
        # Another binary of the same plan takes the same file.
        os.rename(binary, binary + ".first")
        _, said = self.logits(self.serve(*flags, **options), "--weight-cache", "map",
                              "--weights", os.path.dirname(self.file))
        self.assertIn("kept in", said)  # The model was written anew.
        _, said = self.logits(binary + ".first", "--weight-cache", "map")
        self.assertIn("mapped from", said)
        self.assertEqual(len(self.kept()), 2)

    def test_who_may_read_them(self):
        """Beside the model whoever may read the model, elsewhere nobody else."""
        binary = self.serve()
        other = self.path("other")
        beside = self.path("model", ".heddle", "weights")
        for mode, flag, place, expected in (
                (0o644, "beside", beside, 0o644), (0o640, "beside", beside, 0o600),
                (0o600, "beside", beside, 0o600), (0o644, other, other, 0o600)):
            with self.subTest(oct(mode), place=place):
                os.chmod(self.file, mode)
                _, said = self.start(binary, "--weight-cache", "read", "--weights-cache",
                                     flag)
                path = re.search("kept in (.*) for the next start", said)[1]
                self.assertEqual(os.path.dirname(path), place)
                self.assertEqual(os.stat(path).st_mode & 0o777, expected)

    def test_fp32(self):
        self.check_again(embed=36, heads=3, vocab=101)

    def test_bf16(self):
        self.check_again("--precision", "bf16", embed=20, heads=1, layers=1)

    def test_codes(self):
        self.check_again("--quantize", "int4", "--group", 32, embed=96, heads=2, vocab=53)

    def test_encoder(self):
        binary = self.compile(make_encoder(self.path("encoder")), "--mode", "encode",
                              "--threads", 2, "--max-batch", 1, output="encoding")
        said = [h.run([binary, "encode", "--ids", "2,5,17,3", "--weight-cache", way],
                      ) for way in ("none", *WAYS, *WAYS)]
        self.assertEqual(len({each.stdout for each in said}), 1)
        self.assertIn("kept in", said[1].stderr)
        self.assertIn("read from", said[2].stderr)
        self.assertIn("mapped from", said[3].stderr)

    @h.needs_mpi
    def test_ranks(self):
        """Each of those that split the weights has a file of its own."""
        self.check_ranks("tensor=2", files=2)

    @h.needs_mpi
    def test_groups(self):
        """Those with the same weights have one file."""
        self.check_ranks("data=2", files=1)

    @h.needs_mpi
    def test_one_of_a_machine_makes_them(self):
        """The other group maps at the first start what the first one has kept."""
        binary = self.serve("--mesh", "data=2")
        with Served(mpirun(binary), "--threads", 1, "--weight-cache", "map") as server:
            mapping = [any(path.startswith(self.place) for path, _ in mappings(rank))
                       for rank in sorted(descendants(server.process.pid))
                       if os.readlink(f"/proc/{rank}/exe") == os.path.realpath(binary)]
            self.assertEqual(sorted(mapping), [False, True])
            server.end()

    def check_ranks(self, mesh, files):
        binary = self.serve("--mesh", mesh)
        texts = [h.run_ranks(2, [binary, "generate", "--prompt-ids", "5,17,2",
                                 "--threads", 1, "--weight-cache", way],
                             XDG_CACHE_HOME=self.cache).stdout
                 for way in ("none", *WAYS, *WAYS)]
        self.assertEqual(len(set(texts)), 1)
        self.assertEqual(len(self.kept()), files)

    def test_few_weights_are_not_kept(self):
        binary = self.serve()
        _, said = self.start(binary)
        self.assertNotIn("weights: ", said)
        self.check_nothing_is_kept()

    def test_weights_that_change(self):
        """One value, in place, and the time of the file set back."""
        binary = self.serve()
        before, _ = self.logits(binary, "--weight-cache", "map")
        times = os.stat(self.file)
        with open(self.file, "r+b") as file:
            file.seek(-4, os.SEEK_END)
            file.write(np.float32(1.25).tobytes())
        os.utime(self.file, ns=(times.st_atime_ns, times.st_mtime_ns))
        expected, _ = self.logits(binary, "--weight-cache", "none")
        found, said = self.logits(binary, "--weight-cache", "map")
        self.assertIn("kept in", said)
        self.assertFalse(np.array_equal(found, before))
        np.testing.assert_array_equal(found, expected)

    def test_damage(self):
        binary = self.serve()
        expected, _ = self.start(binary, "--weight-cache", "map")
        (path,) = self.kept()
        with open(path, "rb") as file:
            whole = file.read()
        flipped = bytearray(whole)
        flipped[len(whole) // 2] ^= 1
        other = whole.replace(b"heddle-image-", b"heddle-image+")
        for name, damaged in (("nothing", b""), ("half", whole[:len(whole) // 2]),
                              ("short", whole[:-1]), ("long", whole + b"x"),
                              ("flipped", flipped), ("form", other)):
            for way in WAYS:
                with self.subTest(name, way=way):
                    with open(path, "wb") as file:
                        file.write(damaged)
                    text, said = self.start(binary, "--weight-cache", way)
                    self.assertEqual(text, expected)
                    self.assertIn("warning[H0482]", said)
                    self.assertIn(path, said)
                    # And it is good again.
                    text, said = self.start(binary, "--weight-cache", way)
                    self.assertEqual(text, expected)
                    self.assertNotIn("warning", said)
                    self.assertIn("in 0", said)

    def test_cut_while_mapped(self):
        """Who needs the pages that are lost ends, and names the file."""
        binary = self.serve(vocab=4099, embed=64)
        self.start(binary, "--weight-cache", "map")
        (path,) = self.kept()
        with Served([binary], "--weight-cache", "map") as server:
            os.truncate(path, 0)
            with self.assertRaises(Exception):
                server.complete([5, 17, 2], max_tokens=2)
            server.process.wait(timeout=h.TIMEOUT)
            self.assertEqual(server.process.returncode, 5)
            said = server.process.stderr.read()
        self.assertIn("error[H0432]: " + path, said)
        # The next start makes it again.
        _, said = self.start(binary, "--weight-cache", "map")
        self.assertIn("warning[H0482]", said)

    def test_places(self):
        """In the user's cache, and nothing beside the model; or where a flag says; and
        in the user's cache if nothing can be written beside the model."""
        binary = self.serve()
        model = sorted(os.listdir(self.path("model")))
        expected, _ = self.start(binary, "--weight-cache", "none")
        beside, cache = self.path("model", ".heddle"), self.place
        other = self.path("other")
        for place, flags in ((cache, []), (cache, ["--weights-cache", "beside"]),
                             (other, ["--weight-cache-dir", other]),
                             (other, ["--weights-cache", other]),
                             (os.path.join(beside, "weights"),
                              ["--weights-cache", "beside"])):
            if flags[1:] == ["beside"] and place == cache:
                with open(beside, "w"):  # No folder can be made there.
                    pass
            with self.subTest(place):
                for words in "kept in", "mapped from":
                    text, said = self.start(binary, "--weight-cache", "map", *flags)
                    self.assertEqual(text, expected)
                    self.assertIn(f"weights: {words} {place}/", said)
                    self.assertNotIn("warning", said)
                os.remove(*self.kept(place))
            if not flags:
                self.assertEqual(sorted(os.listdir(self.path("model"))), model)
            if os.path.isfile(beside):
                os.remove(beside)

    def test_off(self):
        binary = self.serve()
        expected, _ = self.start(binary, "--weight-cache", "none")
        text, said = self.start(binary, "--weights-cache", "off")
        self.assertEqual(text, expected)
        self.assertNotIn("weights: ", said)
        self.check_nothing_is_kept()
        error = h.run([binary, "generate", "--prompt-ids", "1", "--weight-cache", "map",
                       "--weights-cache", "off"], status=2).stderr
        self.assertIn("error[H0158]", error)

    def test_no_place(self):
        binary = self.serve()
        expected, _ = self.start(binary, "--weight-cache", "none")
        for file in self.path("model", ".heddle"), self.path("file"):
            with open(file, "w"):
                pass
        text, said = self.start(binary, "--weight-cache", "map", "--weights-cache",
                                "beside", env=dict(os.environ, XDG_CACHE_HOME=self.path("file")))
        self.assertEqual(text, expected)
        self.assertIn("warning[H0402]: cannot write " + self.path("file"), said)
        self.assertEqual(said.count("warning"), 1)

    def test_disk_that_is_full(self):
        binary = self.serve()
        expected, _ = self.start(binary, "--weight-cache", "none")

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))

        text, said = self.start(binary, "--weight-cache", "map", preexec_fn=limit)
        self.assertEqual(text, expected)
        self.assertIn("warning[H0402]", said)
        self.assertEqual(self.kept(), [])

    def test_disk_with_too_little_room(self):
        """Weights may take a quarter of what is free; the disk is a small one in
        memory."""
        small = self.path("small")
        os.mkdir(small)
        inside = ["unshare", "-rm", "sh", "-c",
                  'mount -t tmpfs -o size=64k tmpfs "$0" && exec "$@"', small]
        if subprocess.run([*inside, "true"], stderr=subprocess.DEVNULL).returncode:
            self.skipTest("no file systems can be mounted here")
        binary = self.serve()
        expected, _ = self.start(binary, "--weight-cache", "none")
        start = [*inside, binary, "generate", "--prompt-ids", "5,17,2",
                 "--max-new-tokens", 12, "--weight-cache", "map"]
        said = h.run([*start, "--weight-cache-dir", small])
        self.assertEqual(said.stdout, expected)
        self.assertIn("warning[H0483]", said.stderr)
        self.assertIn("may have 163", said.stderr)
        self.assertIn("--weight-cache none", said.stderr)
        # The next place has enough.
        os.symlink(small, self.path("model", ".heddle"))
        said = h.run([*start, "--weights-cache", "beside"])
        self.assertIn("kept in " + self.cache, said.stderr)
        self.assertNotIn("warning", said.stderr)

    def test_starts_at_once(self):
        binary = self.serve()
        expected, _ = self.start(binary, "--weight-cache", "none")
        for _ in range(3):
            started = [subprocess.Popen(
                [binary, "generate", "--prompt-ids", "5,17,2", "--max-new-tokens", "12",
                 "--weight-cache", "map", "--threads", "1"], text=True,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                for _ in range(4)]
            for process in started:
                text, said = process.communicate(timeout=h.TIMEOUT)
                self.assertEqual(text, expected)
                self.assertNotIn("warning", said)
            (path,) = self.kept()
            os.remove(path)


def mappings(process):
    """Of each mapping its file, and its figures in bytes."""
    found = []
    with open(f"/proc/{process}/smaps") as file:
        for line in file:
            words = line.split()
            if not words[0].endswith(":"):
                low, high = (int(word, 16) for word in words[0].split("-"))
                found.append(({"size": high - low}, " ".join(words[5:])))
            elif words[-1] == "kB":
                found[-1][0][words[0][:-1]] = int(words[1]) * 1024
            elif words[0] == "VmFlags:":
                found[-1][0]["huge"] = "hg" in words
    return [(path, figures) for figures, path in found]


def status_of(process, key):
    with open(f"/proc/{process}/status") as file:
        return int(re.search(rf"{key}:\s+(\d+) kB", file.read()).group(1)) * 1024


def memory_of(said):
    (line,) = re.findall(r"^memory: .*$", said, re.MULTILINE)
    return {name: int(count) for name, count in re.findall(r"(\w+) (\d+) bytes", line)}


class Large(KeptTest):
    """A model with one large tensor, of which auto keeps the weights."""

    def setUp(self):
        super().setUp()
        self.binary = self.serve("--precision", "bf16", embed=512, heads=8, layers=2,
                                 vocab=40009, positions=64)

    def served(self, *flags):
        server = Served([self.binary], *flags)
        self.addCleanup(server.__exit__)
        return server

    def test_mapped_is_printed(self):
        """To the byte, in starts of each way; and within 64 MiB of the cache and the
        weights. The process's own regions are those that may have huge pages."""
        info = json.loads(h.run([self.binary, "info", "--json"]).stdout)
        for way in "none", "read", "read", "map":
            with self.subTest(way), self.served("--weight-cache", way) as server:
                printed = memory_of(server.said)
                self.assertEqual(printed, info["mapped"])
                sizes = [figures["size"] for path, figures in mappings(server.process.pid)
                         if figures["huge"]]
                # What is no whole page at the ends of the weights is not mapped.
                self.assertEqual(sum(sizes), sum(printed.values()))
        self.assertEqual(sum(printed.values()), info["memory"]["peak"])
        self.assertLessEqual(printed["arena"], 64 * MIB)
        text = h.run([self.binary, "info"]).stdout
        self.assertIn("2 texts of at most 64 tokens", text)
        for word in "optimizer", "batch":
            self.assertNotIn(word, info)
            self.assertNotIn(word, text)

    def test_peak_while_loading(self):
        """The weights, and the largest tensor as it is in fp32; and what a process
        has besides, for which 32 MiB are enough."""
        with self.served("--weight-cache", "none") as server:
            printed = memory_of(server.said)
            largest = max(value.nbytes for value in self.weights.values())
            self.assertGreater(largest, 64 * MIB)
            peak = status_of(server.process.pid, "VmHWM")
            self.assertLess(peak, printed["weights"] + largest + 32 * MIB)

    def test_second_start_reads_no_weights(self):
        self.assertIn("kept in", self.start(self.binary)[1])
        with open(self.file, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        resident = lambda: int(h.run(["fincore", "-bnr", "-o", "RES", self.file]).stdout)
        if resident() > MIB:
            self.skipTest("this file system keeps what was read")
        self.assertRegex(self.start(self.binary)[1], "(mapped|read) from")
        self.assertLess(resident(), os.path.getsize(self.file) / 10)

    def test_mapped_weights_are_shared(self):
        self.start(self.binary)
        with self.served("--weight-cache", "map") as one:
            with self.served("--weight-cache", "map") as two:
                for server in one, two:
                    figures = [f for path, f in mappings(server.process.pid)
                               if path.startswith(self.place)]
                    resident = sum(f["Rss"] for f in figures)
                    self.assertGreater(resident, memory_of(server.said)["weights"] * 0.99)
                    self.assertLess(sum(f["Pss"] for f in figures), resident * 0.51)


class Start(KeptTest):
    def test_gpt2_124m_is_ready_in_a_second(self):
        """From the kept weights, in bf16, of a seed: in a second of processor time,
        which a busy machine does not stretch as it does the clock. The best of three."""
        os.makedirs(self.path("gpt2"))
        with open(self.path("gpt2", "config.json"), "w") as file:
            json.dump(h.gpt2_config(vocab=50257, positions=1024, embed=768, heads=12,
                                    layers=12), file)
        binary = self.compile(self.path("gpt2", "config.json"), "--init", "random",
                              "--mode", "serve", "--precision", "bf16", "--threads", 2,
                              "--max-batch", 1, output="serving")
        seconds = []
        for way in "auto", "map", "map", "map":
            with Served([binary], "--weight-cache", way) as server:
                with open(f"/proc/{server.process.pid}/stat") as file:
                    ticks = file.read().rsplit(")", 1)[1].split()[11:13]
                seconds.append(sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK"))
        self.assertIn("mapped from", server.said)
        printed = memory_of(server.said)
        self.assertGreater(printed["weights"], 124e6 * 2)
        self.assertLessEqual(printed["arena"], 64 * MIB)
        print("processor seconds to the first start, and with kept weights:", seconds)
        self.assertLess(min(seconds[1:]), 1)
        self.assertLess(min(seconds[1:]), seconds[0] / 2)


if __name__ == "__main__":
    unittest.main()
