//===- Job.h - A loaded binary ----------------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loads a compiled binary on this rank: plan, device, memory and kernels. Each
// verb (train, eval, generate, serve ...) starts with a Job.
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

/// A compiled binary on this rank: its plan, the device, and the session with
/// the memory and kernels of this rank's pipeline stage.
class Job {
public:
  /// Loads the binary, connects the ranks, checks that this machine can run it,
  /// and maps the memory of this rank's stage. An error on one rank is thrown
  /// on all.
  Job(const JobOptions &options, Ranks &ranks);
  /// Loads the draft model of the binary, which shares threads and device with
  /// this job; null if there is none. This job must outlive it.
  std::unique_ptr<Job> openDraft(const JobOptions &options);

  const plan::Plan &plan() const { return binary.plan; }
  Ranks &ranks() { return others; }
  /// Whether this is rank 0, the only rank that prints warnings and results.
  bool isFirst() const { return others.rank() == 0; }
  /// Whether this job runs the draft model of speculative decoding.
  bool isDraft() const { return !own; }
  /// The word before "weights" or "memory" in messages: "draft " if this job
  /// runs the draft model, else "".
  const char *prefix() const { return isDraft() ? "draft " : ""; }
  Session &session() { return *loaded; }
  Device &device() { return *runsOn; }
  /// The host's threads.
  ThreadPool &threadPool() { return *threads; }

  /// Returns the program of that kind; throws H0191 when there is none.
  const LoadedProgram &program(plan::ProgramKind kind) const;

private:
  Job(Job &checks, Binary draft);
  /// Maps the memory of this rank's stage and loads the kernels.
  void load();

  Ranks &others;
  Binary binary;
  size_t target = 0; ///< Index of the chosen target in the binary.
  /// The host's threads. Null for a draft model's job, which uses those of the
  /// target model's job.
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<Device> own;
  ThreadPool *threads = nullptr;
  Device *runsOn = nullptr;
  std::unique_ptr<KernelSet> kernels;
  std::unique_ptr<Session> loaded;
};

/// Throws H0191: the plan has no program of that kind.
[[noreturn]] void failNoProgram(const plan::Plan &plan, plan::ProgramKind kind);

/// Returns the number of threads for this rank, if `ranks` ranks share this
/// machine. This is `requested` unless it is 0; else the number that was given
/// at compilation; else the number of this rank's cores.
int64_t chooseThreads(const plan::Plan &plan, int64_t requested, int64_t ranks);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_JOB_H
