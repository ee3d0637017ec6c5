//===- RunLog.cpp - The JSON lines of a run -------------------------------===//
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

JsonLine &JsonLine::addRaw(const char *key, const std::string &json) {
  if (body.size() > 1)
    body += ",";
  body += "\"" + std::string(key) + "\":" + json;
  return *this;
}

JsonLine &JsonLine::add(const char *key, const std::string &value) {
  using nlohmann::json;
  return addRaw(
      key, json(value).dump(-1, ' ', false, json::error_handler_t::replace));
}

JsonLine &JsonLine::add(const char *key, int64_t value) {
  return addRaw(key, std::to_string(value));
}

JsonLine &JsonLine::add(const char *key, double value) {
  if (!std::isfinite(value))
    return addRaw(key, "null");
  std::array<char, 32> text;
  snprintf(text.data(), text.size(), "%.9g", value);
  return addRaw(key, text.data());
}

[[noreturn]] static void refuse(const std::string &path) {
  heddle::fail("H0411", "cannot write " + path + ": " + strerror(errno),
               "name another file with --log, or make room on the disk");
}

RunLog::~RunLog() {
  if (file)
    fclose(file);
}

void RunLog::open(const std::string &newPath, bool append) {
  path = newPath;
  try {
    file = fdopen(io::openForLines(path, append), "a");
  } catch (UserError &error) {
    error.diagnostic.code = "H0411";
    throw;
  }
  if (!file)
    refuse(path);
}

void RunLog::write(const JsonLine &line) {
  std::lock_guard<std::timed_mutex> lock(mutex);
  if (file && !hasEnded)
    put(line);
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
  if (!lock || !file || hasEnded)
    return;
  hasEnded = true;
  if (!endsWithError(path))
    put(JsonLine("error")
            .add("code", diagnostic.code)
            .add("message", diagnostic.message));
}

void RunLog::put(const JsonLine &line) {
  std::string text = line.text() + "\n";
  if (fwrite(text.data(), 1, text.size(), file) != text.size() ||
      fflush(file) != 0)
    refuse(path);
}
