//===- PtxKernel.h - A kernel for GPUs, run without one ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
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

/// The launches of a plan.kernel, for the machine that executes PTX.
struct PtxKernel {
  std::shared_ptr<emulator::Module> module;
  std::vector<emulator::Launch> launches; ///< Without arguments.
  int64_t scratchBytes = 0;
  /// Bytes behind each argument that is an address; none for a scalar. The
  /// scratch memory is one of them.
  std::vector<std::optional<int64_t>> arguments;

  /// Runs all launches; returns what went wrong, or an empty string. `refs` are
  /// the addresses of the buffers, which nothing beyond their sizes may touch.
  /// Without `scratch` there is memory that nobody has written. Adds what the
  /// launches did to `counters`.
  std::string run(llvm::ArrayRef<void *> refs, llvm::ArrayRef<int64_t> scalars,
                  char *scratch = nullptr,
                  emulator::Counters *counters = nullptr) const;
};

} // namespace heddle::eval

#endif // HEDDLE_EVAL_PTXKERNEL_H
