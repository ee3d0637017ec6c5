//===- RunLog.h - The log of a run ------------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The log of a run as JSON lines, and in other formats (LogWriters.h). A full
// disk or a slow reader does not stop the run.
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

/// An event of a run: a JSON object with fields in the order in which they are
/// added.
class JsonLine {
public:
  /// A field with its value as JSON.
  struct Field {
    std::string key, json;
    std::optional<double> number; ///< The value, if it is a finite number.
  };

  explicit JsonLine(const std::string &event) : name(event) {
    add("event", event);
  }
  JsonLine &add(const char *key, const std::string &value);
  JsonLine &add(const char *key, int64_t value);
  /// Writes nine digits, enough to read the same fp32 value back.
  JsonLine &add(const char *key, double value);
  /// Adds a value that is already JSON.
  JsonLine &addRaw(const char *key, const std::string &json);
  std::string text() const;

  const std::string &event() const { return name; }
  /// Returns the field, or null.
  const Field *find(const std::string &key) const;

private:
  std::string name;
  std::vector<Field> fields;
};

/// A file that grows by records; each is written completely before the next.
/// After the first record a full disk does not end the run: there is one
/// warning, and records wait in memory until there is room.
class LogFile {
public:
  /// Limit of the bytes in records that wait to be written. If it is exceeded,
  /// the oldest records are dropped.
  static constexpr int64_t mostWaiting = 16 << 20;

  LogFile() = default;
  LogFile(const LogFile &) = delete;
  LogFile &operator=(const LogFile &) = delete;
  /// Tries again to write waiting records, and warns of lost ones.
  ~LogFile();

  /// Opens the file. With `append`, keeps its content and terminates its last
  /// line if that is incomplete. `flag` is the flag that named the file. Throws
  /// H0411.
  void open(const std::string &path, bool append, const char *flag);
  bool isOpen() const { return descriptor >= 0; }
  /// Writes a record. Throws H0411 if the first record of an empty file cannot
  /// be written.
  void put(const std::string &record);

private:
  [[noreturn]] void refuse(int error) const;
  int writeWaiting();
  int writeFirst();

  int descriptor = -1;
  SlowReader reader; ///< For a path that is a pipe or device.
  std::string path, flag;
  bool isBegun = false; ///< The file has a record.
  bool hasWarned = false;
  std::deque<std::string> waiting; ///< Records that are not written yet.
  int64_t waitingBytes = 0, missing = 0;
};

/// Writes the events of a run in another format.
class LogWriter {
public:
  virtual ~LogWriter() = default;
  virtual void write(const JsonLine &event) = 0;
};

/// Writes the events of a run to a file of JSON lines and to other writers.
class RunLog {
public:
  /// Opens the file of JSON lines, at its end with `append`. Throws H0411.
  void open(const std::string &path, bool append);
  /// Adds a writer.
  void add(std::unique_ptr<LogWriter> writer);
  /// Writes an event to all writers. Throws H0411 if the first event of an
  /// empty file cannot be written.
  void write(const JsonLine &line);
  /// Writes the final error; thread-safe. Writes nothing if another thread
  /// hangs in `write`. Writes nothing either if the file already ends with an
  /// error, which another rank wrote while this process was stopped.
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
