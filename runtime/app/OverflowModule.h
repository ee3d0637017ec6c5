//===- OverflowModule.h - Where a step overflowed ---------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_OVERFLOWMODULE_H
#define HEDDLE_RUNTIME_APP_OVERFLOWMODULE_H

#include "heddle/runtime/app/Job.h"

#include <memory>
#include <string>

namespace heddle::rt {

/// Finds where a step overflowed: the module, such as `h.3.mlp.c_fc`, of the
/// first gradient in the order of the backward pass that is infinite or NaN.
///
/// On a GPU, the next step has begun to overwrite the gradients when the host
/// learns that a step has overflowed. There the device searches at the end of
/// each step whose gradient norm is infinite or NaN. Elsewhere the host
/// searches after the step.
///
/// Gradients in offload files are left out; on a GPU, all gradients that are
/// not in its own memory.
class OverflowSearch {
public:
  /// `job` must outlive the object.
  explicit OverflowSearch(Job &job);

  /// What the host reads after each step, as the argument of `find`. Null if
  /// the host searches.
  const Value *result() const { return onDevice ? &found : nullptr; }
  /// Submits the device's search at the end of a step. Does nothing if the host
  /// searches.
  void submit(const Value *gradNorm);
  /// Returns the module after a step that overflowed, or "" if no gradient is
  /// infinite or NaN, for example because only the loss is, or the norm.
  /// `searched` is the value of `result` after that step. If the host searches,
  /// no other step may have begun. All ranks must call it, and all return the
  /// same.
  std::string find(int32_t searched);

private:
  int64_t findOnHost();

  Job &job;
  /// The indices of the gradients that are searched, in the order of the
  /// forward pass.
  std::vector<size_t> gradients;
  std::unique_ptr<NonfiniteSearch> onDevice;
  Value found;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_OVERFLOWMODULE_H
