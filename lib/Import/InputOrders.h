//===- InputOrders.h - Inputs in the order of their groups ------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_IMPORT_INPUTORDERS_H
#define HEDDLE_LIB_IMPORT_INPUTORDERS_H

#include "heddle/Import/ModelSpec.h"
#include "heddle/runtime/io/Safetensors.h"

namespace heddle::config {

/// Where the files have matrices of codes whose inputs are not in the order of
/// their groups (desc_act of GPTQ): takes them in that order, and gives what
/// they are multiplied with an order: a parameter, which products share that
/// have the same in every layer, as q, k and v may. The codes of the spec then
/// are in order. A product that has codes in some layers only loses them, and
/// so does one whose groups do not have as many inputs each: its values are
/// taken. Throws H0377.
void orderInputs(const io::WeightSet &weights, ModelSpec &spec);

} // namespace heddle::config

#endif // HEDDLE_LIB_IMPORT_INPUTORDERS_H
