//===- RunVerb.cpp - heddle run -------------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements `heddle run`, which starts the ranks of a binary. Its command line
// is like that of DeepSpeed's launcher. If there is only one rank and it runs
// on this machine, its command replaces this process.
//
//===----------------------------------------------------------------------===//

#include "LaunchRanks.h"
#include "Verbs.h"
#include "heddle/runtime/core/Loader.h"
#include "heddle/runtime/devices/cpu/ThreadPool.h"
#include "heddle/runtime/io/Diagnostic.h"
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iostream>
#include <sstream>
#include <unistd.h>

using namespace heddle;
using namespace heddle::driver;

namespace {

struct RunFlags {
  std::string hostfile, include, exclude, ssh = "ssh", binary, masterAddress;
  int64_t masterPort = 0, joinTimeout = 0;
  bool oversubscribe = false;
  std::vector<std::string> arguments;
};

} // namespace

/// Returns the mesh of the binary's plan. Returns nothing if the program has no
/// plan, for example because it is a script.
static std::optional<plan::Mesh> meshOf(const std::string &binary) {
  try {
    return rt::readBinary(binary).plan.mesh;
  } catch (const UserError &error) {
    if (error.diagnostic.code != "H0381")
      throw;
  }
  return std::nullopt;
}

/// Warns if ranks that differ only along `axis` are on several hosts, since
/// such ranks communicate in every layer. The warning advises the user to give
/// each host a number of slots that is a multiple of `group`, the product of
/// the sizes of `axis` and of all mesh axes after it.
static void warnOfGroup(const plan::Mesh &mesh, const std::string &axis,
                        int64_t group, const std::vector<Placement> &ranks) {
  for (int64_t rank = 0; rank < int64_t(ranks.size()); ++rank) {
    int64_t first = mesh.member(rank, {axis}, 0);
    if (ranks[first].host == ranks[rank].host)
      continue;
    std::cerr << "warning: the " << axis << " ranks " << first << " and "
              << rank << " are on " << ranks[first].host << " and "
              << ranks[rank].host << "; with slots in multiples of " << group
              << " a group is on one host\n";
    return;
  }
}

/// Warns about groups of ranks that are on several hosts, for each mesh axis
/// over which ranks communicate within a layer.
static void warnOfGroups(const plan::Mesh &mesh,
                         const std::vector<Placement> &ranks) {
  int64_t group = 1;
  for (auto axis = mesh.axes.rbegin(); axis != mesh.axes.rend(); ++axis) {
    group *= axis->size;
    if (axis->role == plan::AxisRole::Tensor ||
        axis->role == plan::AxisRole::Sequence)
      warnOfGroup(mesh, axis->name, group, ranks);
  }
}

/// Throws an error if there are many more ranks than cores. Ranks that wait for
/// a core would be taken for dead, and the memory of the machine might not
/// suffice. If a terminal is used, the user may confirm instead.
static void requireCores(const std::vector<Placement> &ranks) {
  constexpr int64_t mostRanksOfACore = 8;
  int64_t cores = rt::availableThreads();
  int64_t here =
      std::count_if(ranks.begin(), ranks.end(), [](const Placement &rank) {
        return isThisMachine(rank.host);
      });
  if (here <= mostRanksOfACore * cores)
    return;
  std::string many = std::to_string(here) + " ranks on " +
                     std::to_string(cores) + (cores == 1 ? " core" : " cores") +
                     " of this machine";
  if (isatty(STDIN_FILENO) && isatty(STDERR_FILENO)) {
    std::cerr << "start " << many << "? [y/N] " << std::flush;
    std::string answer;
    if (std::getline(std::cin, answer) && (answer == "y" || answer == "Y"))
      return;
  }
  fail("H0115",
       many + ": more than " + std::to_string(mostRanksOfACore) + " a core",
       "pass --oversubscribe to start them, or name other hosts with "
       "--hostfile");
}

[[noreturn]] static void failStart(const std::string &binary) {
  fail("H0381", binary + " cannot be started: " + std::strerror(errno),
       "give the path of a compiled binary");
}

/// Replaces this process with the command. If that fails, throws an error.
[[noreturn]] static void become(const std::vector<std::string> &command) {
  std::vector<char *> words;
  for (const std::string &word : command)
    words.push_back(const_cast<char *>(word.c_str()));
  words.push_back(nullptr);
  execv(words[0], words.data());
  failStart(command.front());
}

static int runBinary(const RunFlags &flags) {
  LaunchRequest request;
  bool isBare = flags.binary.find('/') == std::string::npos;
  request.command = {(isBare ? "./" : "") + flags.binary};
  // The user may write `--` before the arguments.
  bool isMarked = !flags.arguments.empty() && flags.arguments.front() == "--";
  request.command.insert(request.command.end(),
                         flags.arguments.begin() + isMarked,
                         flags.arguments.end());
  if (flags.joinTimeout > 0)
    request.command.push_back("--join-timeout=" +
                              std::to_string(flags.joinTimeout));
  if (access(request.command.front().c_str(), X_OK) != 0)
    failStart(flags.binary);
  std::optional<plan::Mesh> mesh = meshOf(request.command.front());
  int64_t ranks = mesh ? mesh->ranks() : 0;
  std::vector<Host> hosts;
  if (flags.hostfile.empty()) {
    hosts = {{"localhost", {}}};
    for (int64_t slot = 0; slot < std::max<int64_t>(1, ranks); ++slot)
      hosts.front().slots.push_back(slot);
  } else {
    hosts = readHostfile(flags.hostfile);
  }
  filterHosts(flags.include, flags.exclude, hosts);
  request.ranks = placeRanks(hosts, ranks);
  if (mesh)
    warnOfGroups(*mesh, request.ranks);
  if (request.ranks.size() == 1 && isThisMachine(request.ranks.front().host))
    become(request.command);
  if (!flags.oversubscribe)
    requireCores(request.ranks);
  std::istringstream words(flags.ssh);
  request.ssh.clear();
  for (std::string word; words >> word;)
    request.ssh.push_back(word);
  if (request.ssh.empty())
    fail("H0113", "--ssh: there is no command", "leave it out for ssh");
  request.masterAddress = flags.masterAddress;
  request.masterPort = flags.masterPort;
  return launchRanks(request);
}

void driver::addRunVerb(CLI::App &app, Action &action) {
  auto flags = std::make_shared<RunFlags>();
  CLI::App *verb = app.add_subcommand(
      "run", "Launch the ranks of a binary: what follows BINARY is for it");
  verb->positionals_at_end();
  io::addFlag(*verb, "--hostfile", flags->hostfile, io::range::path(),
              "Hosts and slots, as DeepSpeed's")
      ->default_str("this machine");
  auto *include =
      io::addFlag(*verb, "-i,--include", flags->include, io::range::text(),
                  "Hosts and slots to use, as h1@h2:0,2")
          ->default_str("all");
  io::addFlag(*verb, "-e,--exclude", flags->exclude, io::range::text(),
              "Hosts and slots not to use")
      ->default_str("none")
      ->excludes(include);
  io::addFlag(*verb, "--ssh", flags->ssh, io::range::text(),
              "Command that takes a host and a command line");
  io::addFlag(*verb, "--master-addr,--master_addr", flags->masterAddress,
              io::range::text(), "Where the ranks meet")
      ->default_str("rank 0's host");
  io::addFlag(*verb, "--master-port,--master_port", flags->masterPort,
              io::ValueRange::integers(1, 65535), "The port at which they meet")
      ->default_str("a free one here, 29500 on several hosts");
  io::addFlag(*verb, "--join-timeout", flags->joinTimeout,
              io::range::joinTimeout(),
              "Seconds in which all ranks must have come")
      ->default_str("60");
  verb->add_flag("--oversubscribe", flags->oversubscribe,
                 "Start more than 8 ranks a core of this machine");
  io::addFlag(*verb, "BINARY", flags->binary, io::range::path(),
              "A compiled binary")
      ->required()
      ->default_str("");
  verb->add_option("ARGS", flags->arguments,
                   "Its verb and flags, as train --data FILE")
      ->default_str("");
  verb->callback(
      [flags, &action] { action = [flags] { return runBinary(*flags); }; });
}
