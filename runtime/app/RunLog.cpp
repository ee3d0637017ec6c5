//===- RunLog.cpp - The log of a run --------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Log files that survive a full disk and a slow reader.
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/app/RunLog.h"
#include "heddle/runtime/io/File.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <unistd.h>

using namespace heddle::rt;

//===----------------------------------------------------------------------===//
// Events
//===----------------------------------------------------------------------===//

JsonLine &JsonLine::addRaw(const char *key, const std::string &json) {
  fields.push_back({key, json, std::nullopt});
  return *this;
}

JsonLine &JsonLine::add(const char *key, const std::string &value) {
  using nlohmann::json;
  return addRaw(
      key, json(value).dump(-1, ' ', false, json::error_handler_t::replace));
}

JsonLine &JsonLine::add(const char *key, int64_t value) {
  addRaw(key, std::to_string(value));
  fields.back().number = double(value);
  return *this;
}

JsonLine &JsonLine::add(const char *key, double value) {
  if (!std::isfinite(value))
    return addRaw(key, "null");
  std::array<char, 32> text;
  snprintf(text.data(), text.size(), "%.9g", value);
  addRaw(key, text.data());
  fields.back().number = value;
  return *this;
}

std::string JsonLine::text() const {
  std::string body;
  for (const Field &field : fields)
    body += (body.empty() ? "{\"" : ",\"") + field.key + "\":" + field.json;
  return body + "}";
}

const JsonLine::Field *JsonLine::find(const std::string &key) const {
  for (const Field &field : fields)
    if (field.key == key)
      return &field;
  return nullptr;
}

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

void LogFile::refuse(int error) const {
  heddle::fail("H0411", "cannot write " + path + ": " + strerror(error),
               "name another file with " + flag + ", or make room on the disk");
}

LogFile::~LogFile() {
  if (descriptor < 0)
    return;
  if (isBegun)
    writeWaiting();
  missing += int64_t(waiting.size());
  if (missing > 0 && isBegun)
    fprintf(stderr, "warning: %lld records are missing in %s\n",
            static_cast<long long>(missing), path.c_str());
  close(descriptor);
}

/// Whether the file's last line is incomplete.
static bool endsWithinLine(const std::string &path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored) ||
      std::filesystem::file_size(path, ignored) == 0)
    return false;
  std::ifstream stream(path, std::ios::binary);
  stream.seekg(-1, std::ios::end);
  return stream.get() != '\n';
}

void LogFile::open(const std::string &newPath, bool append,
                   const char *newFlag) {
  path = newPath;
  flag = newFlag;
  bool isCut = append && endsWithinLine(path);
  try {
    descriptor = io::openForLines(path, append);
  } catch (UserError &error) {
    error.diagnostic.code = "H0411";
    throw;
  }
  isBegun = lseek(descriptor, 0, SEEK_END) > 0;
  if (isCut)
    put("\n");
}

/// Writes the oldest waiting record; returns an errno if that fails. After an
/// error a partly written record is removed again, so that programs that read
/// the file see complete records.
int LogFile::writeFirst() {
  std::string &record = waiting.front();
  if (!reader.takes(descriptor))
    return EAGAIN;
  off_t end = lseek(descriptor, 0, SEEK_END);
  size_t written = 0;
  while (written < record.size()) {
    ssize_t count =
        ::write(descriptor, record.data() + written, record.size() - written);
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0) {
      int error = count < 0 ? errno : ENOSPC;
      // A pipe or device cannot be truncated.
      if (end < 0 || ftruncate(descriptor, end) != 0)
        record.erase(0, written);
      return error;
    }
    written += count;
  }
  return 0;
}

/// Writes waiting records as far as possible; returns an errno if some remain.
int LogFile::writeWaiting() {
  while (!waiting.empty()) {
    if (int error = writeFirst())
      return error;
    waitingBytes -= int64_t(waiting.front().size());
    waiting.pop_front();
  }
  return 0;
}

void LogFile::put(const std::string &record) {
  waiting.push_back(record);
  waitingBytes += int64_t(record.size());
  int error = writeWaiting();
  if (error == 0) {
    isBegun = true;
    return;
  }
  if (!isBegun)
    refuse(error);
  if (!hasWarned)
    fprintf(stderr,
            "warning: cannot write %s: %s; the run goes on, and writes there "
            "again when it can\n",
            path.c_str(), strerror(error));
  hasWarned = true;
  for (; waitingBytes > mostWaiting; ++missing) {
    waitingBytes -= int64_t(waiting.front().size());
    waiting.pop_front();
  }
}

//===----------------------------------------------------------------------===//
// The log
//===----------------------------------------------------------------------===//

void RunLog::open(const std::string &newPath, bool append) {
  path = newPath;
  file.open(path, append, "--log");
}

void RunLog::add(std::unique_ptr<LogWriter> writer) {
  others.push_back(std::move(writer));
}

void RunLog::write(const JsonLine &line) {
  std::lock_guard<std::timed_mutex> lock(mutex);
  if (hasEnded)
    return;
  if (file.isOpen())
    file.put(line.text() + "\n");
  for (const std::unique_ptr<LogWriter> &writer : others)
    writer->write(line);
}

/// Whether the last line of the file is an error event.
static bool endsWithError(const std::string &path) {
  constexpr int64_t longestError = 4096;
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored))
    return false;
  std::ifstream stream(path, std::ios::ate);
  stream.seekg(std::max<int64_t>(0, stream.tellg() - longestError));
  std::string line, last, error = JsonLine("error").text();
  while (std::getline(stream, line))
    last.swap(line);
  return last.compare(0, error.size() - 1, error, 0, error.size() - 1) == 0;
}

void RunLog::writeError(const Diagnostic &diagnostic) {
  constexpr std::chrono::seconds patience(1);
  std::unique_lock<std::timed_mutex> lock(mutex, patience);
  if (!lock || hasEnded)
    return;
  hasEnded = true;
  if (file.isOpen() && !endsWithError(path))
    file.put(JsonLine("error")
                 .add("code", diagnostic.code)
                 .add("message", diagnostic.message)
                 .text() +
             "\n");
}
