#!/usr/bin/python3
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks the JSON of `heddle explain --json` on standard input: its keys, and
that the owners of memory add up to the peak."""

import json
import sys

plan = json.load(sys.stdin)
keys = {"plan", "parameters", "target", "mesh", "ranks", "phases", "kernels", "memory",
        "communication", "schedule", "bubble", "flops_per_step", "rank",
        "stage", "schedule_lines", "idle", "fragment_times", "times_from", "moves",
        "host_updates", "bound", "programs"}
assert set(plan) == keys, set(plan) ^ keys
assert plan["ranks"] == 1 and plan["communication"] == [] and not plan["moves"]
assert set(plan["host_updates"].values()) == {0}, plan
assert plan["bound"]["parts"] == [{"part": "computation"}], plan["bound"]
for phase in plan["phases"]:
    assert set(phase) == {"name"}, phase
for kernel in plan["kernels"]:
    assert set(kernel) == {"name", "ops", "flops", "bytes", "calls"}, kernel
train, *others = plan["programs"]
assert (train["name"], train["kind"], train["from_step"]) == ("train", "train", 1), train
for program in [train, *others]:
    assert (program["kind"] == "train") == ("from_step" in program), program
    assert 0 < program["memory"] <= plan["memory"]["arena"] and "phase" not in program
    assert program["communication"] == [], program
memory = plan["memory"]
assert set(memory) == {"arena", "persistent", "peak", "owners", "kinds", "files"}, memory
assert set(memory["kinds"]) == {"device"}, memory
assert sum(memory["kinds"]["device"].values()) == memory["peak"]
assert memory["arena"] + memory["persistent"] == memory["peak"]
assert sum(memory["owners"].values()) == memory["peak"]
# Width 16, inner width 64, vocabulary 97, 4 rows of 32 tokens: two for each
# weight of a product and token, four for each feature and pair of tokens in
# attention, which is causal. The backward pass counts twice.
tokens, weights = 4 * 32, 16 * 48 + 16 * 16 + 2 * 16 * 64 + 16 * 97
products, attention = 2 * tokens * weights, 4 * tokens * 16 * (32 + 1) / 2
assert plan["flops_per_step"] == 3 * (products + attention), plan
assert plan["idle"] == [] and plan["bubble"] == 0
