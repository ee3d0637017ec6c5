//===- InputOrders.h - Inputs in the order of their groups ------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Handles weights that GPTQ quantized with desc_act. The inputs of a
// quantization group are not adjacent in such a weight, but kernels need
// adjacent inputs.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_IMPORT_INPUTORDERS_H
#define HEDDLE_LIB_IMPORT_INPUTORDERS_H

#include "heddle/Import/ModelSpec.h"
#include "heddle/runtime/io/Safetensors.h"

namespace heddle::config {

/// Sorts the inputs of quantized matrices by quantization group, if the files
/// have them in another order (GPTQ with desc_act). The activations that are
/// multiplied by a sorted matrix must be permuted in the same way. A new
/// parameter holds this permutation. Products whose permutations are equal in
/// every layer, for example q, k and v, share the parameter.
///
/// Sets `spec.codes->inOrder`, which allows the weights to stay quantized.
/// Dequantizes the weights of a product if some layer's weight is not
/// quantized, or if its groups have different numbers of inputs. Throws H0377
/// for an invalid order in the files.
void orderInputs(const io::WeightSet &weights, ModelSpec &spec);

} // namespace heddle::config

#endif // HEDDLE_LIB_IMPORT_INPUTORDERS_H
