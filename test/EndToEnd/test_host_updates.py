# Updates on the cores beside a GPU.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""With --host-updates the host computes the updates of states that are in its
memory, in a GPU's plan. What such a binary computes in emulation is compared with
the same plan without it; HEDDLE_TEST_LONG=1 takes all cases of the table."""

import json
import os
import unittest

import heddle_test as h

STEPS = 2
# Flags of both binaries, the places, and whether updates wait for the norm.
CASES = [
    (["--precision", "fp32"], "optimizer=host", 0.5),
    (["--precision", "bf16"], "optimizer=host", 0.5),
    (["--precision", "bf16"], "optimizer=pinned", 0),
    (["--precision", "bf16", "--delayed-update"], "optimizer=host", 0.5),
    (["--precision", "fp32", "--accumulate", 2, "--micro-batch", 1], "optimizer=host", 0),
    (["--precision", "bf16", "--optimizer", "Lion"], "optimizer=host", 0),
    (["--precision", "fp32", "--optimizer", "Lamb"], "optimizer=host", 0),
    (["--precision", "bf16", "--recompute", "full"], "optimizer=host,parameters=host", 0),
    (["--precision", "fp32"], "optimizer=host,parameters=host", 0.5),
    (["--precision", "bf16"], "optimizer=host,parameters=file", 0),
    (["--precision", "bf16", "--optimizer", "Lamb"], "optimizer=host,parameters=file", 0.5),
]
SHORT = (0, 2, 3, 9)


class HostUpdates(h.HeddleTest):
    def job(self, name, *flags, clipping=0.5, target="sm_90", seq=7):
        """Rows of an odd length, a vocabulary that is prime, tiles that the last
        one does not fill."""
        return self.compile(self.model, "--batch", 2, "--seq", seq, "--sub-group-size", 5000,
                            "--target", target, *flags, output=name,
                            config=h.ds_config(gradient_clipping=clipping))

    def run_job(self, binary, *flags, order="late", steps=STEPS, **variables):
        log = self.path("run.jsonl")
        if os.path.exists(log):
            os.remove(log)
        h.run([h.HEDDLE, "emulate", "--", binary, "train", "--data", self.data, "--steps",
               steps, "--log", log, "--progress", "none", *flags],
              env=dict(os.environ, HEDDLE_EMULATE=order, **variables))
        return [(step["loss"], step["grad_norm"]) for step in h.read_log(log)]

    def setUp(self):
        super().setUp()
        self.model = self.make_model(embed=36)[0]
        self.data, _ = self.make_tokens(400, 97)

    def assert_alike(self, actual, expected):
        self.assertEqual(len(actual), len(expected))
        for step, (mine, other) in enumerate(zip(actual, expected)):
            for a, b in zip(mine, other):
                self.assert_close(a, b, 1e-6, f"step {step + 1}")

    def test_losses_are_those_of_the_device(self):
        cases = range(len(CASES)) if h.LONG else SHORT
        for case in cases:
            flags, place, clipping = CASES[case]
            with self.subTest(flags=flags, place=place, clipping=clipping):
                here = self.job("here", *flags, clipping=clipping)
                there = self.job("there", *flags, "--place", place, "--host-updates", 1,
                                 clipping=clipping)
                self.assertGreater(
                    self.explain(there)["memory"]["kinds"]["pinned"]["arena"], 0)
                expected = self.run_job(here)
                self.assert_alike(self.run_job(there), expected)
                for order in ("early", "seed:3"):
                    self.assert_alike(self.run_job(there, order=order, **h.LIGHT), expected)
                if not clipping:
                    # Launches one by one, without graphs.
                    self.assert_alike(self.run_job(there, "--no-graph", **h.LIGHT), expected)

    def test_equal_runs_here_and_there(self):
        """The host's cores and a device that is a CPU have the same code, on memory of
        two kinds."""
        losses = []
        for more in ([], ["--host-updates", 0.5]):
            binary = self.compile(self.model, "--batch", 2, "--seq", 7, "--place",
                                  "optimizer=host", "--sub-group-size", 1, *more)
            losses.append([step["loss"] for step in self.train(binary, self.data, STEPS)])
        self.assertEqual(*losses)

    def test_ranks_update_their_parts(self):
        """With ZeRO, of 2 ranks each has the gradients of its part; they gather what
        came back."""
        meshes = [("data=2", 0), ("data=2", 1), ("data=2", 2), ("data=2", 3), ("tensor=2", 0)]
        if not h.LONG:
            meshes = [("data=2", 2)]
        for mesh, zero in meshes:
            with self.subTest(mesh=mesh, zero=zero):
                logs = []
                for more in ([], ["--place", "optimizer=host", "--host-updates", 1]):
                    binary = self.job("job", "--mesh", mesh, "--zero", zero, "--precision",
                                      "bf16", *more, clipping=0)
                    log = self.path("run.jsonl")
                    h.run_ranks(2, [h.HEDDLE, "emulate", "--devices", 2, "--", binary, "train",
                                    "--data", self.data, "--steps", STEPS, "--log", log,
                                    "--progress", "none"])
                    logs.append([(step["loss"], step["grad_norm"])
                                 for step in h.read_log(log)])
                    os.remove(log)
                self.assert_alike(logs[1], logs[0])

    def test_a_part_of_the_states(self):
        """With clipping an update of all parameters is cut into runs of them."""
        binary = self.job("here", "--precision", "bf16")
        expected = self.run_job(binary)
        moved = []
        for ratio in (0, 0.4, 1):
            binary = self.job("part", "--precision", "bf16", "--place",
                              "optimizer=host,gradients=device", "--host-updates", ratio)
            plan = self.explain(binary)
            moves = {(move["from"], move["to"]): move["bytes"] for move in plan["moves"]}
            self.assertEqual(plan["host_updates"]["to_device"],
                             moves.get(("pinned", "device"), 0))
            moved.append((moves.get(("host", "device"), 0), moves.get(("pinned", "device"), 0)))
            if 0 < ratio < 1:
                self.assert_alike(self.run_job(binary), expected)
        # Of each parameter 12 bytes go through the device, or 2 come back from the host.
        (states, none), (rest, part), (nothing, copies) = moved
        self.assertEqual((none, nothing), (0, 0))
        self.assertEqual(rest * 2 // 12 + part, copies)
        self.assertEqual(states * 2 // 12, copies)
        self.assertLess(part / copies, 0.4)
        self.assertGreater(part / copies, 0.2)

    def explain_config(self, section, *flags):
        """What --explain-config says of an offload_optimizer."""
        config = h.ds_config(zero_optimization={"stage": 0, "offload_optimizer": section})
        with open(self.path("ds.json"), "w") as file:
            json.dump(config, file)
        return h.run([h.HEDDLE, "compile", self.model, "-o", self.path("job"), "--config",
                      self.path("ds.json"), "--batch", 2, "--seq", 7, "--explain-config",
                      "--all", *flags], env=dict(h.without_ptxas(), COLUMNS="250")).stdout

    def test_ds_config(self):
        """DeepSpeed's CPU updates what is in its memory: all, or `ratio` of it."""
        for ratio, expected in ((None, 1), (0.25, 0.25)):
            section = {"device": "cpu", **({} if ratio is None else {"ratio": ratio})}
            said = self.explain_config(section, "--target", "sm_90")
            self.assertRegex(said, rf"host_updates +{expected}\b")
            # On a CPU it is the kernels' own memory.
            self.assertRegex(self.explain_config(section), r"host_updates +0\b")

    def test_ratio_of_states_that_a_flag_places(self):
        gpu = ["--target", "sm_90"]
        for kind in ("host", "pinned"):
            said = self.explain_config({"ratio": 0.25}, *gpu, "--place", f"optimizer={kind}")
            self.assertRegex(said, r"host_updates +0\.25\b")
        said = self.explain_config({"ratio": 0.25}, *gpu, "--place", "optimizer=host",
                                   "--host-updates", 0.5)
        self.assertRegex(said, r"host_updates +0\.5\b")
        # Without a ratio a flag's states are the device's to update.
        said = self.explain_config({}, *gpu, "--place", "optimizer=host")
        self.assertRegex(said, r"host_updates +0\b")
        said = self.explain_config({"ratio": 0.25}, *gpu, "--place", "optimizer=file")
        self.assertRegex(said, r"host_updates +0\b")
        self.assertIn("no meaning here: no state of the optimizer is in the host's memory",
                      said)

    def test_what_has_no_effect_is_said(self):
        said = h.run([h.HEDDLE, "compile", self.model, "-o", self.path("no"), "--batch", 2,
                      "--seq", 7, "--host-updates", 1, "--place", "optimizer=file"]).stderr
        self.assertIn("warning: --host-updates has no effect", said)

    def test_what_crosses_is_said(self):
        """A gradient in the type that it is summed in, and a parameter in the one that
        is computed with; numbers beside. What the host updates never leaves it."""
        for precision, back in (("bf16", "derived"), ("fp32", "parameter")):
            plan = self.explain(self.job("job", "--precision", precision, "--place",
                                         "optimizer=host,gradients=device",
                                         "--host-updates", 1))
            moves = {(move["from"], move["to"]): move for move in plan["moves"]}
            self.assertEqual(set(moves), {("device", "pinned"), ("pinned", "device")})
            elements = plan["memory"]["owners"]["gradients"] // 4
            width = {"bf16": 2, "fp32": 4}[precision]
            self.assertEqual(moves["pinned", "device"]["bytes"], width * elements)
            self.assertEqual(set(moves["pinned", "device"]["of"]), {back})
            # fp32 parameters are computed with: they are no states of the host.
            crossing = 4 * elements * (1 if precision == "bf16" else 2)
            numbers = moves["device", "pinned"]["bytes"] - crossing
            self.assertGreater(numbers, 0)
            self.assertLess(numbers, 64)
            beside = plan["host_updates"].pop("beside_kernels")
            self.assertEqual(plan["host_updates"], {
                "elements": elements, "to_host": crossing + numbers,
                "to_device": width * elements})
            self.assertLess(beside, elements)

    def test_what_runs_beside_the_backward_pass_is_said(self):
        """Gradients of delayed updates leave beside the GPU's kernels, and so do most
        updates; the norm, for which others wait, is there behind the last of them."""
        beside = []
        for delayed in (["--delayed-update"], []):
            plan = self.explain(self.job("job", "--precision", "bf16", "--place",
                                         "optimizer=host,gradients=device",
                                         "--host-updates", 1, *delayed))
            leave = next(move for move in plan["moves"] if move["from"] == "device")
            host = plan["host_updates"]
            beside.append((leave["beside_kernels"] / leave["bytes"],
                           host["beside_kernels"] / host["elements"]))
        self.assertGreater(beside[0][0], 0.5)
        self.assertGreater(beside[0][1], 0.5)
        text = h.run([h.HEDDLE, "explain", self.path("job")]).stdout
        self.assertRegex(text, r"updates on the host: .* back for each; \d+ of them beside")

    def test_gradients_wait_with_the_optimizer(self):
        """By default, where updates wait for the norm: the device has no room for them."""
        flags = ["--precision", "bf16", "--place"]
        here, there = (self.explain(self.job("job", *flags, place)) for place in
                       ("optimizer=host,gradients=device", "optimizer=host"))
        kinds = [plan["memory"]["kinds"] for plan in (here, there)]
        gradients = here["memory"]["owners"]["gradients"]
        freed = kinds[0]["device"]["persistent"] - kinds[1]["device"]["persistent"]
        self.assertAlmostEqual(freed, gradients, delta=2 * 4096)  # Whole pages.
        taken = kinds[1]["host"]["persistent"] - kinds[0]["host"]["persistent"]
        self.assertAlmostEqual(taken, gradients, delta=2 * 4096)
        said = self.explain(self.job("job", *flags, "optimizer=host,gradients=host"))
        self.assertEqual(said["plan"], there["plan"])
        # A CPU has one memory.
        plans = [self.explain(self.job("job", *flags, place, target="x86-64"))["plan"]
                 for place in ("optimizer=host,gradients=device", "optimizer=host")]
        self.assertEqual(*plans)

    def test_what_comes_back_has_a_name_on_replicas(self):
        plan = self.explain(self.job("job", "--precision", "bf16", "--mesh", "data=2",
                                     "--zero", 1, "--place", "optimizer=host",
                                     "--host-updates", 1))
        back = [move for move in plan["moves"] if move["from"] == "pinned"]
        self.assertEqual([set(move["of"]) for move in back], [{"derived"}])

    def test_replicas_send_what_they_sum_in(self):
        """With ZeRO gradients are summed in bf16 over the replicas: 2 bytes of each go to
        the host, and 2 come back."""
        for zero in (1, 2):
            with self.subTest(zero=zero):
                plan = self.explain(self.job(
                    "job", "--precision", "bf16", "--mesh", "data=2", "--zero", zero,
                    "--place", "optimizer=host,gradients=device", "--host-updates", 1))
                updates = plan["host_updates"]
                self.assertEqual(updates["to_device"], 2 * updates["elements"])
                numbers = updates["to_host"] - 2 * updates["elements"]
                self.assertGreater(numbers, 0)
                self.assertLess(numbers, 64)

    def test_checkpoints_cross(self):
        flags = ["--precision", "bf16"]
        binaries = [self.job("here", *flags),
                    self.job("there", *flags, "--place", "optimizer=host",
                             "--host-updates", 1),
                    self.job("cpu", *flags, target="x86-64")]
        whole = self.run_job(binaries[0], steps=3)
        folder = self.path("saved")
        self.run_job(binaries[1], "--save", folder, steps=2)
        self.assert_alike(self.run_job(binaries[0], "--resume", folder, steps=3), whole[2:])
        rest = self.train(binaries[2], self.data, 3, "--resume", folder)
        for (loss, _), step in zip(whole[2:], rest):
            self.assert_close(step["loss"], loss, 1e-3, "on a CPU")
        folder = self.path("saved-here")
        self.run_job(binaries[0], "--save", folder, steps=2)
        self.assert_alike(self.run_job(binaries[1], "--resume", folder, steps=3), whole[2:])

    def test_gradients_on_their_way_are_bounded(self):
        """Also where parameters stay on the host, and nothing comes back to wait for."""
        flags = ["--target", "sm_90", "--batch", 2, "--seq", 7, "--place",
                 "optimizer=host,parameters=host", "--host-updates", 1, "--sub-group-size",
                 1024]
        model = self.make_model("deep", embed=36, layers=6)[0]
        for clipping in (0, 0.5):
            plan = self.explain(self.compile(
                model, *flags, config=h.ds_config(gradient_clipping=clipping), output="job"))
            gradients = 4 * plan["host_updates"]["elements"]
            pinned = plan["memory"]["kinds"]["pinned"]["arena"]
            self.assertGreater(gradients, 20 * 4096)
            self.assertLessEqual(pinned, 12 * 4096)

    def test_launches_are_not_held_up(self):
        """A step is one graph with the host's updates in it, and who launches it waits
        for the step before, as where the device updates."""
        binary = self.job("job", "--precision", "bf16", "--place", "optimizer=host",
                          "--host-updates", 1)
        found = []
        for steps in (2, 5):
            counts = self.path("counts.json")
            self.run_job(binary, steps=steps, HEDDLE_EMULATE_COUNTS=counts)
            with open(counts) as file:
                found.append(json.load(file))
            self.assertEqual(found[-1]["calls"]["cuGraphLaunch"], steps)
        few, many = found
        for name in ("cuStreamSynchronize", "cuLaunchHostFunc", "cuLaunchKernelEx"):
            self.assertEqual(few["calls"].get(name), many["calls"].get(name), name)
        self.assertEqual(few["last_waits"], many["last_waits"])

    def test_memory_is_planned_by_kind(self):
        """What is on its way is bounded by tiles, and all is allocated as planned."""
        flags = ["--precision", "bf16", "--place", "optimizer=host,gradients=device",
                 "--host-updates", 1]
        memory = [self.explain(self.compile(
            self.model, "--batch", 2, "--seq", 7, "--sub-group-size", size, "--target",
            "sm_90", *flags, output="job"))["memory"] for size in (1024, 1 << 20)]
        arenas = [one["kinds"]["pinned"]["arena"] for one in memory]
        self.assertLess(arenas[0], arenas[1] / 2)
        self.assertEqual(memory[0]["owners"]["windows of states in pinned memory"], arenas[0])
        log = self.path("run.jsonl")
        self.run_job(self.path("job"), steps=1)
        (end,) = h.read_log(log, "end")
        self.assertEqual(end["peak_bytes"]["planned"], end["peak_bytes"]["mapped"])

    def test_a_cpu_does_the_same(self):
        """There the host's memory is the device's: the bits are those without."""
        flags = ["--precision", "bf16"]
        logs = []
        for name, more in (("here", []), ("there", ["--place", "optimizer=host",
                                                    "--host-updates", 1])):
            binary = self.job(name, *flags, *more, target="x86-64", clipping=0)
            for device in ("cpu", "separate:5"):
                log = self.path(f"{name}-{device}.jsonl")
                h.run([binary, "train", "--data", self.data, "--steps", STEPS, "--log", log,
                       "--progress", "none"], env=dict(os.environ, HEDDLE_DEVICE=device))
                logs.append([(step["loss"], step["grad_norm"])
                             for step in h.read_log(log)])
        for log in logs[1:]:
            self.assertEqual(log, logs[0])

    def test_traces_have_a_line_for_the_host(self):
        binary = self.job("traced", "--place", "optimizer=host", "--host-updates", 1,
                          target="x86-64", clipping=0)
        trace = self.path("trace.json")
        h.run([binary, "train", "--data", self.data, "--steps", 1, "--trace", trace,
               "--progress", "none"])
        with open(trace) as file:
            lines = {(event["args"]["command"], event["tid"])
                     for event in json.load(file)["traceEvents"]}
        self.assertEqual({line for command, line in lines if command == "launch"}, {0, 3})

    @h.needs_mpi
    def test_delayed_updates_in_few_tiles(self):
        """The numbers of a step are written when the host has those of the one before.
        The gradient that two stages add up is read where the host keeps it."""
        for ranks, mesh, place in ((1, "data=1", "optimizer=host,gradients=host"),
                                   (2, "pipe=2", "optimizer=host,gradients=host"),
                                   *[(2, "pipe=2", "optimizer=host")] * h.LONG):
            for delayed in ([], ["--delayed-update"]):
                flags = ["--micro-batch", 1, "--seq", 7, "--sub-group-size", 1 << 20,
                         "--mesh", mesh, *delayed]
                there = [*flags, "--place", place, "--host-updates", 1]
                logs = [[(step["loss"], step["grad_norm"]) for step in
                         self.train(self.compile(self.model, *how), self.data, STEPS,
                                    ranks=ranks)] for how in (flags, there)]
                self.assertEqual(*logs)
                self.compile(self.model, *there, "--target", "sm_90")

    def test_ranks_on_cpus(self):
        meshes = [("pipe=2", 0, 2, "optimizer=host"), ("data=2", 1, 1, "optimizer=pinned"),
                  ("data=2", 0, 1, "optimizer=host"), ("data=2", 2, 2, "optimizer=host"),
                  ("data=2", 3, 1, "optimizer=host,parameters=host"),
                  ("tensor=2", 0, 1, "optimizer=host,parameters=pinned")]
        for mesh, zero, accumulate, place in meshes if h.LONG else meshes[:2]:
            with self.subTest(mesh=mesh, zero=zero):
                logs = []
                for more in ([], ["--place", place, "--host-updates", 1]):
                    binary = self.compile(
                        self.model, "--micro-batch", 1, "--accumulate", accumulate, "--seq", 7,
                        "--sub-group-size", 5000, "--mesh", mesh, "--zero", zero, *more,
                        config=h.ds_config(gradient_clipping=0))
                    logs.append([(step["loss"], step["grad_norm"]) for step in
                                 self.train(binary, self.data, STEPS, ranks=2)])
                self.assertEqual(*logs)


if __name__ == "__main__":
    unittest.main()
