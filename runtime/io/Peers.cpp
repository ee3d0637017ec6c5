//===- Peers.cpp - The ranks of a job, for I/O ------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/io/Peers.h"
#include <fstream>
#include <new>
#include <nlohmann/json.hpp>
#include <system_error>

using namespace heddle;
using namespace heddle::io;

std::string io::hostIdentity() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  file >> id;
  return id.empty() ? "one" : id;
}

static std::string toText(const Diagnostic &error) {
  return nlohmann::json({{"code", error.code},
                         {"message", error.message},
                         {"file", error.location.file},
                         {"line", error.location.line},
                         {"column", error.location.column},
                         {"notes", error.notes},
                         {"help", error.help}})
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

static Diagnostic fromText(const std::string &text) {
  auto json = nlohmann::json::parse(text);
  Diagnostic error;
  json.at("code").get_to(error.code);
  json.at("message").get_to(error.message);
  json.at("file").get_to(error.location.file);
  json.at("line").get_to(error.location.line);
  json.at("column").get_to(error.location.column);
  json.at("notes").get_to(error.notes);
  json.at("help").get_to(error.help);
  return error;
}

Diagnostic io::describeUnexpected(const std::exception &error) {
  auto *system = dynamic_cast<const std::system_error *>(&error);
  bool noThread =
      system && system->code() == std::errc::resource_unavailable_try_again;
  Diagnostic problem;
  if (noThread || dynamic_cast<const std::bad_alloc *>(&error)) {
    problem.code = "H0292";
    problem.message = std::string("this machine gives no more ") +
                      (noThread ? "threads" : "memory");
    problem.help = "raise the limits of the process (ulimit), or end others";
    return problem;
  }
  problem.code = "H0901";
  problem.message = std::string("internal error: ") + error.what();
  problem.help =
      "this is a bug: please report it with the command line and the "
      "output of `info`";
  return problem;
}

void Peers::together(const std::function<void()> &work) {
  std::string problem;
  try {
    work();
  } catch (const UserError &error) {
    problem = toText(error.diagnostic);
  } catch (const std::exception &error) {
    problem = toText(describeUnexpected(error));
  }
  if (maximum(problem.empty() ? 0 : 1) == 0)
    return;
  failed = true;
  for (const std::string &text : exchange(problem))
    if (!text.empty())
      throw UserError(fromText(text));
}
