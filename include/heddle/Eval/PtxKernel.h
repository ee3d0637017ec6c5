//===- PtxKernel.h - Runs a GPU kernel in the emulator ----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs the launches of one plan.kernel in the PTX emulator, for the interpreter
// and for tests of code generation.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EVAL_PTXKERNEL_H
#define HEDDLE_EVAL_PTXKERNEL_H

#include "heddle/emulator/ptx/Machine.h"
#include "llvm/ADT/ArrayRef.h"
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace heddle::eval {

/// The launches of a plan.kernel, for the PTX emulator.
struct PtxKernel {
  std::shared_ptr<emulator::Module> module;
  /// The launches, to which `run` adds the arguments.
  std::vector<emulator::Launch> launches;
  int64_t scratchBytes = 0;
  /// For each argument of the launches: nullopt for a scalar, or for an address
  /// the number of bytes there. The order is: buffers, the scratch memory if
  /// the kernel needs it, scalars.
  std::vector<std::optional<int64_t>> arguments;

  /// Executes all launches. `refs` are the addresses of the buffers in this
  /// process; an access outside of a buffer is an error. If `scratch` is null,
  /// scratch memory is allocated and filled with NaN. Adds the number of
  /// executed operations to `counters`. Returns an error message, or "".
  std::string run(llvm::ArrayRef<void *> refs, llvm::ArrayRef<int64_t> scalars,
                  char *scratch = nullptr,
                  emulator::Counters *counters = nullptr) const;
};

} // namespace heddle::eval

#endif // HEDDLE_EVAL_PTXKERNEL_H
