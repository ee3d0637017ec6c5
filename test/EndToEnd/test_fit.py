# What heddle fit says is what heddle compile makes of it.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A mixture that fits compiles to a plan of just as many bytes; with a page less it does
not fit; what fits nowhere is refused by the compiler too."""

import itertools
import json
import re
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
                     status=status, env=h.without_ptxas())
        return json.loads(done.stdout), done.stderr

    def peak(self, strategy, *flags, status=0):
        """The bytes of memory of the plan of a strategy, by kind, or the error."""
        done = h.run([h.HEDDLE, "compile", self.path("config.json"), "--init", "random",
                      "--strategy", self.write("strategy.json", strategy), *flags,
                      "-o", self.path("binary")], status=status, env=h.without_ptxas())
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
        if not h.LONG:
            flags += ["--micro-batch", "2"]
        said, _ = self.fit(TINY, machine, *flags)
        self.assertGreater(len(said["fitting"]), 10)
        kinds = {tuple(one["bytes"]) for one in said["fitting"]}
        self.assertEqual(kinds, {("device",), ("device", "file")})
        for one in said["fitting"][::1 if h.LONG else 6]:
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

    def test_what_is_given_up_does_not_fit(self):
        """A mixture whose model alone has no room is not compiled to the end."""
        machine = {"nodes": 1, "ranks_per_node": 4, **LINKS, "device_memory": "1GiB"}
        flags = ["--seq", "48", "--batch", "8", "--micro-batch", "1", "--recompute", "full"]
        all_, _ = self.fit(TINY, machine, *flags)
        self.assertEqual(all_["too_large"], 0)
        sizes = sorted(one["bytes"]["device"] for one in all_["fitting"])
        limit = sizes[len(sizes) // 2]
        some, _ = self.fit(TINY, {**machine, "device_memory": f"{limit}B"}, *flags)
        self.assertGreater(some["too_large"], 0)
        self.assertEqual(some["too_large"] + some["compiled"], all_["compiled"])
        kept = {one["flags"] for one in some["fitting"]}
        for one in all_["fitting"]:
            if one["bytes"]["device"] <= limit:
                self.assertIn(one["flags"], kept)
        none, error = self.fit(TINY, {**machine, "device_memory": "64KiB"}, *flags, status=4)
        self.assertGreater(none["too_large"], all_["compiled"] - 1)
        # What is planned without limits is as what has ample room.
        self.assertEqual(none["nearest"]["bytes"]["device"], sizes[0])
        self.assertIn("error[H0228]: nothing fits", error)

    def test_the_cheapest_change_is_named(self):
        """In place of a plan that is over its budget, by the times of the cluster."""
        flags = ["--seq", "48", "--batch", "2", "--micro-batch", "1"]
        said, _ = self.fit(TINY, {"nodes": 1, "ranks_per_node": 1, "device_memory": "1GiB"},
                           *flags, "--recompute", "none")
        budget = said["fitting"][0]["bytes"]["device"] - 10 * PAGE
        compile_ = [h.HEDDLE, "compile", self.path("config.json"), "--init", "random", *flags,
                    "--memory-budget", f"{budget}B", "-o", self.path("binary")]
        slow, fast = ({"bytes": "1TiB", "read": rate, "write": rate}
                      for rate in ("1MiB", "100GiB"))
        machine = {"nodes": 1, "ranks_per_node": 1}
        named = []
        for times in ({"flops": 1e12, "nvme": slow}, {"flops": 1e6, "nvme": fast}):
            cluster = ["--cluster", self.write("cluster.json", {**machine, **times})]
            error = h.run([*compile_, *cluster], status=4).stderr
            self.assertIn("error[H0201]", error)
            named.append(re.search("help: compile with (.*)", error)[1].split())
            h.run([*compile_, *cluster, *named[-1]])
        self.assertEqual(named[0][0], "--recompute")
        self.assertEqual(named[1][0], "--place")
        # Without a cluster there are the times of a usual machine.
        error = h.run(compile_, status=4).stderr
        self.assertEqual(re.search("help: compile with (.*)", error)[1].split(), named[0])

    def test_what_is_on_file_comes_back(self):
        """A plan over its budget of files is told what to keep elsewhere."""
        compile_ = [h.HEDDLE, "compile", self.write("config.json", TINY), "--init", "random",
                    "--seq", "48", "--batch", "2", "--place",
                    "optimizer=file,parameters=file,activations=file",
                    "-o", self.path("binary")]
        h.run(compile_)
        bytes_ = self.explain(self.path("binary"))["memory"]["kinds"]["file"]["persistent"]
        named = []
        for budget in (bytes_ - PAGE, PAGE):
            limited = [*compile_, "--memory-budget", f"file={budget}B"]
            error = h.run(limited, status=4).stderr
            self.assertIn("error[H0201]", error)
            named.append(re.search("help: compile with (.*)", error)[1].split())
            h.run([*limited, *named[-1]])
        self.assertEqual(named[0], ["--place", "optimizer=file,parameters=file,"
                                               "activations=device"])
        self.assertEqual(named[1], ["--place", "optimizer=device,parameters=device,"
                                               "activations=device"])

    def test_parameters_go_to_files(self):
        """Where the optimizer's states there do not leave room for more rows."""
        machine = {"nodes": 1, "ranks_per_node": 4, "host_memory": "9MiB", **LINKS,
                   **NVME}
        # A search for every stage of ZeRO takes long.
        some = [] if h.LONG else ["--micro-batch", "2", "--zero", "1"]
        said, _ = self.fit(TINY, machine, "--seq", "48", "--batch", "8", "--mesh",
                           "data=4", *some)
        filed = [one for one in said["fitting"] if re.search(
            "--place optimizer=file,(gradients=file,)?parameters=file", one["flags"])]
        self.assertTrue(filed)
        for one in filed:
            self.assertEqual(self.peak(one["strategy"], "--seq", "48"), one["bytes"])

    def test_gradients_or_parameters_go_to_files(self):
        """What moves less: in bf16, of one micro-batch, parameters."""
        machine = {"nodes": 1, "ranks_per_node": 1, "flops": 3e11, "host_memory":
                   "600MiB", **NVME}
        flags = ["--seq", "64", "--batch", "1", "--precision", "bf16", "--recompute", "none"]
        said, _ = self.fit(MODELS["124M"], machine, *flags)
        self.assertEqual([one["flags"] for one in said["fitting"]],
                         [f"--micro-batch 1 --place optimizer=file,{role}=file"
                          for role in ("parameters", "gradients")])
        error = h.run([h.HEDDLE, "compile", self.path("config.json"), "--init", "random",
                       *flags, "--cluster", self.path("cluster.json"), "--memory-budget",
                       "600MiB", "-o", self.path("binary")], status=4).stderr
        self.assertIn("help: compile with --place optimizer=file,parameters=file\n", error)

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
        self.assertEqual({one["strategy"]["host_updates"] for one in said["fitting"]},
                         {0, 1})
        for one in said["fitting"]:
            self.assertEqual(self.peak(one["strategy"]), one["bytes"])
            self.assertLessEqual(one["bytes"]["device"], 32 * GIB)
            # The fp32 parameters, two moments and the gradients.
            self.assertGreater(one["bytes"]["host"], 13e9 * 16 * 0.95)
        # Gradients go with the optimizer unless they are told to stay.
        one = said["fitting"][0]
        alone, _ = self.fit(MODELS["13B"], machine, *flags, "--place", "optimizer=host",
                            "--host-updates", str(one["strategy"]["host_updates"]))
        self.assertEqual(alone["fitting"][0]["bytes"], one["bytes"])
        self.fit(MODELS["13B"], machine, *flags, "--place",
                 "optimizer=host,gradients=device", status=4)

    def test_files_take_models_beyond_the_memory_of_the_host(self):
        """16 bytes a parameter are more than the host has; of parameters the GPU has to
        hold those of a layer, and of states some windows."""
        flags = ["--seq", "1024", "--precision", "bf16", "--target", "sm_80",
                 "--micro-batch", "1", "--recompute", "full", "--host-updates", "0",
                 "--sub-group-size", "200000000"]
        for model, memory in [("30B", "256GiB"), *[("175B", "1536GiB")] * h.LONG]:
            machine = {**GPU, "host_memory": memory}
            # A whole search takes long.
            host, file = ([], []) if h.LONG else (
                ["--place", "optimizer=host,gradients=host,parameters=host"],
                ["--place", "optimizer=file,gradients=file,parameters=host"])
            with self.subTest(model=model):
                if h.LONG:
                    _, error = self.fit(MODELS[model], machine, *flags, status=4)
                    self.assertIn("error[H0228]: nothing fits", error)
                else:
                    said, _ = self.fit(MODELS[model], {**machine, "host_memory": "1TiB"},
                                       *flags, *host)
                    self.assertGreater(said["fitting"][0]["bytes"]["host"], 256 * GIB)
                said, _ = self.fit(MODELS[model], {**machine, **NVME}, *flags, *file)
                one = said["fitting"][0]
                self.assertGreater(one["bytes"]["file"], 0)
                self.assertEqual(self.peak(one["strategy"]), one["bytes"])

    def test_the_host_updates_and_memory_is_pinned(self):
        """Beside a GPU whose memory has no room for the states, and only there."""
        machine = {**GPU, "device_memory": "3MiB", "host_memory": "1GiB",
                   "host_memory_bandwidth": "100GiB"}
        flags = ["--seq", "48", "--batch", "2", "--micro-batch", "1", "--target", "sm_80"]
        said, _ = self.fit(TINY, machine, *flags)
        chosen = [(one["strategy"]["place_optimizer"], one["strategy"]["host_updates"])
                  for one in said["fitting"]]
        self.assertIn(("host", 0), chosen)
        self.assertIn(("host", 1), chosen)
        self.assertEqual(sum(kind == "pinned" for kind, _ in chosen), 1)
        fastest = next(one for one in said["fitting"]
                       if one["strategy"]["place_optimizer"] == "host")
        (pinned,) = (one for one in said["fitting"]
                     if one["strategy"]["place_optimizer"] == "pinned")
        self.assertEqual(sum(pinned["bytes"].values()), sum(fastest["bytes"].values()))
        for one in (fastest, pinned):
            self.assertEqual(self.peak(one["strategy"]), one["bytes"])
        kept, _ = self.fit(TINY, machine, *flags, "--host-updates", "1")
        self.assertEqual({one["strategy"]["host_updates"] for one in kept["fitting"]}, {1})
        placed, _ = self.fit(TINY, machine, *flags, "--place", "optimizer=pinned")
        self.assertEqual({one["strategy"]["host_updates"] for one in placed["fitting"]},
                         {0, 1})
        cpu, _ = self.fit(TINY, {**machine, **NVME}, *flags[:6], "--target", "x86-64")
        self.assertEqual({one["strategy"]["host_updates"] for one in cpu["fitting"]}, {0})

    def test_a_strategy_says_all(self):
        """What the flags of the search say, too: the compiler needs none of them."""
        machine = {**GPU, "device_memory": "1GiB", "host_memory": "1GiB"}
        flags = ["--seq", "48", "--batch", "2", "--precision", "bf16", "--target", "sm_90",
                 "--delayed-update", "--chunk-tokens", "16", "--group", "wte:frozen",
                 "--optimizer", "Lion", "--gemm", "generated"]
        output = self.path("fits.json")
        said, _ = self.fit(TINY, machine, *flags, "-o", output)
        with open(output) as file:
            strategy = json.load(file)
        self.assertEqual(strategy, said["fitting"][0]["strategy"])
        self.assertNotIn("threads", strategy)
        plans = []
        for more in (["--strategy", output], [*flags, "--strategy", output]):
            h.run([h.HEDDLE, "compile", self.path("config.json"), "--init", "random",
                   "-o", self.path("binary"), *more], env=h.without_ptxas())
            plans.append(self.explain(self.path("binary"))["plan"])
        self.assertEqual(*plans)
        self.assertEqual(self.peak(strategy), said["fitting"][0]["bytes"])

    def test_mixtures_that_differ_in_nothing_are_one(self):
        machine = {**GPU, "host_memory": "1GiB", "device_memory": "1GiB"}
        said, _ = self.fit(TINY, machine, "--seq", "48", "--batch", "4", "--target", "sm_80")
        alike = [(one["step_seconds"], *one["bytes"].items(),
                  one["flags"].split(" --micro-batch ")[0],
                  one["flags"].split(" --recompute ")[1:]) for one in said["fitting"]]
        self.assertEqual(len(alike), len({str(one) for one in alike}))

    def test_a_budget_has_two_names(self):
        machine = {"nodes": 1, "ranks_per_node": 1, "flops": 1e11}
        said = [self.fit(TINY, machine, "--seq", "48", "--micro-batch", "1", flag, "64MiB")[0]
                for flag in ("--budget", "--memory-budget")]
        self.assertEqual(*said)
        self.assertEqual(said[0]["limits"]["device"], 64 * MIB)
        # Memories that the cluster file does not have are there.
        machine = {key: GPU[key] for key in ("nodes", "ranks_per_node", "flops")}
        said, warned = self.fit(TINY, machine, "--seq", "48", "--micro-batch", "1",
                                "--target", "sm_80", "--recompute", "none", "--budget",
                                "device=2200KiB,host=1GiB,file=1GiB")
        for key in ("nvme", "pcie"):
            self.assertIn(f"cluster.json does not say {key}\n", warned)
        flags = " ".join(one["flags"] for one in said["fitting"])
        self.assertIn("optimizer=host", flags)
        self.assertIn("activations=file", flags)

    def test_updates_on_the_host_take_time(self):
        machine = {**GPU, "host_memory": "16GiB"}
        flags = ["--seq", "48", "--batch", "2", "--target", "sm_80", "--place",
                 "optimizer=host,gradients=device", "--host-updates", "1", "--micro-batch", "2",
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

    def test_explain_says_what_bounds_a_step(self):
        config = self.write("config.json", TINY)
        binary = self.path("binary")
        h.run([h.HEDDLE, "compile", config, "--init", "random", "--seq", "48", "--batch", "2",
               "--target", "sm_80", "--precision", "bf16", "--place",
               "optimizer=host,parameters=file", "--host-updates", "1", "-o", binary],
              env=h.without_ptxas())
        machine = {**GPU, "device_memory": "1GiB", "host_memory": "1GiB",
                   "host_memory_bandwidth": "100GiB", **NVME}

        def bound(**change):
            said = json.loads(h.run([h.HEDDLE, "explain", binary, "--json", "--cluster",
                                     self.write("cluster.json",
                                                {**machine, **change})]).stdout)
            return said, {part["part"]: part for part in said["bound"]["parts"]}
        links = {"bandwidth": "1MiB", "latency_us": 0}
        slow = {"bytes": "2TiB", "read": "1MiB", "write": "1MiB"}
        for change, by in (({"flops": 1e6}, "computation"), ({"nvme": slow}, "disk"),
                           ({"host_memory_bandwidth": "1MiB"}, "updates on the host")):
            said, parts = bound(**change)
            self.assertEqual(said["bound"]["by"], by)
            self.assertEqual(said["bound"]["times_from"], "cluster")
        self.assertEqual(list(parts)[0], "computation")
        self.assertAlmostEqual(parts["updates on the host"]["seconds"],
                               parts["updates on the host"]["bytes"] / MIB)
        # Copies in memory have the link to themselves, those of files share it.
        said, parts = bound(pcie=links)
        device = [move for move in said["moves"] if "device" in (move["from"], move["to"])]
        for move in device:
            if "file" not in (move["from"], move["to"]):
                self.assertAlmostEqual(parts[f"{move['from']} to {move['to']}"]["seconds"],
                                       move["bytes"] / MIB, 4)
        on_disk = sum(move["bytes"] for move in device if "file" in (move["from"], move["to"]))
        self.assertGreater(parts["disk"]["seconds"], 0.9 * on_disk / MIB)
        # What the cluster does not say has no time.
        del machine["nvme"]
        said, parts = bound()
        self.assertNotIn("seconds", parts["disk"])
        text = h.run([h.HEDDLE, "explain", binary, "--cluster",
                      self.path("cluster.json")]).stdout
        self.assertRegex(text, r"what bounds a step, by the cluster's times\n(.*\n)*"
                         r"  disk .* the cluster does not say how fast\n")
        self.assertRegex(text, r"\n  \w.* the bound\n")
        # Without a cluster there are rates.
        said = json.loads(h.run([h.HEDDLE, "explain", binary, "--json"]).stdout)
        for part in said["bound"]["parts"][1:]:
            self.assertAlmostEqual(part["bytes_per_flop"],
                                   part["bytes"] / said["flops_per_step"])
        self.assertNotIn("by", said["bound"])
        self.assertIn("is the bound where computation is faster than",
                      h.run([h.HEDDLE, "explain", binary]).stdout)

    def test_models_and_machines(self):
        """The fastest mixture, and the one that needs most, compile within their
        figures; where nothing fits, the compiler refuses the smallest plan."""
        pairs = [("124M", "laptop"), ("1.5B", "laptop"), ("1.5B", "laptop with files"),
                 ("2.7B", "GPU of 32 GiB")]
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
                              capture_output=True, text=True, timeout=2 * h.TIMEOUT,
                              env=h.without_ptxas())
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
                   self.path("binary")], env=h.without_ptxas())
            explained = self.explain(self.path("binary"))
            for kind, found in explained["memory"]["kinds"].items():
                bytes_ = one["bytes"].get(kind, 0)
                self.assertLessEqual(sum(found.values()), bytes_)
                limit = said["limits"]["host" if kind == "pinned" else kind]
                self.assertLessEqual(bytes_, limit or bytes_)
        return True


if __name__ == "__main__":
    unittest.main()
