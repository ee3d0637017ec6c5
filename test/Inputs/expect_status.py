#!/usr/bin/python3
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""usage: expect_status.py STATUS COMMAND...

Succeeds when the command exits with exactly this status.
"""

import subprocess
import sys

status = subprocess.run(sys.argv[2:]).returncode
if status != int(sys.argv[1]):
    print(f"exit status {status}, not {sys.argv[1]}", file=sys.stderr)
    sys.exit(1)
