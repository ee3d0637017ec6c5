//===- WeightCoverage.h - Matches tensors with parameters -------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Matches the tensors in a model's weight files with the parameters of its
// family. Every parameter must be filled. Every tensor must fill a parameter or
// be known to be useless.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_IMPORT_WEIGHTCOVERAGE_H
#define HEDDLE_LIB_IMPORT_WEIGHTCOVERAGE_H

#include "Family.h"
#include "heddle/runtime/io/Safetensors.h"

namespace heddle::config {

/// If the weight files have the table `spec.extended` with its source rows,
/// makes it longer in `weights`. Sets the table's name to that in the files.
void extendPositions(const Family &family, io::WeightSet &weights,
                     ModelSpec &spec);

/// Whether config.json says that the head shares the embedding's weight, but
/// the weight files have a head with other values.
bool hasOtherHead(const Family &family, const io::WeightSet &weights,
                  const ModelSpec &spec);

/// Removes the parameters of the head from `spec`, if the weight files of an
/// encoder contain none of them.
void dropMissingHead(const Family &family, const io::WeightSet &weights,
                     ModelSpec &spec);

/// Sets, in each parameter's source, the names of the tensors that fill it.
/// Lists in `spec.ignored` the tensors that fill no parameter. Throws H0335 for
/// a missing tensor, H0393 for a wrong shape, H0394 for a wrong type, and H0395
/// for a tensor whose purpose is unknown.
void coverWeights(const Family &family, const io::WeightSet &weights,
                  ModelSpec &spec);

} // namespace heddle::config

#endif // HEDDLE_LIB_IMPORT_WEIGHTCOVERAGE_H
