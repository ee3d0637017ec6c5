//===- Format.h - Numbers of bytes as text ----------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PLANFORMAT_FORMAT_H
#define HEDDLE_PLANFORMAT_FORMAT_H

#include <cstdint>
#include <string>

namespace heddle::plan {

/// Returns a number of bytes as text, such as "512 B" or "3.00 MiB".
std::string formatBytes(int64_t bytes);
/// Returns a number of bytes rounded and exact: "3.00 MiB (3145728 bytes)".
std::string formatExactBytes(int64_t bytes);

} // namespace heddle::plan

#endif // HEDDLE_PLANFORMAT_FORMAT_H
