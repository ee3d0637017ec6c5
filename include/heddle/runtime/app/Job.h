//===- Job.h - A binary that is loaded and ready ----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_JOB_H
#define HEDDLE_RUNTIME_APP_JOB_H

#include "heddle/runtime/app/Options.h"
#include "heddle/runtime/core/Loader.h"
#include "heddle/runtime/core/Session.h"
#include "heddle/runtime/devices/cpu/CpuDevice.h"

#include <memory>

namespace heddle::rt {

/// A compiled binary with its plan in memory.
class Job {
public:
  /// Loads the binary, checks that this CPU can run it, and maps its memory.
  explicit Job(const JobOptions &options);

  const plan::Plan &plan() const { return binary.plan; }
  Session &session() { return *loaded; }
  CpuDevice &device() { return *cpu; }

  /// The program of that kind; throws H0191 when the plan holds none.
  const LoadedProgram &program(const std::string &kind) const;

private:
  Binary binary;
  KernelImage image;
  std::unique_ptr<CpuDevice> cpu;
  std::unique_ptr<Session> loaded;
};

/// The threads that a plan runs on when `requested` (0: unsaid) were asked for.
int64_t chooseThreads(const plan::Plan &plan, int64_t requested);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_JOB_H
