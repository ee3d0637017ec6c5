//===- Hostfile.cpp - Places the ranks of a job on hosts ------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parses hostfiles, applies the filters --include and --exclude, and assigns
// ranks to slots.
//
//===----------------------------------------------------------------------===//

#include "Hostfile.h"
#include "heddle/runtime/io/File.h"
#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <unistd.h>

using namespace heddle;
using namespace heddle::driver;

[[noreturn]] static void failLine(const std::string &path, int64_t line,
                                  const std::string &message) {
  fail("H0122", message, "write one host a line, as: worker-1 slots=4",
       {path, line, 1});
}

/// Parses a number of at most four digits. Returns -1 if the text is none.
static int64_t parseCount(const std::string &text) {
  bool valid = !text.empty() && text.size() <= 4 &&
               text.find_first_not_of("0123456789") == std::string::npos;
  return valid ? std::stoll(text) : -1;
}

std::vector<Host> driver::readHostfile(const std::string &path) {
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
    int64_t count = parseCount(slots.substr(6));
    if (count < 1)
      failLine(path, number, "slots must be a number from 1");
    for (const Host &host : hosts)
      if (host.name == name)
        failLine(path, number, "the host " + name + " is given twice");
    Host host{name, {}};
    for (int64_t slot = 0; slot < count; ++slot)
      host.slots.push_back(slot);
    hosts.push_back(std::move(host));
  }
  if (hosts.empty())
    fail("H0122", "the hostfile has no host",
         "write one host a line, as: worker-1 slots=4", {path, 0, 0});
  return hosts;
}

//===----------------------------------------------------------------------===//
// Filters
//===----------------------------------------------------------------------===//

using Filter = std::map<std::string, std::set<int64_t>>;

/// Parses a filter such as `h1@h2:0,2` to a map from hosts to slots. An empty
/// set means all slots of the host.
static Filter parseFilter(const std::string &flag, const std::string &filter,
                          const std::vector<Host> &hosts) {
  Filter result;
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
      int64_t slot = parseCount(number);
      if (slot < 0 || slot >= int64_t(host->slots.size()))
        fail("H0122", flag + ": " + name + " has no slot \"" + number + "\"",
             "its slots are 0 to " + std::to_string(host->slots.size() - 1));
      slots.insert(slot);
    }
  }
  return result;
}

/// Whether the filter contains the slot.
static bool names(const Filter &filter, const Host &host, int64_t slot) {
  auto found = filter.find(host.name);
  return found != filter.end() &&
         (found->second.empty() || found->second.count(slot));
}

void driver::filterHosts(const std::string &include, const std::string &exclude,
                         std::vector<Host> &hosts) {
  Filter kept = parseFilter("--include", include, hosts);
  Filter removed = parseFilter("--exclude", exclude, hosts);
  std::vector<Host> result;
  for (const Host &host : hosts) {
    Host rest{host.name, {}};
    for (int64_t slot : host.slots)
      if ((include.empty() || names(kept, host, slot)) &&
          !names(removed, host, slot))
        rest.slots.push_back(slot);
    if (!rest.slots.empty())
      result.push_back(std::move(rest));
  }
  if (result.empty())
    fail("H0122", "no slot is left of the hostfile",
         "exclude less, as --exclude worker-1:0");
  hosts = std::move(result);
}

//===----------------------------------------------------------------------===//
// Placement
//===----------------------------------------------------------------------===//

std::vector<Placement> driver::placeRanks(const std::vector<Host> &hosts,
                                          int64_t ranks) {
  int64_t slots = 0;
  for (const Host &host : hosts)
    slots += int64_t(host.slots.size());
  if (slots < ranks)
    fail("H0220",
         "the plan has " + std::to_string(ranks) +
             " ranks, and the hostfile gives " + std::to_string(slots) +
             (slots == 1 ? " slot" : " slots"),
         "add slots to the hostfile, or compile with a --mesh of " +
             std::to_string(slots));
  int64_t left = ranks == 0 ? slots : ranks;
  std::vector<Placement> placements;
  for (const Host &host : hosts) {
    int64_t count = std::min<int64_t>(left, host.slots.size());
    std::vector<int64_t> used(host.slots.begin(), host.slots.begin() + count);
    for (int64_t i = 0; i < count; ++i)
      placements.push_back({host.name, i, count, used});
    left -= count;
  }
  return placements;
}

bool driver::isThisMachine(const std::string &name) {
  char self[256] = {};
  gethostname(self, sizeof(self) - 1);
  return name == "localhost" || name == "127.0.0.1" || name == self;
}
