//===- StopFilter.h - Texts that end a text ------------------- -*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_SERVE_STOPFILTER_H
#define HEDDLE_RUNTIME_SERVE_STOPFILTER_H

#include <string>
#include <vector>

namespace heddle::rt {

/// Lets a text through that comes in parts, up to where one of the texts that
/// end it begins.
class StopFilter {
public:
  /// No text of `stops` is empty.
  explicit StopFilter(std::vector<std::string> stops)
      : stops(std::move(stops)) {}
  /// What can be shown after `part`: all that no stop text can begin with.
  std::string add(const std::string &part);
  /// What was held back, when nothing follows.
  std::string finish();
  /// Whether a stop text was complete.
  bool hasStopped() const { return stopped; }

private:
  std::vector<std::string> stops;
  std::string held;
  bool stopped = false;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_SERVE_STOPFILTER_H
