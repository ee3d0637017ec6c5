#!/bin/sh
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# usage: fake_ssh.sh HOST COMMAND...: runs the command here, as ssh would there.
echo "ssh to $1"
shift
exec env -i PATH="$PATH" sh -c "cd / && $*"
