//===- WorkLimit.h - Limits of a template's work ----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Limits memory, time and stack of rendering a chat template, which comes from
// an untrusted model directory.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_TEMPLATE_WORKLIMIT_H
#define HEDDLE_RUNTIME_IO_TEMPLATE_WORKLIMIT_H

#include "Value.h"

namespace heddle::io::jinja {

/// Limits the work of the template that this thread renders, while the object
/// lives. A template comes with a model, from anywhere, and must not exhaust
/// the server's memory or time.
class WorkLimit {
public:
  WorkLimit();
  ~WorkLimit();
  WorkLimit(const WorkLimit &) = delete;
  WorkLimit &operator=(const WorkLimit &) = delete;

  /// `spend` counts this many bytes for each call and each iteration of a loop,
  /// even if it creates no value. So a template that only runs for long reaches
  /// the limit, too.
  static constexpr int64_t step = 100;
  /// Counts bytes that are created or traversed; throws when the limit is
  /// exceeded.
  static void spend(int64_t bytes);
  /// Throws when the stack is too deep.
  static void deepen();
  /// Registers a list or dictionary that may contain itself. The destructor
  /// clears it, since reference counts alone would never free a cycle.
  static void mayHoldItself(const Value &value);

private:
  int64_t left = int64_t(1) << 29;
  const char *begin; ///< The address at which the rendering's stack begins.
  List changed;
};

} // namespace heddle::io::jinja

#endif // HEDDLE_RUNTIME_IO_TEMPLATE_WORKLIMIT_H
