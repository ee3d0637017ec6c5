//===- ProfileFlags.cpp - The flags of a step's profile -------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CommandLine.h"

using namespace heddle;
using namespace heddle::rt;
using io::addFlag;

void heddle::rt::addProfileFlags(CLI::App &verb, ProfileOptions &profile) {
  io::ValueRange steps = io::range::count(0);
  // CLI11 would count occurrences of a flag whose target can be an integer.
  static constexpr const char *third = "third";
  verb.add_flag("--profile{third}",
                "Print on stderr what each module of the model costs in the "
                "third step, or with --profile=STEP in this step; 0: no "
                "profile")
      ->transform(CLI::Validator(
          [steps](std::string &text) {
            std::string given = text;
            return text == third || steps.take(text)
                       ? std::string()
                       : '"' + given + "\" is not " + steps.describe();
          },
          "", ""))
      ->each([&profile](const std::string &text) {
        profile.step = text == third ? 0 : std::stoll(text);
        profile.isOff = text != third && profile.step == 0;
      });
  addFlag(verb, "--profile-file", profile.file, io::range::path(),
          "Write the profile to this file, as JSON if its name ends in .json; "
          "rank N of several ranks writes its own, with .rankN in the name")
      ->type_name("FILE");
  addFlag(verb, "--profile-flame", profile.flame, io::range::path(),
          "Write the step's commands, by module, as a file for speedscope.app; "
          "names of ranks are as for --profile-file")
      ->type_name("FILE");
  addFlag(verb, "--profile-depth", profile.depth,
          io::ValueRange::integers(0, 64),
          "How many levels of modules below the model a profile shows")
      ->default_str("all, or as compiled");
  addFlag(verb, "--profile-top", profile.top, io::range::count(1),
          "How many of a level's most expensive modules a profile lists")
      ->default_str("1, or as compiled");
}

void heddle::rt::addReportFlags(CLI::App &verb, ReportOptions &reports) {
  auto add = [&](const char *flag, std::optional<bool> &value,
                 const std::string &help) {
    verb.add_flag(flag, help)
        ->transform(CLI::IsMember({"true", "false"}))
        ->each([&value](const std::string &text) { value = text == "true"; })
        ->default_str("off, or as compiled");
  };
  add("--wall-clock-breakdown", reports.wallClockBreakdown,
      "Report how long the parts of each step took: forward, backward, "
      "optimizer, waits, copies");
  add("--comms-logger", reports.commsLogger,
      "Report collectives and messages at the end: count, size, time, bus "
      "bandwidth, slowest rank");
  add("--memory-breakdown", reports.memoryBreakdown,
      "Report planned and resident memory by owner at the end");
}
