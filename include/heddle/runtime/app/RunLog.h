//===- RunLog.h - The events of a run ---------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_RUNLOG_H
#define HEDDLE_RUNTIME_APP_RUNLOG_H

#include "heddle/runtime/app/SlowReader.h"
#include "heddle/runtime/io/Diagnostic.h"

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace heddle::rt {

/// An event of a run: one JSON object, built field by field in the order in
/// which they are added.
class JsonLine {
public:
  /// A field, its value as JSON.
  struct Field {
    std::string key, json;
    std::optional<double> number; ///< Its value, when that is a finite number.
  };

  explicit JsonLine(const std::string &event) : name(event) {
    add("event", event);
  }
  JsonLine &add(const char *key, const std::string &value);
  JsonLine &add(const char *key, int64_t value);
  /// Nine digits: enough to read the same fp32 back.
  JsonLine &add(const char *key, double value);
  /// A value that is JSON already.
  JsonLine &addRaw(const char *key, const std::string &json);
  std::string text() const;

  const std::string &event() const { return name; }
  /// The field, or null.
  const Field *find(const std::string &key) const;

private:
  std::string name;
  std::vector<Field> fields;
};

/// A file that grows by records, each written whole before the next. Once it
/// has one, a disk that is full ends no run: a warning says so once, and later
/// records wait in memory until there is room.
class LogFile {
public:
  /// At most so many bytes wait; the oldest records are given up.
  static constexpr int64_t mostWaiting = 16 << 20;

  LogFile() = default;
  LogFile(const LogFile &) = delete;
  LogFile &operator=(const LogFile &) = delete;
  /// Tries once more to write what waits, and warns of what is missing.
  ~LogFile();

  /// Opens the file, at its end when `append` is set; a line that was not ended
  /// there is. `flag` is what named it. Throws H0411.
  void open(const std::string &path, bool append, const char *flag);
  bool isOpen() const { return descriptor >= 0; }
  /// Writes a record. Throws H0411 for the first one of an empty file.
  void put(const std::string &record);

private:
  [[noreturn]] void refuse(int error) const;
  int writeWaiting();
  int writeFirst();

  int descriptor = -1;
  SlowReader reader; ///< Of a path that is no file.
  std::string path, flag;
  bool isBegun = false; ///< The file has a record.
  bool hasWarned = false;
  std::deque<std::string> waiting; ///< Not written yet.
  int64_t waitingBytes = 0, missing = 0;
};

/// Writes the events of a run in a form of its own.
class LogWriter {
public:
  virtual ~LogWriter() = default;
  virtual void write(const JsonLine &event) = 0;
};

/// The events of a run: a file of JSON lines, and whatever else is written of
/// them.
class RunLog {
public:
  /// Opens the file of JSON lines, at its end when `append` is set. Throws
  /// H0411.
  void open(const std::string &path, bool append);
  /// Adds another form.
  void add(std::unique_ptr<LogWriter> writer);
  /// Writes one event to all that was opened. Throws H0411 for the first one.
  void write(const JsonLine &line);
  /// Writes the error after which there is no other line, from any thread;
  /// nothing when another thread hangs in `write`, or when another rank ended
  /// the file so while this one was stopped.
  void writeError(const Diagnostic &diagnostic);

private:
  std::timed_mutex mutex;
  bool hasEnded = false;
  std::string path;
  LogFile file;
  std::vector<std::unique_ptr<LogWriter>> others;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_RUNLOG_H
