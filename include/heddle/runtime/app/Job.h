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
#include "heddle/runtime/app/Ranks.h"
#include "heddle/runtime/core/Loader.h"
#include "heddle/runtime/core/Session.h"
#include "heddle/runtime/devices/cpu/ThreadPool.h"

#include <memory>

namespace heddle::rt {

/// A compiled binary with one rank's part of its plan in memory.
class Job {
public:
  /// Loads the binary, joins the other ranks, checks that this CPU can run it,
  /// and maps the memory of this rank's stage. What fails on one rank is thrown
  /// on all.
  Job(const JobOptions &options, Ranks &ranks);
  /// The draft that guesses for this job's model, on its threads and its
  /// device; null where the binary has none. This must outlive it.
  std::unique_ptr<Job> openDraft(const JobOptions &options);

  const plan::Plan &plan() const { return binary.plan; }
  Ranks &ranks() { return others; }
  /// Whether this is the rank that speaks to people.
  bool isFirst() const { return others.rank() == 0; }
  /// What stands before "weights" or "memory" where people read of it.
  const char *prefix() const { return own ? "" : "draft "; }
  Session &session() { return *loaded; }
  Device &device() { return *runsOn; }
  /// The host's threads.
  ThreadPool &threadPool() { return *threads; }

  /// The program of that kind; throws H0191 when the plan holds none.
  const LoadedProgram &program(plan::ProgramKind kind) const;

private:
  Job(Job &checks, Binary draft);
  /// Maps the memory of this rank's stage and loads the kernels.
  void load();

  Ranks &others;
  Binary binary;
  size_t target = 0;                ///< Which one of the binary's.
  std::unique_ptr<ThreadPool> pool; ///< Null of a draft, as `own` is.
  std::unique_ptr<Device> own;
  ThreadPool *threads = nullptr;
  Device *runsOn = nullptr;
  std::unique_ptr<KernelSet> kernels;
  std::unique_ptr<Session> loaded;
};

/// Throws H0191: the plan holds no program of that kind.
[[noreturn]] void failNoProgram(const plan::Plan &plan, plan::ProgramKind kind);

/// The threads that a plan runs on when `requested` (0: unsaid) were asked for,
/// in one of `ranks` ranks on this machine: those that it was compiled with if
/// somebody chose them, else all cores that the rank has here.
int64_t chooseThreads(const plan::Plan &plan, int64_t requested, int64_t ranks);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_JOB_H
