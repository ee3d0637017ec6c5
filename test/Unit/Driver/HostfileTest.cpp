//===- HostfileTest.cpp - Hostfiles and placement -------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../../../tools/heddle/Hostfile.h"
#include "heddle/runtime/io/Diagnostic.h"
#include <cstdio>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <unistd.h>

using namespace heddle;
using namespace heddle::driver;

namespace {

std::string codeOf(const std::function<void()> &action) {
  try {
    action();
  } catch (const UserError &error) {
    return error.diagnostic.code + ": " + error.diagnostic.message;
  }
  return "";
}

std::vector<Host> read(const std::string &text) {
  std::string path =
      ::testing::TempDir() + "heddle_hosts_" + std::to_string(getpid());
  std::ofstream(path) << text;
  try {
    std::vector<Host> hosts = readHostfile(path);
    std::remove(path.c_str());
    return hosts;
  } catch (...) {
    std::remove(path.c_str());
    throw;
  }
}

/// `a:0,1 b:0` of hosts and their slots.
std::string print(const std::vector<Host> &hosts) {
  std::string text;
  for (const Host &host : hosts) {
    text += (text.empty() ? "" : " ") + host.name;
    for (size_t i = 0; i < host.slots.size(); ++i)
      text += (i ? "," : ":") + std::to_string(host.slots[i]);
  }
  return text;
}

std::string filtered(const std::string &include, const std::string &exclude) {
  std::vector<Host> hosts = read("a slots=3\nb slots=2\nc slots=1\n");
  filterHosts(include, exclude, hosts);
  return print(hosts);
}

} // namespace

TEST(Hostfile, Lines) {
  EXPECT_EQ(print(read("# all\n\n a  slots=2 # fast\nb slots=1")), "a:0,1 b:0");
  for (const char *bad :
       {"", "# none\n", "a\n", "a slots=\n", "a slots=0\n", "a slots=x\n",
        "a slots=2 b\n", "a 2\n", "a slots=1\na slots=1\n"})
    EXPECT_EQ(codeOf([&] { read(bad); }).substr(0, 5), "H0122") << bad;
}

TEST(Hostfile, Filters) {
  EXPECT_EQ(filtered("", ""), "a:0,1,2 b:0,1 c:0");
  // The order is that of the hostfile.
  EXPECT_EQ(filtered("c@a:2,0", ""), "a:0,2 c:0");
  EXPECT_EQ(filtered("", "a@b:1"), "b:0 c:0");
  EXPECT_EQ(codeOf([] { filtered("", "a@b@c"); }),
            "H0122: no slot is left of the hostfile");
  EXPECT_EQ(codeOf([] { filtered("d", ""); }).substr(0, 5), "H0122");
  EXPECT_EQ(codeOf([] { filtered("a:3", ""); }).substr(0, 5), "H0122");
}

TEST(Hostfile, Placement) {
  std::vector<Host> hosts = read("a slots=3\nb slots=2\n");
  EXPECT_EQ(placeRanks(hosts, 0).size(), 5u);
  std::vector<Placement> ranks = placeRanks(hosts, 4);
  ASSERT_EQ(ranks.size(), 4u);
  EXPECT_EQ(ranks[2].host, "a");
  EXPECT_EQ(ranks[2].localRank, 2);
  EXPECT_EQ(ranks[2].localSize, 3);
  EXPECT_EQ(ranks[3].host, "b");
  EXPECT_EQ(ranks[3].localRank, 0);
  EXPECT_EQ(ranks[3].localSize, 1);
  EXPECT_EQ(ranks[3].slots, std::vector<int64_t>({0}));
  EXPECT_EQ(codeOf([&] { placeRanks(hosts, 8); }),
            "H0220: the plan has 8 ranks, and the hostfile gives 5 slots");
}
