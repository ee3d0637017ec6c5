//===- ModuleShare.h - What a kernel computes for a module ------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PLANFORMAT_MODULESHARE_H
#define HEDDLE_PLANFORMAT_MODULESHARE_H

#include <string>

namespace heddle::plan {

/// The part of a kernel's work that belongs to one module of the model. A
/// kernel has several shares if fusion put operations of several modules into
/// it. Launches name the modules (command::Launch::modules), because layers
/// share kernels.
struct ModuleShare {
  /// Multiply-adds of matrix products, and of attention over all pairs of a
  /// query and a key, masked or not.
  double macs = 0;
  /// Floating-point operations by the rules of DeepSpeed's profiler: two for a
  /// multiply-add, five for an element of a layer norm, four for an element of
  /// an RMS norm, one for an element of an activation function, none for other
  /// operations.
  double profilerFlops = 0;
  /// The kernel's `flops`, `modelFlops` and `bytes` that belong to the module.
  double flops = 0, modelFlops = 0, bytes = 0;
};

/// Returns the full path of a module. All layers of a kind share command
/// sequences, in which module paths have `*` in place of the layer's index.
/// `layer` is the path of the layer that runs the sequence. For the layer
/// `h.3`, `h.*.attn` gives `h.3.attn`; a path without `*` is already full.
std::string modulePath(const std::string &path, const std::string &layer);

} // namespace heddle::plan

#endif // HEDDLE_PLANFORMAT_MODULESHARE_H
