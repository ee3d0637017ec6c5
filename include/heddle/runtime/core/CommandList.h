//===- CommandList.h - A program with every address resolved ----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_CORE_COMMANDLIST_H
#define HEDDLE_RUNTIME_CORE_COMMANDLIST_H

#include "heddle/PlanFormat/Plan.h"
#include "heddle/runtime/core/Device.h"
#include "heddle/runtime/core/KernelImage.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace heddle::rt {

/// The two regions that a plan's operands stand in.
struct Regions {
  char *persistent = nullptr;
  int64_t persistentBytes = 0;
  char *arena = nullptr;
  int64_t arenaBytes = 0;
};

/// What a launch of a command list is, for timings, traces and errors.
struct LaunchInfo {
  int64_t kernel = -1;   ///< Its number in the plan; -1: a copy, -2: a fill.
  std::string_view path; ///< Module path; the plan owns the text.
};

/// Start and end of one launch, in nanoseconds of the steady clock.
struct LaunchTime {
  int64_t begin = 0;
  int64_t end = 0;
};

/// The flat form of a program: calls and loops unrolled, operands turned into
/// pointers. It is made once; running it allocates nothing.
class CommandList {
public:
  /// Resolves `program` of `plan`, which must outlive the list. Throws a
  /// UserError (H0385) when an operand leaves its region, a name is unknown, or
  /// sequences call each other without end.
  CommandList(const plan::Plan &plan, const plan::Program &program,
              const KernelImage &image, const Regions &regions);

  /// Runs every launch in order. With `times`, which then has room for as many,
  /// notes when each began and ended.
  void run(Device &device, LaunchTime *times = nullptr) const;

  size_t size() const { return launches.size(); }
  const LaunchInfo &info(size_t launch) const { return infos[launch]; }

private:
  friend class Resolver;
  std::vector<Launch> launches;
  std::vector<LaunchInfo> infos;
  std::vector<void *> refs;
  std::vector<int64_t> scalars;
  Scratch scratch;
};

/// The address and size of an operand that stands in no sequence's arguments,
/// such as a port's. Throws H0385 when it leaves its region.
char *resolvePort(const plan::Port &port, const Regions &regions);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_CORE_COMMANDLIST_H
