//===- WeightCoverage.h - Every parameter filled, every tensor used *- C++ -*-//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The tensors of a model's files, as its family names them, and the parameters
// that are filled from them.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_IMPORT_WEIGHTCOVERAGE_H
#define HEDDLE_LIB_IMPORT_WEIGHTCOVERAGE_H

#include "Family.h"
#include "heddle/runtime/io/Safetensors.h"

namespace heddle::config {

/// Whether the files of a tied model have a head that is not its embedding.
bool hasOtherHead(const Family &family, const io::WeightSet &weights,
                  const ModelSpec &spec);

/// Leaves the head out where an encoder's files have nothing of it.
void dropMissingHead(const Family &family, const io::WeightSet &weights,
                     ModelSpec &spec);

/// Names in every parameter's source the tensors of the files, and in
/// `spec.ignored` those that are no parameters. Throws H0335 for a tensor that
/// is missing, H0393 and H0394 for a shape or a type that it cannot have, H0395
/// for a tensor that nothing explains.
void coverWeights(const Family &family, const io::WeightSet &weights,
                  ModelSpec &spec);

} // namespace heddle::config

#endif // HEDDLE_LIB_IMPORT_WEIGHTCOVERAGE_H
