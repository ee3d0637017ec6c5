//===- RunLog.cpp - The JSON lines of a run -------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/app/RunLog.h"
#include "heddle/runtime/io/Diagnostic.h"

#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
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
  file = fopen(path.c_str(), append ? "a" : "w");
  if (!file)
    refuse(path);
}

void RunLog::write(const JsonLine &line) {
  if (!file)
    return;
  std::string text = line.text() + "\n";
  if (fwrite(text.data(), 1, text.size(), file) != text.size() ||
      fflush(file) != 0)
    refuse(path);
}
