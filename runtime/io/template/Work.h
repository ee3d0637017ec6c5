//===- Work.h - What a template may do --------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_TEMPLATE_WORK_H
#define HEDDLE_RUNTIME_IO_TEMPLATE_WORK_H

#include "Value.h"

namespace heddle::io::jinja {

/// What this thread may still do for the template that it renders, as long as
/// this lives: a template comes with a model, from anywhere, and must not take
/// the memory or the time of those who serve it.
class Work {
public:
  Work();
  ~Work();
  Work(const Work &) = delete;
  Work &operator=(const Work &) = delete;

  /// What a step of a template costs.
  static constexpr int64_t step = 100;
  /// Takes so many bytes, which are made or gone through; throws when too many
  /// are.
  static void spend(int64_t bytes);
  /// Throws where the stack is too deep to go on.
  static void deepen();
  /// Takes apart what may hold itself when all is done.
  static void mayHoldItself(const Value &value);

private:
  int64_t left = int64_t(1) << 29;
  const char *begin; ///< Of the stack.
  List changed;
};

} // namespace heddle::io::jinja

#endif // HEDDLE_RUNTIME_IO_TEMPLATE_WORK_H
