//===- OtherNames.h - What flags are called elsewhere -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Flags of transformers' Trainer, DeepSpeed, Megatron-LM, vLLM and llama.cpp,
// and what they are here, for errors that say what to write.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_OTHERNAMES_H
#define HEDDLE_RUNTIME_IO_OTHERNAMES_H

#include <string>
#include <vector>

namespace heddle::io {

/// What stands here for a flag of another tool, as `--steps 10` for
/// `--max_steps 10`: one for each verb that may be meant. Empty: not known.
std::vector<std::string> namesFor(const std::string &flag,
                                  const std::string &value);
/// What to do where no flag stands for one of another tool; "": not known.
std::string adviceFor(const std::string &flag);

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_OTHERNAMES_H
