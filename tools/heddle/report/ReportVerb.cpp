//===- ReportVerb.cpp - heddle report -------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ReportPage.h"
#include "Verbs.h"
#include "heddle/runtime/core/Loader.h"
#include "heddle/runtime/io/File.h"
#include <filesystem>
#include <iostream>

using namespace heddle;
using namespace heddle::driver;

namespace {

/// The command line of `heddle report`.
struct ReportFlags {
  std::string first, second, output;
  ReportFiles files;
};

} // namespace

static ReportedPlan readReported(const std::string &path) {
  return {std::filesystem::path(path).filename().string(),
          rt::readTargets(path).front().plan};
}

static int report(const ReportFlags &flags) {
  io::requireApart({{"BINARY", flags.first},
                    {"BINARY2", flags.second},
                    {"--cluster", flags.files.cluster},
                    {"--trace", flags.files.trace},
                    {"--log", flags.files.log}},
                   {{"-o", flags.output}});
  io::requireWritableOutput(flags.output);
  std::vector<ReportedPlan> plans = {readReported(flags.first)};
  if (!flags.second.empty())
    plans.push_back(readReported(flags.second));
  std::string page = makeReport(std::move(plans), flags.files);
  io::writeText(flags.output, page);
  std::cerr << flags.output << ": " << page.size() << " bytes\n";
  return 0;
}

void driver::addReportVerb(CLI::App &app, Action &action) {
  auto flags = std::make_shared<ReportFlags>();
  CLI::App *verb = app.add_subcommand(
      "report", "Show a plan, and a run of it, on one page (.html)");
  io::addFlag(*verb, "BINARY", flags->first, io::range::path(),
              "A compiled binary")
      ->required()
      ->default_str("");
  io::addFlag(*verb, "BINARY2", flags->second, io::range::path(),
              "Another one, to compare with")
      ->default_str("none");
  io::addFlag(*verb, "-o,--output", flags->output, io::range::path(),
              "The page to write (.html)")
      ->required()
      ->default_str("");
  io::addFlag(*verb, "--cluster", flags->files.cluster, io::range::path(),
              "Machines whose times are given (.json)")
      ->default_str("that of heddle compile --cluster");
  io::addFlag(*verb, "--trace", flags->files.trace, io::range::path(),
              "The file that BINARY train --trace FILE wrote")
      ->default_str("none");
  io::addFlag(*verb, "--log", flags->files.log, io::range::path(),
              "The file that BINARY train --log FILE wrote")
      ->default_str("none");
  verb->add_flag("--redact", flags->files.isRedacted,
                 "Leave out paths of this machine");
  verb->callback(
      [flags, &action] { action = [flags] { return report(*flags); }; });
}
