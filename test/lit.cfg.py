# Configuration of the tests that lit runs: `lit.py --param build=DIR test`.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import os
import shutil

import lit.formats

LLVM = "/usr/lib/llvm-19/bin"

config.name = "heddle"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["EndToEnd", "Fuzz", "Inputs", "Runtime", "Unit"]
config.test_source_root = os.path.dirname(__file__)

root = os.path.dirname(config.test_source_root)
build = lit_config.params.get("build", os.path.join(root, "build", "release"))
config.test_exec_root = os.path.join(build, "test", "lit")

config.environment["PATH"] = os.pathsep.join(
    [os.path.join(build, "bin"), LLVM, config.environment["PATH"]])
config.environment["HEDDLE_CACHE_DIR"] = os.path.join(build, "test", "cache")
config.substitutions += [
    ("%root", root),
    ("%inputs", os.path.join(config.test_source_root, "Inputs")),
    ("%python", "/usr/bin/python3"),
]

if shutil.which("ptxas"):
    config.available_features.add("ptxas")
