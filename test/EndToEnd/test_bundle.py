# The archive for machines with GPUs, and what cmake installs, in emulation.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""scripts/gpu_bundle.sh packs small models, and run_gpu.sh of the archive runs all
of its stages on emulated GPUs, by a `heddle` that cmake installed."""

import json
import os
import re
import shutil
import unittest

import heddle_test as h

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LONGEST = 3000  # Seconds that making the whole archive, or small models, may take.
REAL_LONGEST = 14400  # And a stage of the real models, on a machine that is busy.
STAGES = ("info", "check", "serve-check", "decode", "train", "cpu", "ranks", "kill", "kernels")

# Operations of which only these models have kernels.
BROUGHT = {"gemma2": {"map"}, "gpt2-lamb": {"lamb", "segment_sums", "scale_segments"},
           "gpt2-lion": {"lion"}, "gpt2-ring": {"attention_join", "log_add_exp"},
           "gpt2-sequence": {"cross_entropy_part", "cross_entropy_join"}}

# In place of a binary: what it logs on a CPU is changed.
ALTERED = r"""#!/usr/bin/env bash
"$0.true" "$@"
status=$?
for word; do
  [ "$previous" = --log ] && log=$word
  previous=$word
done
case "$*" in
*"--device cpu"*)
  awk -F '"loss":' -v OFS='"loss":' \
    'NF > 1 { $2 = ($2 * 1.05) substr($2, index($2, ",")) } 1' "$log" >"$log.new"
  mv "$log.new" "$log" ;;
esac
exit $status
"""

# In place of one whose `check` takes so long.
SLOW = r"""#!/bin/sh
echo "%s H100 (sm_90)"
echo "all 2 kernels agree, found in %s s"
"""


class Bundle(h.HeddleTest):
    takes_long = True

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        prefix = os.path.join(cls.folder, "prefix")
        h.run(["cmake", "--install", h.BUILD, "--component", "heddle", "--prefix", prefix])
        cls.heddle = os.path.join(prefix, "bin", "heddle")
        cls.script = cls.unpack("small", ["--small"])

    @classmethod
    def unpack(cls, name, flags):
        """Makes an archive; the path of its script where it was unpacked."""
        archive = os.path.join(cls.folder, name + ".tar.xz")
        # An emulated GPU needs no cubins.
        h.run([os.path.join(ROOT, "scripts", "gpu_bundle.sh"), *flags, "--build", h.BUILD,
               "-o", archive], timeout=LONGEST,
              env=h.without_ptxas() if "--small" in flags else None)
        assert os.path.getsize(archive) < 60 << 20
        folder = os.path.join(cls.folder, name)
        shutil.unpack_archive(archive, folder)
        script = os.path.join(folder, "heddle-gpu", "run_gpu.sh")
        h.run([script, *flags, "--unpack"])
        return script

    def emulate(self, script, out, flags, status=0, longest=2 * LONGEST, gpus=2,
                **environment):
        """Runs the script on emulated GPUs; what it wrote to results.json."""
        folder = self.path(out)
        h.run([self.heddle, "emulate", "--devices", gpus, "--", script, "--gpus", gpus,
               *flags, "--out", folder], status, env=dict(os.environ, **h.LIGHT, **environment),
              timeout=longest)
        with open(os.path.join(folder, "results.json")) as file:
            return json.load(file)

    def altered(self, name, text, binary=None):
        """A copy of the archive in which a script takes the place of that binary, or of
        all; the path of run_gpu.sh."""
        folder = self.path(name)
        shutil.copytree(os.path.dirname(self.script), folder)
        for place in ("small", "kernels"):
            for part in os.listdir(os.path.join(folder, place)):
                found, extension = os.path.splitext(os.path.join(folder, place, part))
                if extension != ".part" or os.path.basename(found) != (binary or part[:-5]):
                    continue
                os.rename(found, found + ".true")
                with open(found, "w") as file:
                    file.write(text)
                os.chmod(found, 0o755)
        return os.path.join(folder, "run_gpu.sh")

    def test_every_stage_runs(self):
        good = self.emulate(self.script, "good", ["--small"], gpus=8)
        self.assertEqual(good["wrong"], 0, good)
        measured = {row["stage"] for row in good["results"] if row["verdict"] == "ok"}
        self.assertEqual(measured, set(STAGES))
        self.assertEqual(good["not_measured"], 0, good)
        self.assertGreater(len(good["kernels"]), 15)
        self.assertGreater(min(kernel["seconds"] for kernel in good["kernels"]), 0)
        with open(os.path.join(self.path("good"), "results.txt")) as file:
            self.assertEqual(len(file.readlines()), len(good["results"]))
        for model, brought in BROUGHT.items():
            with open(os.path.join(self.path("good"), f"check-{model}.out")) as file:
                ops = re.findall(r"\w+", " ".join(re.findall(r"\((.*)\)", file.read())))
            self.assertLessEqual(brought, set(ops), model)

    def test_nothing_works(self):
        """A machine on which nothing works is no machine that was not measured."""
        bad = self.emulate(self.script, "bad", ["--small", "--stage", "info", "--stage", "check"],
                           1, HEDDLE_EMULATE_FAULT="no-device")
        self.assertEqual(bad["ok"], 0, bad)
        self.assertGreater(bad["wrong"], 5, bad)

    def test_a_loss_is_wrong(self):
        """Those of the CPU's steps are, by a twentieth: that is said and returned."""
        for bits, script in (("bf16", "gpt2-short"), ("fp32", "gpt2-short-fp32")):
            script = self.altered(bits, ALTERED, script)
            found = self.emulate(script, "wrong-" + bits, ["--small", "--stage", "cpu"], 1)
            wrong = [row for row in found["results"] if row["verdict"] == "wrong"]
            self.assertEqual((found["wrong"], len(found["results"])), (len(wrong), 3), found)
            self.assertTrue(all(("fp32" in row["what"]) == (bits == "fp32") for row in wrong))
            for row in wrong:
                self.assertRegex(row["detail"], r"losses.* differ by 0\.0[45]")

    def test_check_takes_a_minute(self):
        """On a GPU it may take no longer; an emulation may."""
        for gpu, seconds, verdict in (("NVIDIA", "60.1", "wrong"), ("NVIDIA", "59.9", "ok"),
                                      ("Emulated", "61.0", "ok")):
            script = self.altered(gpu + seconds, SLOW % (gpu, seconds))
            found = self.emulate(script, "minute-" + gpu + seconds,
                                 ["--small", "--stage", "check"], int(verdict == "wrong"))
            self.assertEqual({row["verdict"] for row in found["results"]}, {verdict}, found)
            self.assertIn(seconds, found["results"][0]["detail"])

    def test_ranks_share_a_gpu(self):
        """NCCL takes it for two, if it can; else what was done says so."""
        flags = ["--small", "--stage", "ranks", "--stage", "kill"]
        for name, fault, said in (("two", None, "on each of two machines"),
                                  ("old", "old-nccl", "through the host.*H0286")):
            environment = {"HEDDLE_EMULATE_FAULT": fault} if fault else {}
            found = self.emulate(self.script, "shared-" + name, flags, gpus=1, **environment)
            self.assertEqual((found["wrong"], found["ok"]), (0, 4), found)
            rows = [row for row in found["results"] if row["verdict"] == "not measured"]
            self.assertEqual([row["stage"] for row in rows if "NCCL" in row["what"]],
                             ["ranks", "kill"], rows)
            for row in rows:
                self.assertRegex(row["detail"], said + "|it needs [48] GPUs, there are 1")

    def test_stages_end_in_their_time(self):
        """Binaries that never end are no reason for a stage to go on."""
        script = self.altered("endless", "#!/bin/sh\nexec sleep 1000000\n")
        ended = self.emulate(script, "ended", ["--small", "--limit", 1])
        self.assertEqual((ended["ok"], ended["wrong"]), (0, 0), ended)
        self.assertEqual({row["stage"] for row in ended["results"]}, set(STAGES))

    def test_what_a_stage_does_not_come_to(self):
        """It is listed, and nothing is wrong with that."""
        late = self.emulate(self.script, "late", ["--small", "--limit", 1], gpus=8)
        self.assertEqual(late["wrong"], 0, late)
        rows = [row for row in late["results"] if row["verdict"] == "not measured"]
        self.assertTrue(all(row["detail"] == "ran out of time" for row in rows), rows)
        self.assertTrue(rows, late)
        self.assertEqual({row["stage"] for row in late["results"]}, set(STAGES))

    @h.long_only
    def test_real_models(self):
        """The archive with GPT-2 124M: each kernel at its real size, of which the
        plain ones compute the first and the last elements."""
        script = self.unpack("full", [])
        found = self.emulate(script, "real", ["--stage", "info", "--stage", "check", "--limit",
                                              REAL_LONGEST, "--sample", 10_000_000],
                             longest=2 * REAL_LONGEST, HEDDLE_EMULATE_CHECK="light")
        self.assertEqual([row["verdict"] for row in found["results"]], ["ok"] * 23, found)


if __name__ == "__main__":
    unittest.main()
