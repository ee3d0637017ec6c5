//===- CommandLine.h - Parts of a binary's command line ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Helpers of CommandLine.cpp in other files: the flags of hyperparameters
// (HyperFlags.cpp), of profiles (ProfileFlags.cpp) and of models that serve
// (ServingFlags.cpp), and advice on flags and verbs that belong to `heddle`
// rather than to a binary (CompileWords.cpp).
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_COMMANDLINE_H
#define HEDDLE_RUNTIME_APP_COMMANDLINE_H

#include "heddle/runtime/app/Options.h"
#include "heddle/runtime/io/Flags.h"

namespace heddle::rt {

/// Adds the flags of `train` that override hyperparameters of the binary.
void addHyperFlags(CLI::App &verb, HyperOptions &hyper);

/// Adds the flags of `train` that measure a step by module.
void addProfileFlags(CLI::App &verb, ProfileOptions &profile);
/// Adds the flags of `train` that report on the whole run.
void addReportFlags(CLI::App &verb, ReportOptions &reports);

/// Adds the flags of `bench` that measure generation.
void addDecodeFlags(CLI::App &verb, BenchOptions &bench);
/// Adds the flag for the draft model's weights.
void addDraft(CLI::App &verb, JobOptions &job);
/// Adds the flags of the cache of converted weights.
void addWeightCache(CLI::App &verb, JobOptions &job);
/// Adds the flag that limits how much of a GPU's memory a binary uses whose
/// cache of keys and values is as large as the GPU allows.
void addDeviceMemory(CLI::App &verb, JobOptions &job);

/// Returns advice on a word that the binary's command line does not accept. The
/// word may be a flag of `heddle compile` (its value is fixed in the binary), a
/// verb of `heddle`, or a value whose flag is missing.
std::optional<io::Advice> adviseOnBinary(const CLI::App &verb,
                                         const std::string &word,
                                         const std::string &value);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_COMMANDLINE_H
