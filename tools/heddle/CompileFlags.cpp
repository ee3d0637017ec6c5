//===- CompileFlags.cpp - Flags and files of a compilation ----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CompileFlags.h"
#include "CompileJob.h"
#include "heddle/Import/SettingTable.h"
#include "heddle/runtime/io/Affix.h"
#include "heddle/runtime/io/CacheDirectory.h"
#include "heddle/runtime/io/File.h"
#include <iostream>

using namespace heddle;
using namespace heddle::driver;

std::string driver::defaultCache() {
  std::string directory = io::cacheDirectory();
  return directory.empty() ? "off" : directory;
}

SettingsFiles driver::readSettingsFiles(const std::string &dsConfig,
                                        const std::string &strategy) {
  SettingsFiles files;
  files.strategy.name = strategy;
  if (io::endsWith(strategy, ".mlir")) {
    std::vector<Diagnostic> errors;
    files.strategy.text = strategyFileToJson(strategy, errors);
    if (!errors.empty())
      throw config::ConfigErrors(std::move(errors));
  } else if (!strategy.empty()) {
    files.strategy.text = io::readText(strategy, "H0101");
  }
  if (!dsConfig.empty())
    files.dsConfig = config::readDsConfig(dsConfig);
  return files;
}

void driver::tellReader(config::ModelRequest &request,
                        const config::Settings &settings) {
  request.noDecay = settings.noDecay;
  request.objective =
      plan::parseName<plan::Objective>(config::wordOf(settings.objective));
  request.extension = config::parsePositionExtension(settings.extendPositions);
}

void driver::warnOfModel(const config::ModelSpec &model) {
  for (const std::string &warning : model.warnings)
    std::cerr << "warning: " << warning << "\n";
}

void driver::addSettings(CLI::App &verb, const char *group,
                         config::Flags &flags) {
  verb.option_defaults()->group(group);
  for (const config::SettingFlag &flag : config::settingFlags()) {
    if (flag.group != std::string(group))
      continue;
    std::optional<std::string> &text = flags[flag.name()];
    if (*flag.type == 0) {
      verb.add_flag_callback(
          flag.names, [&text] { text = "true"; }, flag.help);
      continue;
    }
    CLI::Option *option =
        io::addFlag(verb, flag.names, text, flag.range, flag.help);
    option->type_name(flag.type)->default_str(flag.shown);
    if (flag.isRepeatable())
      option->join('\n');
  }
}
