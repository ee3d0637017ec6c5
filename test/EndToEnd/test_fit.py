# What heddle fit says is what heddle compile makes of it.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A mixture that fits compiles to a plan of just as many bytes; with a page less it does
not fit; what fits nowhere is refused by the compiler too."""

import itertools
import json
import subprocess
import unittest

import heddle_test as h

PAGE = 4096
MIB, GIB = 2**20, 2**30


def gpt2(embed, layers, heads, vocab=50257):
    return h.gpt2_config(vocab=vocab, positions=1024, embed=embed, layers=layers,
                         heads=heads)


TINY = h.gpt2_config(vocab=211, positions=64, embed=60, layers=3, heads=3)
MODELS = {"124M": gpt2(768, 12, 12), "355M": gpt2(1024, 24, 16),
          "774M": gpt2(1280, 36, 20), "1.5B": gpt2(1600, 48, 25),
          "2.7B": gpt2(2560, 32, 32), "6.7B": gpt2(4096, 32, 32),
          "13B": gpt2(5120, 40, 40), "30B": gpt2(7168, 48, 56),
          "66B": gpt2(9216, 64, 72), "175B": gpt2(12288, 96, 96),
          "530B": gpt2(20480, 105, 128), "1T": gpt2(25600, 128, 160)}
LINKS = {"intra_node": {"bandwidth": "300GiB", "latency_us": 2},
         "inter_node": {"bandwidth": "25GiB", "latency_us": 5}, "flops": 1e14}
NVME = {"nvme": {"bytes": "2TiB", "read": "3GiB", "write": "2GiB"}}
# As a V100 in a machine of ZeRO-Offload's authors (arXiv 2101.06840, section 6).
GPU = {"nodes": 1, "ranks_per_node": 1, "device_memory": "32GiB", "flops": 1e14,
       "pcie": {"bandwidth": "12GiB", "latency_us": 10}}
MACHINES = {
    "laptop": {"nodes": 1, "ranks_per_node": 1, "host_memory": "16GiB", "flops": 1e11},
    "laptop with files": {"nodes": 1, "ranks_per_node": 1, "host_memory": "16GiB",
                          "flops": 1e11, **NVME},
    "server with files": {"nodes": 1, "ranks_per_node": 2, "host_memory": "256GiB",
                          **LINKS, **NVME},
    "GPU of 32 GiB": {**GPU, "host_memory": "1536GiB"},
    "GPU of 32 GiB with files": {**GPU, "host_memory": "1536GiB", **NVME},
    "64 ranks of 80 GiB": {"nodes": 8, "ranks_per_node": 8, "device_memory": "80GiB",
                           **LINKS},
}


class Fit(h.HeddleTest):
    def write(self, name, value):
        path = self.path(name)
        with open(path, "w") as file:
            json.dump(value, file)
        return path

    def fit(self, model, machine, *flags, status=0):
        """The JSON of heddle fit, and what it wrote to stderr."""
        done = h.run([h.HEDDLE, "fit", self.write("config.json", model), "--cluster",
                      self.write("cluster.json", machine), "--json", *flags],
                     status=status)
        return json.loads(done.stdout), done.stderr

    def peak(self, strategy, *flags, status=0):
        """The bytes of memory of the plan of a strategy, by kind, or the error."""
        done = h.run([h.HEDDLE, "compile", self.path("config.json"), "--init", "random",
                      "--strategy", self.write("strategy.json", strategy), *flags,
                      "-o", self.path("binary")], status=status)
        if status:
            return done.stderr
        plans = self.explain(self.path("binary"))
        ranks = [plans]
        for rank in range(1, plans["ranks"]):
            ranks.append(json.loads(h.run(
                [h.HEDDLE, "explain", self.path("binary"), "--json", "--rank",
                 str(rank)]).stdout))
        kinds = [rank["memory"]["kinds"] for rank in ranks]
        return {kind: most for kind in ("device", "host", "pinned", "file")
                if (most := max(sum(one.get(kind, {}).values()) for one in kinds)) > 0}

    def test_plans_have_the_bytes(self):
        machine = {"nodes": 1, "ranks_per_node": 4, "host_memory": "13MiB", **LINKS,
                   **NVME}
        flags = ["--seq", "48", "--batch", "8"]
        said, _ = self.fit(TINY, machine, *flags)
        self.assertGreater(len(said["fitting"]), 10)
        kinds = {tuple(one["bytes"]) for one in said["fitting"]}
        self.assertEqual(kinds, {("device",), ("device", "file")})
        for one in said["fitting"][::1 if h.LONG else 9]:
            with self.subTest(flags=one["flags"]):
                self.assertEqual(self.peak(one["strategy"], "--seq", "48"),
                                 one["bytes"])

    def test_a_page_less_does_not_fit(self):
        machine = {"nodes": 1, "ranks_per_node": 2, **LINKS, "device_memory": "1GiB"}
        # ZeRO 3 gathers less ahead where there is less room.
        flags = ["--seq", "48", "--batch", "4", "--recompute", "none", "--zero", "1"]
        said, _ = self.fit(TINY, machine, *flags)
        smallest = min(said["fitting"], key=lambda one: one["bytes"]["device"])
        bytes_ = smallest["bytes"]["device"]
        exact, _ = self.fit(TINY, {**machine, "device_memory": f"{bytes_}B"}, *flags)
        self.assertIn(smallest["flags"], [one["flags"] for one in exact["fitting"]])
        less = {**machine, "device_memory": f"{bytes_ - PAGE}B"}
        refused, error = self.fit(TINY, less, *flags, status=4)
        self.assertIn("error[H0228]: nothing fits", error)
        self.assertEqual(refused["nearest"]["bytes"]["device"], bytes_)
        strategy = {**smallest["strategy"], "memory_budget": bytes_ - PAGE}
        self.assertIn("error[H0201]", self.peak(strategy, "--seq", "48", status=4))

    def test_parameters_go_to_files(self):
        """Where the optimizer's states there do not leave room for more rows."""
        machine = {"nodes": 1, "ranks_per_node": 4, "host_memory": "9MiB", **LINKS,
                   **NVME}
        said, _ = self.fit(TINY, machine, "--seq", "48", "--batch", "8", "--mesh",
                           "data=4")
        least = min(said["fitting"], key=lambda one: one["bytes"]["device"])
        self.assertRegex(least["flags"],
                         "--place optimizer=file,(gradients=file,)?parameters=file")
        self.assertEqual(self.peak(least["strategy"], "--seq", "48"), least["bytes"])

    def test_what_is_given_is_kept(self):
        machine = {"nodes": 1, "ranks_per_node": 4, "host_memory": "1GiB", **LINKS}
        said, _ = self.fit(TINY, machine, "--seq", "48", "--batch", "8", "--mesh",
                           "data=2,pipe=2", "--zero", "1", "--micro-batch", "2")
        self.assertEqual([one["flags"] for one in said["fitting"]],
                         ["--mesh data=2,pipe=2 --zero 1 --micro-batch 2"])
        placed, _ = self.fit(TINY, {**machine, **NVME}, "--seq", "48", "--batch", "8",
                             "--mesh", "data=2,pipe=2", "--zero", "1", "--micro-batch",
                             "2", "--place", "activations=file")
        self.assertEqual([one["flags"] for one in placed["fitting"]],
                         ["--mesh data=2,pipe=2 --zero 1 --micro-batch 2 "
                          "--place activations=file"])
        self.assertEqual(self.peak(placed["fitting"][0]["strategy"], "--seq", "48"),
                         placed["fitting"][0]["bytes"])

    def test_one_gpu_takes_a_model_of_13_billion_parameters(self):
        """As ZeRO-Offload says of a V100 of 32 GB and 1.5 TB beside it, with the states
        and gradients in the host's memory; in the GPU's own there is no room."""
        flags = ["--seq", "1024", "--precision", "bf16", "--target", "sm_80",
                 "--micro-batch", "1", "--recompute", "full"]
        machine = MACHINES["GPU of 32 GiB"]
        said, _ = self.fit(MODELS["13B"], machine, *flags, "--place",
                           "optimizer=host,gradients=host")
        (one,) = said["fitting"]
        self.assertEqual(self.peak(one["strategy"], *flags), one["bytes"])
        self.assertLessEqual(one["bytes"]["device"], 32 * GIB)
        # The fp32 parameters, two moments and the gradients.
        self.assertGreater(one["bytes"]["host"], 13e9 * 16 * 0.95)
        self.fit(MODELS["13B"], machine, *flags, "--place", "optimizer=host", status=4)

    def test_updates_on_the_host_take_time(self):
        machine = {**GPU, "host_memory": "16GiB"}
        flags = ["--seq", "48", "--batch", "2", "--target", "sm_80", "--place",
                 "optimizer=host", "--host-updates", "1", "--micro-batch", "2",
                 "--recompute", "none"]
        unrated, warning = self.fit(TINY, machine, *flags)
        self.assertIn("warning: updates on the host's cores count as no time", warning)
        rated, warning = self.fit(TINY, {**machine, "host_memory_bandwidth": "1MiB"},
                                  *flags)
        self.assertEqual(warning, "")
        seconds = [said["fitting"][0]["step_seconds"] for said in (unrated, rated)]
        # An update reads four values of each parameter and writes three.
        elements = rated["fitting"][0]["bytes"]["host"] // 8
        self.assertGreater(seconds[1] - seconds[0], 28 * elements / MIB * 0.9)
        self.assertLess(seconds[1] - seconds[0], 28 * elements / MIB * 1.2)
        # The cluster's file is that of the last search.
        self.peak(rated["fitting"][0]["strategy"], "--seq", "48", "--target", "sm_80",
                  "--host-updates", "1")
        explain = [h.HEDDLE, "explain", self.path("binary"), "--json", "--cluster",
                   self.path("cluster.json")]
        rated = h.run(explain)
        self.assertEqual(rated.stderr, "")
        self.write("cluster.json", machine)
        unrated = h.run(explain)
        self.assertIn("warning: updates on the host's cores count as no time",
                      unrated.stderr)
        # The host is waited for where what it has updated is copied back.
        waits = [json.loads(said.stdout)["exposed"][0]["copies"]
                 for said in (unrated, rated)]
        self.assertGreater(waits[1] - waits[0], 28 * elements / MIB * 0.9)

    def test_models_and_machines(self):
        """The fastest mixture, and the one that needs most, compile within their
        figures; where nothing fits, the compiler refuses the smallest plan."""
        pairs = [("124M", "laptop"), ("1.5B", "laptop"), ("1.5B", "laptop with files"),
                 ("2.7B", "GPU of 32 GiB"), ("1T", "GPU of 32 GiB")]
        if h.LONG:
            pairs = itertools.product(MODELS, MACHINES)
        fitting = 0
        for model, machine in pairs:
            with self.subTest(model=model, machine=machine):
                flags = ["--seq", "1024", "--precision", "bf16"]
                if machine.startswith("GPU"):
                    flags += ["--target", "sm_80"]
                fitting += self.check(MODELS[model], MACHINES[machine], flags)
        self.assertGreater(fitting, 0)

    def check(self, model, machine, flags):
        """Whether anything fits, and that the compiler says so too."""
        config = self.write("config.json", model)
        done = subprocess.run([h.HEDDLE, "fit", config, "--cluster",
                               self.write("cluster.json", machine), "--json", *flags],
                              capture_output=True, text=True, timeout=h.TIMEOUT)
        said = json.loads(done.stdout)
        if not said["fitting"]:
            self.assertEqual(done.returncode, 4, done.stderr)
            limits = said["limits"]
            # No rank has 4 TiB.
            nearest = said.get("nearest", {"strategy": {"recompute": "full"}})
            strategy = {**nearest["strategy"], "memory_budget": limits["device"],
                        "file_budget": limits["file"]}
            if machine.get("device_memory"):
                strategy["host_budget"] = limits["host"]
            self.assertIn("error[H0201]", self.peak(strategy, *flags, status=4))
            return False
        self.assertEqual(done.returncode, 0, done.stderr)
        fitting = said["fitting"]
        most = max(fitting, key=lambda one: sum(one["bytes"].values()))
        for one in (fitting[0], most):
            h.run([h.HEDDLE, "compile", config, "--init", "random", *flags, "--strategy",
                   self.write("strategy.json", one["strategy"]), "-o",
                   self.path("binary")])
            explained = self.explain(self.path("binary"))
            for kind, found in explained["memory"]["kinds"].items():
                bytes_ = one["bytes"].get(kind, 0)
                self.assertLessEqual(sum(found.values()), bytes_)
                limit = said["limits"]["host" if kind == "pinned" else kind]
                self.assertLessEqual(bytes_, limit or bytes_)
        return True


if __name__ == "__main__":
    unittest.main()
