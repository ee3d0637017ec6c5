//===- AmxEmulation.h - AMX tile instructions as functions ----*- C++ -*- ===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_UNIT_SUPPORT_AMXEMULATION_H
#define HEDDLE_TEST_UNIT_SUPPORT_AMXEMULATION_H

#include "heddle/Codegen/CPU/CpuTarget.h"
#include <optional>
#include <utility>
#include <vector>

namespace heddle::test {

/// The functions that kernels for `CpuTarget::emulatesAmx` call, by name.
std::vector<std::pair<const char *, void *>> amxEmulation();

/// This machine with such tiles, those of fp16 only if `hasFp16`; nothing if it
/// lacks what a machine with AMX has otherwise.
std::optional<cpu::CpuTarget> emulatedAmxTarget(bool hasFp16 = false);

} // namespace heddle::test

#endif // HEDDLE_TEST_UNIT_SUPPORT_AMXEMULATION_H
