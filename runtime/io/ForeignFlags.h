//===- ForeignFlags.h - Flags of other tools --------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Translates flags of transformers' Trainer, DeepSpeed, Megatron-LM, vLLM and
// llama.cpp, so that an error about an unknown flag says what to write.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_FOREIGNFLAGS_H
#define HEDDLE_RUNTIME_IO_FOREIGNFLAGS_H

#include <string>
#include <vector>

namespace heddle::io {

/// Returns Heddle's spelling of a flag of another tool, for example `--steps
/// 10` for `--max_steps 10`. Returns several spellings if Heddle's verbs have
/// different flags for it, and none for an unknown flag.
std::vector<std::string> namesFor(const std::string &flag,
                                  const std::string &value);
/// Returns advice for a flag of another tool that has no counterpart in Heddle,
/// or "" for an unknown flag.
std::string adviceFor(const std::string &flag);

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_FOREIGNFLAGS_H
