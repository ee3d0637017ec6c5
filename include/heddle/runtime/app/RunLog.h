//===- RunLog.h - The JSON lines of a run -----------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_RUNLOG_H
#define HEDDLE_RUNTIME_APP_RUNLOG_H

#include "heddle/runtime/io/Diagnostic.h"

#include <cstdint>
#include <cstdio>
#include <mutex>
#include <string>

namespace heddle::rt {

/// One JSON object, built field by field in the order in which they are added.
class JsonLine {
public:
  explicit JsonLine(const std::string &event) { add("event", event); }
  JsonLine &add(const char *key, const std::string &value);
  JsonLine &add(const char *key, int64_t value);
  /// Nine digits: enough to read the same fp32 back.
  JsonLine &add(const char *key, double value);
  /// A value that is JSON already.
  JsonLine &addRaw(const char *key, const std::string &json);
  std::string text() const { return body + "}"; }

private:
  std::string body = "{";
};

/// A file of JSON lines, each complete on the disk before the next is begun.
class RunLog {
public:
  RunLog() = default;
  RunLog(const RunLog &) = delete;
  RunLog &operator=(const RunLog &) = delete;
  ~RunLog();

  /// Opens the file, at its end when `append` is set. Throws H0411.
  void open(const std::string &path, bool append);
  /// Writes one line; nothing when no file is open. Throws H0411.
  void write(const JsonLine &line);
  /// Writes the error after which there is no other line, from any thread;
  /// nothing when another thread hangs in `write`, or when another rank ended
  /// the file so while this one was stopped. Throws H0411.
  void writeError(const Diagnostic &diagnostic);

private:
  void put(const JsonLine &line);

  std::timed_mutex mutex;
  bool hasEnded = false;
  FILE *file = nullptr;
  std::string path;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_RUNLOG_H
