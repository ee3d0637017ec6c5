//===- InputOrders.h - Inputs in the order of their groups ------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Handles weights that GPTQ quantized with desc_act. The inputs of one of their
// quantization groups are not adjacent.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_IMPORT_INPUTORDERS_H
#define HEDDLE_LIB_IMPORT_INPUTORDERS_H

#include "heddle/Import/ModelSpec.h"
#include "heddle/runtime/io/Safetensors.h"

namespace heddle::config {

/// Sorts the inputs of quantized matrices by quantization group, if the files
/// have them in another order (GPTQ with desc_act). The activations that such a
/// matrix multiplies must then be reordered in the same way: a new parameter
/// holds the order. Products whose orders are equal in every layer share this
/// parameter, for example q, k and v. Afterwards `spec.codes` says that inputs
/// are in order. A product is dequantized if it is not quantized in every
/// layer, or if its groups have different numbers of inputs. Throws H0377.
void orderInputs(const io::WeightSet &weights, ModelSpec &spec);

} // namespace heddle::config

#endif // HEDDLE_LIB_IMPORT_INPUTORDERS_H
