//===- ModuleCosts.h - Costs by module of the model -------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Counts, from the plan, what each module of the model computes and reads.
// `heddle explain --modules` and `BINARY train --profile` show the counts.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_CORE_MODULECOSTS_H
#define HEDDLE_RUNTIME_CORE_MODULECOSTS_H

#include "heddle/PlanFormat/Plan.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace heddle::rt {

/// What a module costs in one run of a program, and how long it took.
struct ModuleCosts {
  int64_t parameters = 0;
  double macs = 0;  ///< As plan::ModuleShare::macs.
  double flops = 0; ///< As plan::ModuleShare::profilerFlops.
  double kernelFlops = 0; ///< As plan::ModuleShare::flops.
  double modelFlops = 0, bytes = 0;
  /// The measured times of the forward pass, and of the backward pass with its
  /// recomputation.
  double forwardSeconds = 0, backwardSeconds = 0;

  ModuleCosts &operator+=(const ModuleCosts &other);
};

/// A module of the model, with the modules inside of it.
struct ModuleNode {
  std::string path; ///< Such as `h.0.attn`; "" for the model.
  ModuleCosts own;  ///< The costs outside of the modules in `children`.
  /// The modules inside, in the order in which the program first uses them.
  std::vector<std::unique_ptr<ModuleNode>> children;

  /// The costs including those of all modules inside.
  ModuleCosts total() const;
  /// Returns path, parameters, MACs, FLOPs, model FLOPs and bytes of `total()`
  /// as `explain --modules` and profiles show them.
  nlohmann::json counts() const;
  /// Returns the module with this path inside of this module; adds it, and the
  /// modules around it, if they are not there yet.
  ModuleNode &at(const std::string &inner);
  /// Calls `visit` for this module, and for all modules that are at most
  /// `depth` levels below it, each before the modules inside of it.
  void walk(int64_t depth,
            const std::function<void(const ModuleNode &, int64_t level)> &visit,
            int64_t level = 0) const;
};

/// Returns the full path of the module to which share number `share` of a
/// launched kernel belongs. `layer` is the path of the layer that runs the
/// launch, "" outside of layers.
std::string moduleOf(const plan::Plan &plan, const plan::Command &command,
                     size_t share, const std::string &layer);

/// The modules of a program, with their costs in one run of it.
struct ModuleCount {
  ModuleNode model;
  int64_t launches = 0; ///< Launches of kernels in a run of the program.
  /// The launches among these whose kernels compute for several modules.
  int64_t sharedLaunches = 0;
};

/// Counts a run of `program`, a program of the pipeline stage that is selected
/// in `plan`. Parameters are those of the stage, as tensor parallelism splits
/// them; the parts into which ZeRO splits them count as whole.
ModuleCount countModules(const plan::Plan &plan, const plan::Program &program);

/// The program whose run is the forward pass of one micro-batch: the eval
/// program of a training plan, or else the plan's first program.
const plan::Program &forwardProgram(const plan::Plan &plan);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_CORE_MODULECOSTS_H
