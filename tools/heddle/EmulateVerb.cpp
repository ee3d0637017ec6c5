//===- EmulateVerb.cpp - heddle emulate -----------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements `heddle emulate`, which runs GPU binaries without a GPU. It starts
// the command with the directory of the emulated libcuda, libcublasLt and
// libnccl first in LD_LIBRARY_PATH.
//
//===----------------------------------------------------------------------===//

#include "Verbs.h"
#include "heddle/emulator/cuda/Environment.h"
#include "heddle/runtime/io/Diagnostic.h"
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <unistd.h>

using namespace heddle;
using namespace heddle::driver;
namespace fs = std::filesystem;

namespace {

struct EmulateFlags {
  std::string chip = "sm_90";
  int64_t devices = 0; ///< 0: one for each rank.
  std::vector<std::string> command;
};

} // namespace

/// Returns the directory of the emulated libraries. Relative to this program,
/// it is the same in a build tree and in an installation.
static fs::path findLibraries() {
  std::error_code error;
  fs::path self = fs::read_symlink("/proc/self/exe", error);
  fs::path folder =
      self.parent_path().parent_path() / "lib" / "heddle" / "emulated";
  if (!fs::exists(folder / "libcuda.so.1", error))
    fail("H0170",
         "there is no emulated driver: " + (folder / "libcuda.so.1").string() +
             " is not there",
         "install Heddle with its folder lib/heddle/emulated, or build the "
         "target HeddleEmulatedCuda");
  return folder;
}

static void setVariable(const char *name, const std::string &value) {
  setenv(name, value.c_str(), /*overwrite=*/1);
}

[[noreturn]] static int runCommand(const EmulateFlags &flags) {
  std::string path = findLibraries();
  const char *before = std::getenv("LD_LIBRARY_PATH");
  if (before && *before)
    path += std::string(":") + before;
  setVariable("LD_LIBRARY_PATH", path);
  setVariable("HEDDLE_EMULATE_CHIP", flags.chip);
  if (flags.devices > 0)
    setVariable("HEDDLE_EMULATE_DEVICES", std::to_string(flags.devices));
  if (std::string wrong = rt::cuda::problemOfEnvironment(); !wrong.empty())
    fail("H0114", wrong, "unset it, or give it such a value");
  // The user may write `--` before the command.
  bool isMarked = flags.command.front() == "--";
  std::vector<char *> words;
  for (size_t i = isMarked; i < flags.command.size(); ++i)
    words.push_back(const_cast<char *>(flags.command[i].c_str()));
  if (words.empty())
    fail("H0113", "heddle emulate: there is no command",
         "give one after --, as heddle emulate -- ./gpt2 info");
  words.push_back(nullptr);
  execvp(words[0], words.data());
  fail("H0425",
       std::string(words[0]) + " cannot be started: " + std::strerror(errno),
       "give a program or its path, as ./gpt2");
}

void driver::addEmulateVerb(CLI::App &app, Action &action) {
  auto flags = std::make_shared<EmulateFlags>();
  CLI::App *verb = app.add_subcommand(
      "emulate", "Run a command whose GPU binaries find emulated GPUs");
  verb->positionals_at_end();
  io::addFlag(*verb, "--chip", flags->chip,
              io::ValueRange::choices({"sm_80", "sm_90"}),
              "What the GPUs are like");
  io::addFlag(*verb, "--devices", flags->devices,
              io::ValueRange::integers(1, 1024), "How many GPUs there are")
      ->default_str("one for each rank");
  verb->add_option("COMMAND", flags->command,
                   "A command with its arguments, as ./gpt2 train --steps 3")
      ->required()
      ->default_str("");
  verb->callback(
      [flags, &action] { action = [flags] { return runCommand(*flags); }; });
}
