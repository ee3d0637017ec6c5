//===- RunLog.cpp - The events of a run -----------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/app/RunLog.h"
#include "heddle/runtime/io/File.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

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

void LogFile::refuse() const {
  heddle::fail("H0411", "cannot write " + path + ": " + strerror(errno),
               "name another file with " + flag + ", or make room on the disk");
}

LogFile::~LogFile() {
  if (file)
    fclose(file);
}

/// Whether something stands after the last end of a line.
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
    file = fdopen(io::openForLines(path, append), "a");
  } catch (UserError &error) {
    error.diagnostic.code = "H0411";
    throw;
  }
  if (!file)
    refuse();
  if (isCut)
    put("\n");
}

void LogFile::put(const std::string &record) {
  if (fwrite(record.data(), 1, record.size(), file) != record.size() ||
      fflush(file) != 0)
    refuse();
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

/// Whether the last line of the file is an error.
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
