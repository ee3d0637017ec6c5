# What a GPU binary asks its driver for, and what it says when that fails.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The emulated driver counts what it is asked for (HEDDLE_EMULATE_COUNTS), and
breaks the machine as HEDDLE_EMULATE_FAULT says."""

import filecmp
import json
import os
import re
import unittest

import heddle_test as h
import numpy as np

ROWS, SEQ, VOCAB = 2, 7, 61


class GpuDevice(h.HeddleTest):
    def prepare(self, target="sm_90"):
        self.data, _ = self.make_tokens(ROWS * SEQ * 8 + 1, VOCAB)
        self.model, _, _ = self.make_model(vocab=VOCAB, layers=1)
        self.binary = self.compile(self.model, "--batch", ROWS, "--seq", SEQ, "--target",
                                   target, config=h.ds_config())

    def train(self, steps, *flags, emulate=(), status=0, **variables):
        return h.run([h.HEDDLE, "emulate", *emulate, "--", self.binary, "train",
                      "--data", self.data, "--steps", steps, *flags], status, env=dict(os.environ, **variables))

    def counts(self, steps, *flags):
        path = self.path("counts.json")
        self.train(steps, *flags, HEDDLE_EMULATE_COUNTS=path, **h.LIGHT)
        with open(path) as file:
            return json.load(file)

    def test_asks_for_no_more_than_the_plan(self):
        self.prepare()
        explained = self.explain(self.binary)
        memory = explained["memory"]
        few, many = self.counts(2), self.counts(5)
        self.assertEqual(few["device_bytes"], memory["arena"] + memory["persistent"])
        # Each step is one graph: no launch and no allocation besides.
        for name in ("cuLaunchKernel", "cuMemAlloc_v2", "cuMemHostAlloc",
                     "cuGraphInstantiateWithFlags"):
            self.assertEqual(few["calls"].get(name), many["calls"].get(name), name)
        self.assertEqual(few["calls"]["cuGraphLaunch"], 2)
        self.assertEqual(many["calls"]["cuGraphLaunch"], 5)
        self.assertEqual(few["kernels"] * 5, many["kernels"] * 2)
        # The host waits for the step before the one that it launched last, and for
        # that one only at the end, or where a validation needs it.
        self.assertEqual(few["calls"]["cuStreamSynchronize"],
                         many["calls"]["cuStreamSynchronize"])
        self.assertEqual(few["last_waits"], many["last_waits"])
        waiting = self.counts(5, "--val", self.data, "--val-every", 1, "--val-steps", 1)
        self.assertGreaterEqual(waiting["last_waits"], many["last_waits"] + 3)
        self.assertGreater(few["kernels"], 20)

    def test_logs_are_those_of_a_cpu(self):
        """The loss of a step arrives one step later; the log does not show it."""
        self.prepare()
        gpu, logs = self.binary, {}
        cpu = self.compile(self.model, "--batch", ROWS, "--seq", SEQ, output="cpu",
                           config=h.ds_config())
        for steps in (1, 5):
            for name, command in (("cpu", [cpu]),
                                  ("gpu", [h.HEDDLE, "emulate", "--", gpu])):
                log = self.path(f"{name}-{steps}.jsonl")
                dump = self.path(f"{name}-{steps}.safetensors")
                h.run([*command, "train", "--data", self.data, "--steps", steps,
                       "--val", self.data, "--val-every", 2, "--val-steps", 1,
                       "--save", self.path(name + str(steps)), "--save-every", 3,
                       "--dump", dump, "--log", log])
                with open(log) as file:
                    lines = [json.loads(line) for line in file]
                logs[name] = [(line["event"], line.get("step")) for line in lines]
                logs[name + " loss"] = [line["loss"] for line in lines
                                        if line["event"] in ("step", "eval")]
                logs[name + " dump"] = h.read_safetensors(dump)["loss"]
            self.assertEqual(logs["gpu"], logs["cpu"])
            for number, loss in enumerate(logs["cpu loss"]):
                self.assert_close(logs["gpu loss"][number], loss, 1e-5, "loss")
            self.assert_close(logs["gpu dump"], logs["cpu dump"], 1e-5, "dump")

    def test_a_loss_that_is_not_finite(self):
        """Known one step later; what was saved before is good."""
        self.prepare()
        binaries = [self.compile(self.model, "--batch", ROWS, "--seq", SEQ, "--lr",
                                 1e30, "--target", target, output=target)
                    for target in ("x86-64", "sm_90")]
        said = []
        for number, binary in enumerate(binaries):
            emulate = [h.HEDDLE, "emulate", "--"] * number
            folder = self.path(f"saved{number}")
            found = h.run([*emulate, binary, "train", "--data", self.data, "--steps",
                           8, "--save", folder, "--save-every", 1], 5)
            said.append(next(line for line in found.stderr.splitlines()
                             if "error[H0410]" in line))
            with open(os.path.join(folder, "latest")) as file:
                said.append(file.read().strip())
            late = self.path(f"late{number}")
            found = h.run([*emulate, binary, "train", "--data", self.data, "--steps",
                           8, "--save", late], 5)
            self.assertIn(said[-2], found.stderr)
            with open(os.path.join(late, "latest")) as file:
                self.assertEqual(file.read().strip(), said[-1])
            again = h.run([*emulate, binary, "train", "--data", self.data, "--steps",
                           8, "--resume", folder], 5)
            self.assertIn(said[-2], again.stderr)
        self.assertEqual(said[:2], said[2:])

    def test_batches_without_labels(self):
        """The rate of a step depends on whether the one before updated anything: the
        host knows without waiting for it."""
        self.prepare()
        tokens = np.arange(4 * ROWS * SEQ, dtype=np.int32).reshape(4 * ROWS, SEQ)
        inputs = {"ids": tokens % VOCAB, "labels": (tokens + 1) % VOCAB}
        inputs["labels"][ROWS:2 * ROWS] = -100
        h.write_safetensors(self.path("inputs.safetensors"), inputs)
        cpu = self.compile(self.model, "--batch", ROWS, "--seq", SEQ, output="cpu",
                           config=h.ds_config(warmup=3))
        gpu = self.compile(self.model, "--batch", ROWS, "--seq", SEQ, "--target",
                           "sm_90", output="gpu", config=h.ds_config(warmup=3))
        found, waits = [], []
        for name, command in (("cpu", [cpu]),
                              ("gpu", [h.HEDDLE, "emulate", "--", gpu])):
            log = self.path(name + ".jsonl")
            h.run([*command, "train", "--inputs", self.path("inputs.safetensors"),
                   "--steps", 4, "--log", log])
            found.append([(line["step"], line["lr"], line.get("skipped", False))
                          for line in h.read_log(log)])
        self.assertEqual(found[0], found[1])
        self.assertEqual([step[2] for step in found[0]], [False, True, False, False])
        for steps in (3, 4):
            counts = self.path("counts.json")
            h.run([h.HEDDLE, "emulate", "--", gpu, "train", "--inputs",
                   self.path("inputs.safetensors"), "--steps", steps],
                  env=dict(os.environ, HEDDLE_EMULATE_COUNTS=counts))
            with open(counts) as file:
                waits.append(json.load(file)["last_waits"])
        self.assertEqual(waits[0], waits[1])

    def test_ranks_of_one_gpu(self):
        self.data, _ = self.make_tokens(ROWS * SEQ * 8 + 1, VOCAB)
        model, _, _ = self.make_model(vocab=VOCAB, layers=1)
        binary = self.compile(model, "--batch", ROWS, "--seq", SEQ, "--target",
                              "sm_90", "--mesh", "data=2", config=h.ds_config())
        command = [h.HEDDLE, "emulate", "--devices", 1, "--", binary, "train",
                   "--data", self.data, "--steps", 1, "--progress", "none"]
        with self.assertRaises(h.Failed) as failed:
            h.run_ranks(2, command)
        self.assertIn("H0285", str(failed.exception))
        self.assertIn("ranks 0 and 1 have the same GPU", str(failed.exception))
        h.run_ranks(2, [*command, "--share-gpu"])

    def test_graphs_change_no_bit(self):
        self.prepare()
        saved = []
        for name, flags in (("graphs", []), ("plain", ["--no-graph"]),
                            ("sync", ["--sync"])):
            folder = self.path(name)
            counts = self.counts(3, "--save", folder, *flags)
            self.assertEqual(counts["calls"].get("cuGraphLaunch", 0),
                             0 if flags else 3)
            with open(os.path.join(folder, "latest")) as file:
                saved.append(os.path.join(folder, file.read().strip(),
                                          "model.safetensors"))
        for other in saved[1:]:
            self.assertTrue(filecmp.cmp(saved[0], other, shallow=False), other)

    def test_times_are_the_gpus(self):
        self.prepare()
        path = self.path("counts.json")
        found = h.run([h.HEDDLE, "emulate", "--", self.binary, "bench", "--steps", 1,
                       "--warmup", 0, "--kernels"],
                      env=dict(os.environ, HEDDLE_EMULATE_COUNTS=path))
        with open(path) as file:
            counts = json.load(file)
        launches = sum(int(line.split()[2]) for line in found.stdout.splitlines()
                       if re.match(r" *[\d.]+ +[\d.]+% .* (?!record|wait)\S+$", line))
        self.assertEqual(counts["calls"]["cuEventElapsedTime"], launches)
        self.assertGreater(launches, 15)
        # A step that is timed by launches takes as long as they do, also the last.
        said = json.loads(h.run([h.HEDDLE, "emulate", "--", self.binary, "bench",
                                 "--steps", 2, "--warmup", 1, "--kernels",
                                 "--json"]).stdout)
        self.assertGreater(sum(kernel["launches"] for kernel in said["kernels"]
                               if kernel["bytes"]), 15)
        self.assertGreater(said["min_s"],
                           max(kernel["seconds"] for kernel in said["kernels"]) / 10)

    def test_traces(self):
        """Commands of the modules that a CPU's trace has, one after the other on a
        stream, by the times of the GPU's events; `explain` reads them."""
        self.prepare()
        cpu = self.compile(self.model, "--batch", ROWS, "--seq", SEQ, output="cpu",
                           config=h.ds_config())
        found, counted = [], self.path("counts.json")
        for name, command in (("cpu", [cpu]),
                              ("gpu", [h.HEDDLE, "emulate", "--", self.binary])):
            trace = self.path(name + ".json")
            h.run([*command, "train", "--data", self.data, "--steps", 2, "--trace", trace],
                  env=dict(os.environ, HEDDLE_EMULATE_COUNTS=counted))
            with open(trace) as file:
                found.append(json.load(file)["traceEvents"])
        with open(counted) as file:
            calls = json.load(file)["calls"]
        self.assertEqual(calls["cuEventElapsedTime"], len(found[1]))
        self.assertNotIn("cuGraphLaunch", calls)
        expected, actual = ({(event["args"].get("path"), event["args"]["step"])
                             for event in events} for events in found)
        self.assertEqual(actual, expected)
        self.assertGreater(len(expected), 20)
        ends = {}
        for event in found[1]:
            stream = event["args"]["stream"]
            # By floats of milliseconds, as events tell it.
            self.assertGreaterEqual(event["ts"], ends.get(stream, 0) - 0.1, event)
            self.assertGreater(event["dur"], 0, event)
            ends[stream] = event["ts"] + event["dur"]
        h.run([h.HEDDLE, "explain", self.binary, "--trace", trace])

    def test_shares_are_of_the_gpus_peak(self):
        self.prepare()
        found = json.loads(h.run([h.HEDDLE, "emulate", "--", self.binary, "bench",
                                  "--steps", 1, "--json"]).stdout)
        self.assertEqual(found["peak_kind"], "stated")
        self.assertEqual(found["peak_unit"], "sm_90, f32")
        self.assertIn("stated peak", self.train(1, "--progress", "plain").stderr)

    def test_says_what_is_wrong_before_it_runs(self):
        self.prepare()
        for fault, code in (("old-driver", "H0281"), ("no-device", "H0282"),
                            ("little-memory:100000", "H0284")):
            with self.subTest(fault=fault):
                found = self.train(1, status=4, HEDDLE_EMULATE_FAULT=fault)
                self.assertIn(f"error[{code}]", found.stderr)
        found = self.train(1, emulate=["--chip", "sm_80"], status=4)
        self.assertIn("error[H0283]", found.stderr)
        # A file that is no library hides a driver that may be installed.
        open(self.path("libcuda.so.1"), "w").close()
        found = h.run([self.binary, "train", "--data", self.data, "--steps", 1], 4,
                      env=dict(os.environ, LD_LIBRARY_PATH=self.folder))
        self.assertIn("error[H0280]", found.stderr)
        # What needs no GPU needs no driver.
        found = h.run([self.binary, "info"],
                      env=dict(os.environ, LD_LIBRARY_PATH=self.folder)).stdout
        self.assertRegex(found, r"gpu +none: there is no driver")

    def test_says_which_libraries_it_finds(self):
        self.prepare()
        for name in ("libcuda.so.1", "libnccl.so.2", "libcublasLt.so.13",
                     "libcublasLt.so.12"):
            open(self.path(name), "w").close()
        bare = {"env": dict(os.environ, LD_LIBRARY_PATH=self.folder)}
        emulated = [h.HEDDLE, "emulate", "--", self.binary, "info"]
        text = h.run(emulated).stdout
        self.assertRegex(text, r"\ncublaslt +13\.0\.0, /.*/emulated/libcublasLt\.so\.13\n")
        self.assertRegex(text, r"\nnccl +2\.18\.0, /.*/emulated/libnccl\.so\.2\n")
        text = h.run([self.binary, "info"], **bare).stdout
        self.assertRegex(text, r"\ncublaslt +none: .*libcublasLt\.so\.1")
        self.assertRegex(text, r"\nnccl +none: .*libnccl\.so\.2")
        said = json.loads(h.run([*emulated, "--json"]).stdout)
        self.assertEqual([said[name]["version"] for name in ("cublaslt", "nccl")],
                         ["13.0.0", "2.18.0"])
        said = json.loads(h.run([self.binary, "info", "--json"], **bare).stdout)
        for name in ("cublaslt", "nccl"):
            self.assertEqual(list(said[name]), ["missing"])

    def test_takes_an_older_cublaslt(self):
        """By the name of its version 12, where 13 is no library; the bits are those
        that it gives by its own name."""
        self.prepare()
        given = os.path.join(h.BUILD, "lib/heddle/emulated")
        folder = self.path("older")
        os.mkdir(folder)
        for name, source in (("libcuda.so.1", "libcuda.so.1"),
                             ("libcublasLt.so.12", "libcublasLt.so.13")):
            os.symlink(os.path.join(given, source), os.path.join(folder, name))
        open(os.path.join(folder, "libcublasLt.so.13"), "w").close()
        older = dict(os.environ, LD_LIBRARY_PATH=folder)
        text = h.run([self.binary, "info"], env=older).stdout
        self.assertRegex(text, rf"\ncublaslt +13\.0\.0, {folder}/libcublasLt\.so\.12\n")
        self.assertRegex(text, r"here: [1-9]\d* by cuBLASLt, 0 by Heddle")
        dumps = []
        for name, command, env in (
                ("older", [self.binary], older),
                ("given", [h.HEDDLE, "emulate", "--", self.binary], None)):
            dumps.append(self.path(name + ".safetensors"))
            h.run([*command, "train", "--data", self.data, "--steps", 2, "--gemm",
                   "library", "--dump", dumps[-1]], env=env)
        self.assertTrue(filecmp.cmp(*dumps, shallow=False))

    def test_says_what_it_runs_on(self):
        self.prepare()
        emulated = [h.HEDDLE, "emulate", "--", self.binary]
        text = h.run([*emulated, "info"]).stdout
        self.assertRegex(text, r"gpu +Emulated H100 \(sm_90\)")
        self.assertRegex(text, r"driver +CUDA 12\.0, /.*/emulated/libcuda\.so\.1")
        gpu = json.loads(h.run([*emulated, "info", "--json"]).stdout)["gpu"]
        self.assertEqual((gpu["capability"], gpu["cuda"]), (90, "12.0"))
        text = h.run([*emulated, "bench", "--steps", 1, "--warmup", 0]).stdout
        self.assertIn("1 steps, 1 x Emulated H100 (sm_90): median", text)

    def test_info_of_several_targets(self):
        """It is about what would run here, and about the GPU also where none is."""
        self.prepare()
        both = self.compile(self.model, "--batch", ROWS, "--seq", SEQ, "--target",
                            "x86-64,sm_80", output="both", config=h.ds_config())
        for command, here, gpu in (([both], "x86-64", "missing"),
                                   ([h.HEDDLE, "emulate", "--", both], "sm_80", "name")):
            env = dict(os.environ, LD_LIBRARY_PATH="")
            said = json.loads(h.run([*command, "info", "--json"], env=env).stdout)
            self.assertEqual((said["targets"], said["target"]),
                             (["x86-64", "sm_80"], here))
            self.assertIn(gpu, said["gpu"])
            text = h.run([*command, "info"], env=env).stdout
            self.assertRegex(text, rf"\ntargets +x86-64, sm_80; here: {here}\ngpu ")

    def test_warns_of_a_gpu_that_it_leaves_idle(self):
        """The CPU runs it where the GPU cannot, and says why, unless it was asked to."""
        self.prepare()
        both = self.compile(self.model, "--batch", ROWS, "--seq", SEQ, "--target",
                            "x86-64,sm_90", output="both", config=h.ds_config())
        bench = [both, "bench", "--steps", 1, "--warmup", 0]
        # A file that is no library hides a driver that may be installed.
        open(self.path("libcuda.so.1"), "w").close()
        bare = dict(os.environ, LD_LIBRARY_PATH=self.folder)
        faults = [dict(os.environ, HEDDLE_EMULATE_FAULT=fault)
                  for fault in ("old-driver", "no-device")]
        emulated = [h.HEDDLE, "emulate", "--chip"]
        for command, env, code in (
                ([*emulated, "sm_90", "--", *bench], faults[0], "H0281"),
                ([*emulated, "sm_90", "--", *bench], faults[1], "H0282"),
                ([*emulated, "sm_80", "--", *bench], None, "H0283"),
                ([*emulated, "sm_80", "--", *bench, "--device", "cpu"], None, None),
                ([*emulated, "sm_90", "--", *bench], None, None),
                (bench, bare, None)):
            with self.subTest(command=command, code=code):
                said = h.run(command, env=env).stderr
                self.assertEqual(re.findall(r"^warning\[(\w+)\]: the CPU takes", said, re.M),
                                 [code] if code else [], said)

    def test_the_target_of_this_machine(self):
        """`--target auto` is what the GPU here runs, or this CPU, and itself once."""
        model, _, _ = self.make_model(vocab=VOCAB, layers=1)
        # A file that is no library hides a driver that may be installed.
        open(self.path("libcuda.so.1"), "w").close()
        env = dict(h.without_ptxas(), LD_LIBRARY_PATH=self.folder)
        for chip, given, targets in ((None, "auto", ["x86-64"]),
                                     ("sm_80", "auto", ["sm_80"]),
                                     ("sm_90", "auto", ["sm_90"]),
                                     ("sm_80", "x86-64,auto", ["x86-64", "sm_80"]),
                                     ("sm_80", "auto,sm_80", ["sm_80"])):
            with self.subTest(chip=chip, given=given):
                here = [h.HEDDLE, "emulate", "--chip", chip, "--"] if chip else []
                binary = self.path("auto")
                h.run([*here, h.HEDDLE, "compile", model, "--batch", ROWS, "--seq", SEQ,
                       "--target", given, "--cache", self.path("cache"), "-o", binary],
                      env=env)
                said = json.loads(h.run([binary, "info", "--json"], env=env).stdout)
                self.assertEqual(said["targets"], targets)

    def test_a_fault_names_its_operation(self):
        """Beside the line of the text: the kernel's operation, by name and number."""
        self.prepare()
        dumps, damaged = self.path("dumps"), self.path("damaged.mlir")
        self.compile(self.model, "--batch", ROWS, "--seq", SEQ, "--target", "sm_90",
                     "--dump-phases", dumps, config=h.ds_config())
        with open(os.path.join(dumps, "kernels.mlir")) as file:
            text = file.read()
        begin = text.index("plan.object @linear_gelu_tanh_ptx ")
        end = text.index("plan.object", begin + 1)
        moved = re.sub(r"(st\.global\S+ \\09\[%rd\d+)(?:\+(\d+))?\]",
                       lambda store: f"{store[1]}+{int(store[2] or 0) + 2}]",
                       text[begin:end])
        with open(damaged, "w") as file:
            file.write(text[:begin] + moved + text[end:])
        h.run([h.HEDDLE, "compile", damaged, "--start-from", "kernels", "-o", self.binary],
              env=h.without_ptxas())
        said = self.train(1, "--gemm", "generated", status=5).stderr
        self.assertRegex(said, r"kernel k_linear_gelu_tanh_\w+, line \d+ \(linear:1\), "
                               r"st\.global\S*: access of \d+ bytes at 0x\w+, which is not "
                               r"aligned to \d+; block \(0, 0, 0\), thread")

    def test_a_gpu_is_lost(self):
        self.prepare("sm_80")
        kernels = self.counts(1)["kernels"]
        folder = self.path("saved")
        for kind in ("lost-device", "ecc"):
            fault = {"HEDDLE_EMULATE_FAULT": f"{kind}:{3 * kernels + 5}"}
            found = self.train(5, "--save", folder, "--save-every", 1, "--overwrite",
                               status=5, **fault)
            self.assertIn("error[H0435]", found.stderr)
            named = self.train(5, "--sync", status=5, **fault)
            self.assertRegex(named.stderr, r"error\[H0435\].*the launch of '\w+' for \S+:")
        with open(os.path.join(folder, "latest")) as file:
            self.assertEqual(file.read().strip(), "step-000003")
        self.train(5, "--resume", folder)


if __name__ == "__main__":
    unittest.main()
