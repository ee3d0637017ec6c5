//===- AccessLog.h - A line of text for each request ------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_SERVE_ACCESSLOG_H
#define HEDDLE_RUNTIME_SERVE_ACCESSLOG_H

#include "heddle/runtime/serve/HttpServer.h"

#include <ctime>

namespace heddle::rt {

/// Formats a line with its line end: time, client, request, status, seconds,
/// and in quotes the reason if the request was refused.
std::string accessLine(const HttpAccess &access, time_t now);

/// Appends one line to a file for each request that was answered.
class AccessLog {
public:
  /// `path` "-" is stderr. Throws H0411 for a file that cannot be written.
  explicit AccessLog(const std::string &path);
  ~AccessLog();
  AccessLog(const AccessLog &) = delete;
  AccessLog &operator=(const AccessLog &) = delete;

  /// Warns once if writing fails.
  void write(const HttpAccess &access);

private:
  const std::string path;
  int file = -1;
  bool hasWarned = false;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_SERVE_ACCESSLOG_H
