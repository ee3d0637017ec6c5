//===- LogWriters.cpp - The log as CSV ------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LogWriters.h"

#include <filesystem>
#include <fstream>

using namespace heddle;
using namespace heddle::rt;

namespace {

/// A column of the CSV log. Its values are those of the key `key` in the JSON
/// objects of events of the kind `event`.
struct Column {
  const char *name, *event, *key;
};

constexpr Column columns[] = {{"loss", "step", "loss"},
                              {"grad_norm", "step", "grad_norm"},
                              {"lr", "step", "lr"},
                              {"tokens", "step", "tokens"},
                              {"time_s", "step", "time_s"},
                              {"tokens_per_s", "step", "tokens_per_s"},
                              {"mfu", "step", "mfu"},
                              {"eval_loss", "eval", "loss"},
                              {"eval_perplexity", "eval", "perplexity"}};

class CsvLog : public LogWriter {
public:
  CsvLog(const std::string &path, bool append);
  void write(const JsonLine &event) override;

private:
  LogFile file;
};

} // namespace

static std::string headerLine() {
  std::string line = "step";
  for (const Column &column : columns)
    line += std::string(",") + column.name;
  return line;
}

/// Returns the first line of a file; "" if there is none.
static std::string firstLine(const std::string &path) {
  std::error_code ignored;
  std::string line;
  if (std::filesystem::is_regular_file(path, ignored)) {
    std::ifstream stream(path);
    std::getline(stream, line);
  }
  return line;
}

CsvLog::CsvLog(const std::string &path, bool append) {
  std::string found = append ? firstLine(path) : "";
  if (!found.empty() && found != headerLine())
    fail("H0440", "the table that is to be continued has other columns",
         "name another file with --log-csv", {path, 1, 1});
  file.open(path, append, "--log-csv");
  if (found.empty())
    file.put(headerLine() + "\n");
}

void CsvLog::write(const JsonLine &event) {
  const JsonLine::Field *step = event.find("step");
  if (!step || (event.event() != "step" && event.event() != "eval"))
    return;
  std::string line = step->json;
  for (const Column &column : columns) {
    line += ",";
    const JsonLine::Field *field = event.find(column.key);
    if (field && field->number && event.event() == column.event)
      line += field->json;
  }
  file.put(line + "\n");
}

std::unique_ptr<LogWriter> heddle::rt::makeCsvLog(const std::string &path,
                                                  bool append) {
  return std::make_unique<CsvLog>(path, append);
}
