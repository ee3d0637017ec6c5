//===- Dump.h - Write values of a step to a file ----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_DUMP_H
#define HEDDLE_RUNTIME_APP_DUMP_H

#include "heddle/runtime/core/Session.h"
#include "heddle/runtime/io/Peers.h"

#include <string>

namespace heddle::rt {

/// Writes the values of the program's last run to one safetensors file, as
/// `--dump` asks: `loss`, `logits` [B,T,V], `grad.<parameter>` of every
/// gradient that the plan keeps, and `value.<path>` of every value that the
/// model marks for the dump. Collective: each rank writes its shard.
void writeDump(const std::string &path, Session &session,
               const LoadedProgram &program, io::Peers &peers);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_DUMP_H
