//===- WeightCoverage.h - Matches tensors with parameters -------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Matches the tensors in a model's files with the parameters of its family:
// every parameter must be filled, and every tensor used or known to be useless.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_IMPORT_WEIGHTCOVERAGE_H
#define HEDDLE_LIB_IMPORT_WEIGHTCOVERAGE_H

#include "Family.h"
#include "heddle/runtime/io/Safetensors.h"

namespace heddle::config {

/// Whether a model's config ties head and embedding, but its files have a head
/// with other values.
bool hasOtherHead(const Family &family, const io::WeightSet &weights,
                  const ModelSpec &spec);

/// Removes the head's parameters from `spec` if an encoder's files have none of
/// them.
void dropMissingHead(const Family &family, const io::WeightSet &weights,
                     ModelSpec &spec);

/// Sets the names of the files' tensors in each parameter's source, and lists
/// in `spec.ignored` the tensors that are no parameters. Throws H0335 for a
/// missing tensor, H0393 or H0394 for one of a wrong shape or type, and H0395
/// for one whose purpose is unknown.
void coverWeights(const Family &family, const io::WeightSet &weights,
                  ModelSpec &spec);

} // namespace heddle::config

#endif // HEDDLE_LIB_IMPORT_WEIGHTCOVERAGE_H
