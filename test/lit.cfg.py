# How lit runs the tests of this folder; see scripts/test.sh.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The build that is tested: `--param build=DIR`, HEDDLE_BUILD, or build/release.

import os

import lit.formats

config.name = "Heddle"
config.test_format = lit.formats.ShTest(True)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs", "Unit", "Runtime", "EndToEnd", "Fuzz",
                   "ErrorIndex", "Docs"]

root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
build = lit_config.params.get("build") or os.environ.get(
    "HEDDLE_BUILD", os.path.join(root, "build", "release"))
llvm = os.environ.get("HEDDLE_LLVM", "/usr/lib/llvm-19")

config.test_source_root = os.path.join(root, "test")
config.test_exec_root = os.path.join(build, "test", "lit")

config.environment["PATH"] = os.pathsep.join(
    [os.path.join(llvm, "bin"), os.environ.get("PATH", "")])
# Nothing of the user's own cache reaches a test.
config.environment["XDG_CACHE_HOME"] = os.path.join(
    config.test_exec_root, "cache")

for tool in ("heddle-opt", "heddle-lsp-server"):
    config.substitutions.append((tool, os.path.join(build, "bin", tool)))
config.substitutions += [
    ("%heddle", os.path.join(build, "bin", "heddle")),
    # Writes a small Hugging Face directory; needs numpy.
    ("%make_gpt2",
     "/usr/bin/python3 " + os.path.join(root, "test/Inputs/make_gpt2.py")),
    # `%status N COMMAND`: succeeds when COMMAND exits with N.
    ("%status", "/usr/bin/python3 " + os.path.join(
        root, "test/Inputs/expect_status.py")),
    # Roundtrip of the text form.
    ("%roundtrip", "{0} %s | {0} | FileCheck %s".format(
        os.path.join(build, "bin", "heddle-opt"))),
]
