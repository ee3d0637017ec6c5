//===- DrawOperand.h - Numbers that a kernel is tried with ------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_CORE_DRAWOPERAND_H
#define HEDDLE_RUNTIME_CORE_DRAWOPERAND_H

#include "heddle/PlanFormat/PtxImage.h"

namespace heddle::rt {

/// Elements after which a long tensor repeats itself. The prime keeps rows
/// apart.
constexpr int64_t drawnPeriod = 1048573;

/// Writes the first `count` elements of argument number `number` of a kernel to
/// `to`: numbers from its lowest to its highest, always the same ones.
void drawOperand(const plan::PlainKernel::Argument &argument, uint32_t number,
                 char *to, int64_t count);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_CORE_DRAWOPERAND_H
