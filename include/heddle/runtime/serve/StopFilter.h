//===- StopFilter.h - Stop strings ------------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Ends generated text at stop strings, while it is streamed.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_SERVE_STOPFILTER_H
#define HEDDLE_RUNTIME_SERVE_STOPFILTER_H

#include <string>
#include <vector>

namespace heddle::rt {

/// Passes on generated text, up to the first stop string. Text that may be the
/// beginning of a stop string is held back.
class StopFilter {
public:
  /// Stop strings must not be empty.
  explicit StopFilter(std::vector<std::string> stops)
      : stops(std::move(stops)) {}
  /// Adds text; returns what can be shown now.
  std::string add(const std::string &part);
  /// Returns what was held back, at the end of the text.
  std::string finish();
  /// Whether a stop string has occurred.
  bool hasStopped() const { return stopped; }

private:
  std::vector<std::string> stops;
  std::string held;
  bool stopped = false;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_SERVE_STOPFILTER_H
