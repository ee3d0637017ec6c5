//===- RunVerb.cpp - heddle run -------------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads a hostfile as DeepSpeed does and starts the ranks; a plan for one rank
// on this machine is executed in place.
//
//===----------------------------------------------------------------------===//

#include "Verbs.h"
#include "heddle/runtime/io/File.h"
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <set>
#include <sstream>
#include <unistd.h>

using namespace heddle;
using namespace heddle::driver;

namespace {

struct Host {
  std::string name;
  std::set<int64_t> slots;
};

struct RunFlags {
  std::string hostfile, include, exclude, binary;
  std::vector<std::string> arguments;
};

} // namespace

[[noreturn]] static void failLine(const std::string &path, int64_t line,
                                  const std::string &message) {
  fail("H0122", message, "write one host a line, as: worker-1 slots=4",
       {path, line, 1});
}

/// Lines `HOST slots=N`; `#` begins a comment.
static std::vector<Host> readHostfile(const std::string &path) {
  std::istringstream text(io::readText(path, "H0101"));
  std::vector<Host> hosts;
  std::string line;
  for (int64_t number = 1; std::getline(text, line); ++number) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string name, slots, rest;
    if (!(words >> name))
      continue;
    if (!(words >> slots) || slots.rfind("slots=", 0) != 0 || words >> rest)
      failLine(path, number, "not a line of a hostfile");
    std::string count = slots.substr(6);
    if (count.empty() || count.size() > 4 ||
        count.find_first_not_of("0123456789") != std::string::npos ||
        std::stoll(count) < 1)
      failLine(path, number, "slots must be a number from 1");
    for (const Host &host : hosts)
      if (host.name == name)
        failLine(path, number, "the host " + name + " is given twice");
    Host host{name, {}};
    for (int64_t slot = 0; slot < std::stoll(count); ++slot)
      host.slots.insert(slot);
    hosts.push_back(std::move(host));
  }
  if (hosts.empty())
    fail("H0122", "the hostfile has no host",
         "write one host a line, as: worker-1 slots=4", {path, 0, 0});
  return hosts;
}

/// `h1@h2:0,2` as host to slots; an empty set means all of them.
static std::map<std::string, std::set<int64_t>>
parseFilter(const std::string &flag, const std::string &filter,
            const std::vector<Host> &hosts) {
  std::map<std::string, std::set<int64_t>> result;
  std::istringstream parts(filter);
  std::string part;
  while (std::getline(parts, part, '@')) {
    size_t colon = part.find(':');
    std::string name = part.substr(0, colon);
    auto host = std::find_if(hosts.begin(), hosts.end(),
                             [&](const Host &h) { return h.name == name; });
    if (host == hosts.end())
      fail("H0122", flag + ": no host \"" + name + "\" in the hostfile",
           "name hosts of the hostfile, as worker-0@worker-1:0,2");
    std::set<int64_t> &slots = result[name];
    if (colon == std::string::npos)
      continue;
    std::istringstream numbers(part.substr(colon + 1));
    std::string number;
    while (std::getline(numbers, number, ',')) {
      bool valid = !number.empty() && number.size() <= 4 &&
                   number.find_first_not_of("0123456789") == std::string::npos;
      if (!valid || !host->slots.count(std::stoll(number)))
        fail("H0122", flag + ": " + name + " has no slot \"" + number + "\"",
             "its slots are 0 to " + std::to_string(host->slots.size() - 1));
      slots.insert(std::stoll(number));
    }
  }
  return result;
}

static void applyFilters(const RunFlags &flags, std::vector<Host> &hosts) {
  if (!flags.include.empty()) {
    auto kept = parseFilter("--include", flags.include, hosts);
    for (Host &host : hosts) {
      auto found = kept.find(host.name);
      if (found == kept.end())
        host.slots.clear();
      else if (!found->second.empty())
        host.slots = found->second;
    }
  }
  if (!flags.exclude.empty()) {
    auto removed = parseFilter("--exclude", flags.exclude, hosts);
    for (Host &host : hosts) {
      auto found = removed.find(host.name);
      if (found == removed.end())
        continue;
      if (found->second.empty())
        host.slots.clear();
      for (int64_t slot : found->second)
        host.slots.erase(slot);
    }
  }
  hosts.erase(std::remove_if(hosts.begin(), hosts.end(),
                             [](const Host &h) { return h.slots.empty(); }),
              hosts.end());
}

static bool isThisMachine(const std::string &name) {
  char self[256] = {};
  gethostname(self, sizeof(self) - 1);
  return name == "localhost" || name == "127.0.0.1" || name == self;
}

static int runBinary(const RunFlags &flags) {
  if (!flags.hostfile.empty()) {
    std::vector<Host> hosts = readHostfile(flags.hostfile);
    applyFilters(flags, hosts);
    size_t slots = 0;
    for (const Host &host : hosts)
      slots += host.slots.size();
    if (slots != 1)
      fail("H0115",
           "the hostfile gives " + std::to_string(slots) +
               " slots: plans are made for one rank",
           "choose one with --include HOST:0");
    if (!isThisMachine(hosts.front().name))
      fail("H0115", hosts.front().name + " is not this machine",
           "start heddle run there, or include localhost");
  }
  std::vector<char *> arguments = {const_cast<char *>(flags.binary.c_str())};
  for (const std::string &argument : flags.arguments)
    arguments.push_back(const_cast<char *>(argument.c_str()));
  arguments.push_back(nullptr);
  execv(flags.binary.c_str(), arguments.data());
  fail("H0381", flags.binary + " cannot be started: " + std::strerror(errno),
       "give the path of a compiled binary");
}

void driver::addRunVerb(CLI::App &app, Action &action) {
  auto flags = std::make_shared<RunFlags>();
  CLI::App *verb = app.add_subcommand("run", "Launch the ranks of a binary");
  verb->add_option("--hostfile", flags->hostfile,
                   "Hosts and slots, as DeepSpeed's")
      ->default_str("this machine");
  auto *include = verb->add_option("--include", flags->include,
                                   "Hosts and slots to use, as h1@h2:0,2")
                      ->default_str("all");
  verb->add_option("--exclude", flags->exclude, "Hosts and slots not to use")
      ->default_str("none")
      ->excludes(include);
  verb->add_option("BINARY", flags->binary, "A compiled binary")
      ->required()
      ->default_str("");
  verb->add_option("ARGS", flags->arguments, "Its arguments, after --")
      ->default_str("");
  verb->callback(
      [flags, &action] { action = [flags] { return runBinary(*flags); }; });
}
