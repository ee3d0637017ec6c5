#!/usr/bin/env python3
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Settings that are given together with a dump: as long as no phase has used
one, it makes the plan that it makes from the model; after that it is refused.
HEDDLE_TEST_LONG=1 makes the plans of all settings, and not of every second one."""

import json
import os
import re
import unittest

from heddle_test import HEDDLE, LONG, ROOT, HeddleTest, run, setting_rows

PHASES = ["import", "model", "train", "shard", "pipe", "spmd", "fuse", "kernels",
          "memory", "prove", "emit"]
MESH = {"batch": 8, "micro_batch": 2, "seq": 16, "threads": 1}
RANKS = {**MESH, "data": 2, "tensor": 2}
ZERO = {**RANKS, "zero": 3}
STAGES = {**MESH, "pipe": 2}
FILED = {**MESH, "place_optimizer": "file"}
CODES = {**MESH, "quantize": "int8"}
PROFILED = {**MESH, "profile_step": 2}
MOQ = {**MESH, "moq": ["all start_bits=8 target_bits=4"]}
SCALED = {**MESH, "loss_scale": "dynamic"}
# The plan before, and another value. Those of `import` are only refused.
CHANGES = {
    "batch": (MESH, 16), "micro_batch": (MESH, 4), "accumulate": (MESH, 2),
    "seq": (MESH, 8), "data": (MESH, 2), "tensor": (MESH, 2),
    "sequence": (MESH, 2), "no_decay": (MESH, ".*bias"), "keep": (MESH, ["logits"]),
    "precision": (MESH, "bf16"), "recompute": (MESH, "full"),
    "optimizer": (MESH, "Adam"), "beta1": (MESH, 0.5), "beta2": (MESH, 0.5),
    "eps": (MESH, 0.5), "weight_decay": (MESH, 0.5), "decoupled": (MESH, False),
    "label_smoothing": (MESH, 0.5),
    "gradient_clipping": (MESH, 0.5), "pipe": (MESH, 2), "zero": (RANKS, 2),
    "communication_type": (RANKS, "bf16"), "sequence_parallel": (RANKS, True),
    "context": ({**MESH, "sequence": 2}, "ring"),
    "param_persistence_threshold": (ZERO, 100),
    "model_persistence_threshold": ({**ZERO, "param_persistence_threshold": 100}, 50),
    "max_reuse_distance": (ZERO, 0), "prefetch_bucket_size": (ZERO, 10),
    "max_live_parameters": (ZERO, 10), "schedule": (STAGES, "gpipe"),
    "virtual_stages": ({**STAGES, "schedule": "interleaved", "virtual_stages": 2}, 1),
    "pipeline_layout": (STAGES, "1,3"), "march": (MESH, "x86-64-v3"),
    "target": (MESH, "sm_80"), "threads": (MESH, 2),
    "threads_of_machine": (MESH, True),
    "gemm": (MESH, "generated"), "matmul": (MESH, "tf32"),
    "memory_budget": (MESH, 1 << 30), "host_budget": (MESH, 1 << 30),
    "file_budget": (FILED, 1 << 30), "place_optimizer": (MESH, "file"),
    "place_parameters": (MESH, "file"), "place_activations": (MESH, "file"),
    "place_gradients": (MESH, "file"), "partition_activations": (MESH, True),
    "host_updates": (FILED, 0.5), "tile": (MESH, ["h.*=2"]),
    "delayed_update": (FILED, True), "chunk_tokens": (MESH, 4),
    "swap_block_size": (FILED, 8192), "swap_queue_depth": (FILED, 4),
    "swap_dir": (FILED, "swap"), "sub_group_size": (FILED, 2048), "collectives": (RANKS, "library"),
    "lr": (MESH, 0.5), "scheduler": (MESH, "WarmupLR"),
    "scheduler_params": ({**MESH, "scheduler": "WarmupLR"},
                         '{"warmup_num_steps":3}'),
    "min_coeff": ({**MESH, "optimizer": "Lamb"}, 0.5),
    "freeze_step": ({**MESH, "optimizer": "OneBitAdam"}, 2),
    "var_freeze_step": ({**MESH, "optimizer": "ZeroOneAdam"}, 2),
    "var_update_scaler": ({**MESH, "optimizer": "ZeroOneAdam"}, 2),
    "local_step_scaler": ({**MESH, "optimizer": "ZeroOneAdam"}, 2),
    "local_step_clipper": ({**MESH, "optimizer": "ZeroOneAdam"}, 1),
    "local_steps": ({**MESH, "optimizer": "ZeroOneAdam"}, False),
    "compress_at_least": ({**MESH, "optimizer": "OneBitAdam"}, 100),
    "max_coeff": ({**MESH, "optimizer": "Lamb"}, 0.5),
    **{key: ({**MESH, "optimizer": "OneBitLamb"}, 0.25) for key in (
        "coeff_beta", "factor_max", "factor_min", "factor_threshold")},
    "fusion": (MESH, "generic"), "quantize": (MESH, "int8"), "quantize_group": (CODES, 32),
    "quantize_zeros": (CODES, True),
    "quantize_activations": (CODES, "int8"),
    "keep16bit": (CODES, ["wte*"]),
    "extend_positions": (MESH, "32"),
    "attention_layout": (MESH, ["layout.safetensors"]),
    "attention_layout_causal": (MESH, True),
    "profile_step": (MESH, 2), "profile_depth": (PROFILED, 1),
    "profile_top": (PROFILED, 2), "profile_file": (PROFILED, "profile.txt"),
    "wall_clock_breakdown": (MESH, True), "comms_logger": (MESH, True),
    "memory_breakdown": (MESH, True), "log_tensorboard": (MESH, "events"),
    "log_csv": (MESH, "log.csv"),
    "layer_drop_theta": (MESH, 0.5), "layer_drop_schedule": (MESH, "0.5"),
    "layer_drop_gamma": ({**MESH, "layer_drop_theta": 0.5}, 0.5),
    "loss_scale": (MESH, "dynamic"), "loss_scale_initial": (SCALED, 4.0),
    "loss_scale_window": (SCALED, 5), "loss_scale_hysteresis": (SCALED, 3),
    "loss_scale_consecutive_hysteresis": (SCALED, True), "loss_scale_min": (SCALED, 0.5),
    "moq": (MESH, ["all start_bits=8 target_bits=4"]), "moq_groups": (MOQ, 2),
    "moq_type": (MOQ, "asymmetric"), "moq_offset": (MOQ, 3),
    "moq_in_forward": (MOQ, True), "moq_change_ratio": (MOQ, 0.5),
    "group": (MESH, ["wte:frozen"]), "objective": (MESH, "mlm"),
    "mode": (MESH, "serve"), "max_batch": (MESH, 2), "max_context": (MESH, 4),
    "kv_cache": (MESH, 1 << 20), "kv_type": (MESH, "bf16"),
}
# Plans that cannot be had as far as a binary.
UNFINISHED = {"target", "context", "virtual_stages"}


def fields():
    """The first and the last phase of every setting, by its key."""
    return {row["key"].strip("`"): re.findall(r"\w+", row["phases"].replace(" to ", " "))
            for row in setting_rows()}


class Restart(HeddleTest):
    takes_long = True

    def setUp(self):
        self.model = self.make_model(layers=4, positions=16, embed=16, heads=2)[0]
        self.dumps = {}

    def compile_with(self, model, settings, *flags, status=0):
        with open(self.path("strategy.json"), "w") as file:
            json.dump(settings, file)
        cache = os.environ.get("HEDDLE_TEST_CACHE") or self.path("cache")
        return run([HEDDLE, "compile", model, "--strategy",
                    self.path("strategy.json"), "--cache", cache, *flags],
                   status=status)

    def dump_of(self, settings):
        """The directory with the dumps of a plan."""
        key = json.dumps(settings)
        if key not in self.dumps:
            self.dumps[key] = self.path(f"dumps{len(self.dumps)}")
            self.compile_with(self.model, settings, "--stop-after", "prove",
                              "--dump-phases", self.dumps[key])
        return self.dumps[key]

    def plan_of(self, model, settings, *flags):
        self.compile_with(model, settings, "-o", self.path("job"), *flags)
        text = run([HEDDLE, "explain", self.path("job"), "--json"]).stdout
        return json.loads(text)["plan"]

    def test_every_setting_is_tried(self):
        self.assertEqual(set(CHANGES), set(fields()))

    def test_a_setting_is_used_or_refused(self):
        for number, (key, (first, *_)) in enumerate(fields().items()):
            before, value = CHANGES[key]
            with self.subTest(key=key):
                dumps, change = self.dump_of(before), {key: value}
                if first != "emit":
                    result = self.compile_with(
                        os.path.join(dumps, first + ".mlir"), change,
                        "--start-from", first, "-o", self.path("job"), status=2)
                    self.assertIn("error[H0113]: " + key, result.stderr)
                    self.assertIn("cannot be changed after the phase " + first,
                                  result.stderr)
                if first == "import" or key in UNFINISHED or (number % 2 and not LONG):
                    continue
                last = PHASES[PHASES.index(first) - 1]
                self.assertEqual(
                    self.plan_of(os.path.join(dumps, last + ".mlir"), change,
                                 "--start-from", last),
                    self.plan_of(self.model, {**before, **change}))

    def test_phases_that_use_a_setting_are_in_its_row(self):
        folders = {"Codegen": "kernels", "Emit": "emit"}
        folders.update({"Transforms/" + phase.capitalize(): phase
                        for phase in PHASES[:-1] if phase != "kernels"})
        rows = fields()
        for folder, phase in folders.items():
            for where, _, names in os.walk(os.path.join(ROOT, "lib", folder)):
                for name in names:
                    with open(os.path.join(where, name)) as file:
                        used = re.findall(r"\bstrategy\.([a-z]\w*)\b(?!\()",
                                          file.read())
                    for field in used:
                        key = re.sub(r"([A-Z])", r"_\1", field).lower()
                        if key not in rows:
                            continue
                        first, last = rows[key][0], rows[key][-1]
                        self.assertIn(phase, PHASES[PHASES.index(first):
                                                    PHASES.index(last) + 1],
                                      f"{name}: {key}")


if __name__ == "__main__":
    unittest.main()
