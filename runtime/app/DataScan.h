//===- DataScan.h - Check all tokens before the first step ------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks all training tokens before the first step, at memory bandwidth, so
// that a bad token does not end a run late.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_DATASCAN_H
#define HEDDLE_RUNTIME_APP_DATASCAN_H

#include "heddle/runtime/app/Job.h"
#include "heddle/runtime/io/TokenFile.h"

namespace heddle::rt {

/// Scans the first `tokens` tokens of a file, divided over all ranks and
/// threads. Throws H0346 on all ranks for the first token outside the
/// vocabulary. Returns a hash in hexadecimal that does not depend on the
/// division (XXH3 over the XXH3 of every 262144 tokens); "" if a stop signal
/// ended the scan early.
std::string scanTokens(Job &job, const io::TokenFile &file, int64_t tokens);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_DATASCAN_H
