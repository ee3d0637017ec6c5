//===- AccessLog.cpp - A line of text for each request --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/serve/AccessLog.h"
#include "heddle/runtime/io/Diagnostic.h"

#include <boost/beast/http/status.hpp>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

using namespace heddle;
using namespace heddle::rt;

/// Quotes a text from a client as one line of ASCII, so that a client cannot
/// forge lines of the log.
static std::string inQuotes(const std::string &text) {
  using nlohmann::json;
  constexpr size_t most = 500;
  return json(text.substr(0, most))
      .dump(-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace);
}

static std::string nameOf(int status) {
  if (status == clientGone)
    return "Client Closed Request";
  auto name = boost::beast::http::obsolete_reason(
      boost::beast::http::int_to_status(unsigned(status)));
  return std::string(name.data(), name.size());
}

std::string heddle::rt::accessLine(const HttpAccess &access, time_t now) {
  tm parts = {};
  gmtime_r(&now, &parts);
  char time[32], seconds[32];
  strftime(time, sizeof time, "%Y-%m-%dT%H:%M:%SZ", &parts);
  snprintf(seconds, sizeof seconds, "%.3f s", access.seconds);
  std::string asked =
      access.method.empty() ? "" : access.method + " " + access.path;
  return std::string(time) + " " + (access.peer.empty() ? "-" : access.peer) +
         " " + inQuotes(asked) + " " + std::to_string(access.status) + " " +
         nameOf(access.status) + " " + seconds +
         (access.reason.empty() ? "" : " " + inQuotes(access.reason)) + "\n";
}

AccessLog::AccessLog(const std::string &path) : path(path) {
  if (path == "-") {
    file = dup(STDERR_FILENO);
    return;
  }
  file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file < 0)
    fail("H0411", "cannot write " + path + ": " + strerror(errno),
         "name another file with --access-log=FILE, or leave out FILE for "
         "lines on stderr");
}

AccessLog::~AccessLog() {
  if (file >= 0)
    close(file);
}

void AccessLog::write(const HttpAccess &access) {
  std::string line = accessLine(access, time(nullptr));
  ssize_t written = ::write(file, line.data(), line.size());
  if (written == ssize_t(line.size()) || std::exchange(hasWarned, true))
    return;
  // The server continues without its log.
  fprintf(stderr,
          "warning: cannot write %s: %s; requests are answered all the "
          "same\n",
          path.c_str(), written < 0 ? strerror(errno) : "no space is left");
}
