#!/usr/bin/env python3
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reports of `train` on the parts of steps, on communication and on memory, by flags
and by ds_config.json; and the peak of which MFU is a share."""

import json
import os
import unittest

import heddle_test as h
import test_gpu
from heddle_test import HeddleTest, ds_config, run_ranks

ROWS, SEQ, STEPS = 4, 32, 3
PARTS = ["forward_s", "backward_s", "optimizer_s", "waits_s", "copies_s",
         "not_covered_s"]
# Factors of NCCL's tests, by the number of ranks.
BUS = {"all_reduce": lambda n: 2 * (n - 1) / n, "all_gather": lambda n: (n - 1) / n,
       "reduce_scatter": lambda n: (n - 1) / n, "all_to_all": lambda n: (n - 1) / n,
       "rotate": lambda n: 1, "receive": lambda n: 1, "send": lambda n: 0}


class Reports(HeddleTest):
    def prepare(self, *flags, **keys):
        model, config, _ = self.make_model()
        self.data, _ = self.make_tokens(3000, config["vocab_size"])
        return self.compile(model, "--batch", ROWS, "--seq", SEQ, "--threads", 1,
                            *flags, config=ds_config(**keys))

    def events(self, binary, *flags, ranks=1, steps=STEPS):
        """The events of a run's log by kind, and what the run printed."""
        log = self.path("run.jsonl")
        if os.path.exists(log):
            os.remove(log)
        said = run_ranks(ranks, [binary, "train", "--data", self.data, "--steps", steps,
                                 "--log", log, "--progress", "plain", *flags]).stderr
        events = {}
        with open(log) as stream:
            for line in stream:
                event = json.loads(line)
                events.setdefault(event["event"], []).append(event)
        return events, said

    def check_breakdown(self, steps):
        for step in steps:
            parts = step["breakdown"]
            self.assertEqual(list(parts), PARTS)
            for name, seconds in parts.items():
                self.assertGreaterEqual(seconds, 0, name)
            for name in ("forward_s", "backward_s", "optimizer_s"):
                self.assertGreater(parts[name], 0, name)
            self.assertAlmostEqual(sum(parts.values()), step["time_s"],
                                   delta=0.02 * step["time_s"])

    def test_breakdown(self):
        binary = self.prepare()
        plain, said = self.events(binary)
        self.assertNotIn("breakdown", plain["step"][0])
        self.assertNotIn("not covered", said)
        events, said = self.events(binary, "--wall-clock-breakdown")
        self.check_breakdown(events["step"])
        self.assertEqual(said.count("not covered"), STEPS)
        self.assertEqual([step["loss"] for step in events["step"]],
                         [step["loss"] for step in plain["step"]])

    def test_breakdown_on_ranks(self):
        binary = self.prepare("--mesh", "pipe=2", "--accumulate", 2)
        events, _ = self.events(binary, "--wall-clock-breakdown", ranks=2)
        self.check_breakdown(events["step"])
        self.assertGreater(events["step"][-1]["breakdown"]["waits_s"], 0)

    def check_communication(self, events, ranks, steps=STEPS):
        (report,) = events["comms"]
        for row in report["operations"]:
            self.assertEqual(row["count"] % steps, 0, row)
            expected = 0
            if row["operation"] != "send":
                self.assertGreater(row["time_s"], 0)
                expected = (BUS[row["operation"]](row["ranks"]) * row["bytes"] *
                            row["count"] / row["time_s"])
            self.assertAlmostEqual(row["bus_bytes_per_s"], expected,
                                   delta=1e-6 * expected)
            self.assertIn(row["slowest_rank"], range(ranks))
            self.assertGreaterEqual(row["slowest_s"], row["time_s"])
            self.assertGreaterEqual(row["straggling_s"], 0)
        return {(row["operation"], row["axes"]): row for row in report["operations"]
                if row["bytes"] > 1000}

    def test_communication(self):
        binary = self.prepare("--mesh", "data=2", "--zero", 1)
        events, said = self.events(binary, "--comms-logger", ranks=2)
        rows = self.check_communication(events, ranks=2)
        parameters = self.explain(binary)["parameters"]
        # Gradients are scattered in f32, and updated parameters gathered.
        for operation in ("reduce_scatter", "all_gather"):
            rest = [row for (name, axes), row in rows.items()
                    if name == operation and axes == "data"]
            self.assertTrue(rest, rows)
            self.assertGreaterEqual(sum(row["bytes"] * row["count"] // STEPS
                                        for row in rest), 4 * parameters * 0.5)
        self.assertIn("communication of the run", said)
        self.assertIn("reduce_scatter", said)
        self.assertNotIn("comms", self.events(binary, ranks=2)[0])

    def test_communication_counts_what_the_plan_has(self):
        """All collectives of the trace's first step are in the report of one step."""
        binary = self.prepare("--mesh", "tensor=2")
        trace = self.path("trace.json")
        events, _ = self.events(binary, "--comms-logger", "--trace", trace, ranks=2,
                                steps=1)
        with open(trace.replace(".json", ".rank0.json")
                  if not os.path.exists(trace) else trace) as stream:
            traced = json.load(stream)
        traced = traced["traceEvents"] if isinstance(traced, dict) else traced
        started = [event for event in traced
                   if event.get("args", {}).get("command") == "collective"]
        (report,) = events["comms"]
        self.assertEqual(sum(row["count"] for row in report["operations"]),
                         len(started))

    def test_messages(self):
        binary = self.prepare("--mesh", "pipe=2", "--accumulate", 2)
        events, _ = self.events(binary, "--comms-logger", ranks=2)
        self.check_communication(events, ranks=2)
        (report,) = events["comms"]
        counts = {}
        for row in report["operations"]:
            counts[row["operation"]] = counts.get(row["operation"], 0) + row["count"]
        # Activations of 2 micro-batches in one direction, gradients in the other.
        self.assertEqual(counts["send"], counts["receive"])
        self.assertGreaterEqual(counts["send"], 2 * STEPS)

    def test_communication_of_one_rank(self):
        self.assertNotIn("comms", self.events(self.prepare(), "--comms-logger")[0])

    def test_memory(self):
        binary = self.prepare()
        events, said = self.events(binary, "--memory-breakdown")
        (report,) = events["memory"]
        plan = self.explain(binary)
        owners = {row["owner"]: row for row in report["owners"][:-1]}
        self.assertEqual({name: row["planned"] for name, row in owners.items()},
                         plan["memory"]["owners"])
        for name in ("parameters", "optimizer"):
            resident, planned = owners[name]["resident"], owners[name]["planned"]
            self.assertLessEqual(resident, planned, name)  # Without padding.
            self.assertGreater(resident, 0.98 * planned, name)
        arena = report["owners"][-1]
        self.assertEqual(arena["planned"], plan["memory"]["arena"])
        self.assertLessEqual(arena["resident"], arena["planned"])
        self.assertGreater(arena["resident"], 0)
        self.assertIn("memory of rank 0", said)

    def test_defaults_of_ds_config(self):
        binary = self.prepare("--mesh", "data=2", wall_clock_breakdown=True,
                              memory_breakdown=True, comms_logger={"enabled": True})
        events, _ = self.events(binary, ranks=2)
        self.check_breakdown(events["step"])
        self.assertIn("comms", events)
        self.assertIn("memory", events)
        events, _ = self.events(binary, "--wall-clock-breakdown=false",
                                "--memory-breakdown=false", "--comms-logger=false",
                                ranks=2)
        self.assertNotIn("breakdown", events["step"][0])
        self.assertNotIn("comms", events)
        self.assertNotIn("memory", events)

    def test_monitors_of_ds_config(self):
        here = self.path("logs")
        binary = self.prepare(
            tensorboard={"enabled": True, "output_path": here, "job_name": "board"},
            csv_monitor={"enabled": True, "output_path": here})
        self.events(binary)
        self.assertEqual(len(os.listdir(os.path.join(here, "board"))), 1)
        table = os.path.join(here, "DeepSpeedJobName", "log.csv")
        with open(table) as stream:
            self.assertEqual(len(stream.readlines()), 1 + STEPS)
        # Flags win.
        self.events(binary, "--log-csv", self.path("own.csv"), steps=1)
        with open(table) as stream:
            self.assertEqual(len(stream.readlines()), 1 + STEPS)
        with open(self.path("own.csv")) as stream:
            self.assertEqual(len(stream.readlines()), 2)

    def test_peak(self):
        """No step's MFU is above 1, and the log has the peak that it is a share of."""
        binary = self.prepare()
        events, said = self.events(binary, "--profile-file", self.path("p.json"))
        first = events["peak"][0]
        self.assertEqual(first["step"], 0)
        self.assertGreater(first["flops_per_s"], 0)
        self.assertIn(first["kind"], ("measured", "best seen"))
        self.assertIn(first["unit"], said)
        for step in events["step"]:
            if step["mfu"] is not None:
                self.assertLessEqual(step["mfu"], 1)
        with open(self.path("p.json")) as stream:
            profile = json.load(stream)
        self.assertLessEqual(profile["mfu"], 1)
        self.assertAlmostEqual(
            profile["mfu"] * profile["peak_flops_per_s"], profile["model_flops_per_s"],
            delta=1e-6 * profile["model_flops_per_s"])


class ReportsOfGpus(test_gpu.GpuTest):
    """Emulated GPUs: their times are those of the emulation, but counts are exact."""

    @h.needs_mpi
    def test_as_on_the_cpu(self):
        self.data_of(STEPS)
        model, _, _ = self.make_model(vocab=test_gpu.VOCAB)
        cpu, gpu = self.pair(model, "--mesh", "data=2", "--zero", 1)
        command = test_gpu.emulated(gpu)
        plain = self.train_on(command, STEPS, ranks=2, **h.LIGHT)
        flags = ["--wall-clock-breakdown", "--comms-logger", "--profile-file",
                 self.path("profile.json")]
        steps = self.train_on(command, STEPS, *flags, ranks=2, **h.LIGHT)
        self.assertEqual([step["loss"] for step in steps],
                         [step["loss"] for step in plain])
        for step in steps:
            parts = step["breakdown"]
            self.assertTrue(all(seconds >= 0 for seconds in parts.values()), parts)
            self.assertAlmostEqual(sum(parts.values()), step["time_s"],
                                   delta=0.02 * step["time_s"])
        with open(self.path("profile.json")) as stream:
            profile = json.load(stream)
        self.assertTrue(any("CUDA graphs" in note for note in profile["notes"]))
        found = self.operations()
        self.train_on([cpu], STEPS, "--comms-logger", ranks=2)
        self.assertEqual(found, self.operations())

    def operations(self):
        """What the log of communication counts."""
        with open(self.path("run.jsonl")) as stream:
            (report,) = [event for event in map(json.loads, stream)
                         if event["event"] == "comms"]
        return sorted([row["operation"], row["axes"], row["bytes"], row["count"]]
                      for row in report["operations"])


if __name__ == "__main__":
    unittest.main()
