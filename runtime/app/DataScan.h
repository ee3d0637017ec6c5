//===- DataScan.h - A look at all tokens before the first step --*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_DATASCAN_H
#define HEDDLE_RUNTIME_APP_DATASCAN_H

#include "heddle/runtime/app/Job.h"
#include "heddle/runtime/io/TokenFile.h"

namespace heddle::rt {

/// Looks at the first `tokens` tokens of a file, every rank and thread at a
/// part of them. Throws H0346 on all ranks for the first that the vocabulary
/// does not have. The result is a hash of them, in hexadecimal: XXH3 over the
/// XXH3 of every 262144 tokens, whoever looked at them; "" when a signal that
/// asks for the end came before all were seen.
std::string scanTokens(Job &job, const io::TokenFile &file, int64_t tokens);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_DATASCAN_H
