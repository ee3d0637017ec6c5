//===- SettingsCluster.cpp - Reads a cluster file, and checks a mesh ------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads a cluster file, and checks that a mesh fits the cluster.
//
//===----------------------------------------------------------------------===//

#include "SettingsMerge.h"
#include "heddle/Import/Parallel.h"
#include "heddle/PlanFormat/Format.h"
#include "heddle/runtime/io/File.h"
#include "heddle/runtime/io/Json.h"
#include <algorithm>
#include <nlohmann/json.hpp>

using namespace heddle;
using namespace heddle::config;

namespace {

/// Reads a cluster file, and adds a row to the table of --explain-config for
/// each value. If a value is invalid, the others are still read, so that all
/// errors are reported at once.
class ClusterReader {
public:
  ClusterReader(Cluster &cluster, std::vector<Diagnostic> &problems)
      : cluster(cluster), problems(problems) {}
  void read(const io::JsonValue &root);

private:
  void requireKeys(const io::JsonValue &object,
                   const std::vector<std::string> &known);
  void addRow(const io::JsonValue &value, bool isApplied,
              const std::string &why);
  int64_t readCount(const io::JsonValue &root, const std::string &key,
                    SourceLocation &location);
  double readRate(const io::JsonValue &object, const std::string &key);
  int64_t readBytes(const io::JsonValue &root, const std::string &key);
  cost::Link readLink(const io::JsonValue &link);
  cost::Files readFiles(const io::JsonValue &files);
  void readFlops(const io::JsonValue &root);
  Cluster &cluster;
  Problems problems;
};

} // namespace

void ClusterReader::requireKeys(const io::JsonValue &object,
                                const std::vector<std::string> &known) {
  std::string all;
  for (const std::string &key : known)
    all += " " + key;
  for (const io::JsonMember &member : object.members())
    if (std::find(known.begin(), known.end(), member.key) == known.end()) {
      std::string near = closestMatch(member.key, known);
      problems.add({"H0107",
                    "unknown key \"" + member.key + "\" in a cluster file",
                    member.keyLocation(),
                    {},
                    near.empty() ? "remove it; known here:" + all
                                 : "did you mean \"" + near + "\"?"});
    }
}

void ClusterReader::addRow(const io::JsonValue &value, bool isApplied,
                           const std::string &why) {
  SourceLocation place = value.location();
  cluster.rows.push_back({value.path(), value.toJson().dump(),
                          place.file + ":" + std::to_string(place.line),
                          isApplied ? "applied" : "no meaning here", why});
}

int64_t ClusterReader::readCount(const io::JsonValue &root,
                                 const std::string &key,
                                 SourceLocation &location) {
  const io::JsonValue &value = root.at(key);
  int64_t count = value.asInteger();
  if (count < 1 || count > 1000000)
    value.fail("H0110",
               "\"" + key + "\" is " + std::to_string(count) +
                   ", which is out of range",
               "give a whole number from 1");
  location = value.location();
  addRow(value, true, "");
  return count;
}

/// Reads a rate in bytes per second.
double ClusterReader::readRate(const io::JsonValue &object,
                               const std::string &key) {
  const io::JsonValue &rate = object.at(key);
  std::optional<int64_t> bytes = parseByteSize(rate.asString());
  if (!bytes || *bytes == 0)
    rate.fail("H0110", "\"" + rate.path() + "\" is " + rate.describe(),
              "give the bytes of a second as 400GiB or 1.5MiB");
  addRow(rate, true, "");
  return double(*bytes);
}

/// Reads the size of a memory in bytes. Returns 0 if the file does not give it.
int64_t ClusterReader::readBytes(const io::JsonValue &root,
                                 const std::string &key) {
  const io::JsonValue *size = root.findNonNull(key);
  if (!size)
    return 0;
  std::optional<int64_t> bytes = parseByteSize(size->asString());
  if (!bytes || *bytes == 0)
    size->fail("H0110", "\"" + size->path() + "\" is " + size->describe(),
               "give bytes, as 80GiB");
  addRow(*size, true, "");
  return *bytes;
}

cost::Files ClusterReader::readFiles(const io::JsonValue &files) {
  cost::Files result;
  requireKeys(files, {"bytes", "read", "write"});
  problems.attempt([&] { result.bytes = readBytes(files, "bytes"); });
  problems.attempt([&] { result.readPerSecond = readRate(files, "read"); });
  problems.attempt([&] { result.writePerSecond = readRate(files, "write"); });
  return result;
}

cost::Link ClusterReader::readLink(const io::JsonValue &link) {
  cost::Link result;
  requireKeys(link, {"bandwidth", "latency_us"});
  problems.attempt(
      [&] { result.bytesPerSecond = readRate(link, "bandwidth"); });
  problems.attempt([&] {
    const io::JsonValue &latency = link.at("latency_us");
    if (!(latency.asNumber() >= 0))
      latency.fail("H0110",
                   "\"" + latency.path() + "\" is " + latency.describe(),
                   "give microseconds from 0");
    addRow(latency, true, "");
    result.latency = latency.asNumber() / 1e6;
  });
  return result;
}

void ClusterReader::read(const io::JsonValue &root) {
  if (!root.isObject())
    root.failType("an object");
  requireKeys(root, {"name", "nodes", "ranks_per_node", "intra_node",
                     "inter_node", "flops", "memory_bandwidth", "device_memory",
                     "host_memory", "host_memory_bandwidth", "pcie", "nvme"});
  problems.attempt([&] { cluster.name = root.stringOr("name", cluster.file); });
  problems.attempt(
      [&] { cluster.nodes = readCount(root, "nodes", cluster.nodesLocation); });
  problems.attempt([&] {
    cluster.ranksPerNode =
        readCount(root, "ranks_per_node", cluster.ranksLocation);
  });
  problems.attempt([&] {
    if (const io::JsonValue *link = root.findNonNull("intra_node"))
      cluster.intraNode = readLink(*link);
  });
  problems.attempt([&] {
    if (const io::JsonValue *link = root.findNonNull("inter_node"))
      cluster.interNode = readLink(*link);
  });
  problems.attempt([&] {
    if (const io::JsonValue *link = root.findNonNull("pcie"))
      cluster.pcie = readLink(*link);
  });
  problems.attempt([&] {
    if (const io::JsonValue *files = root.findNonNull("nvme"))
      cluster.files = readFiles(*files);
  });
  problems.attempt(
      [&] { cluster.deviceMemory = readBytes(root, "device_memory"); });
  problems.attempt(
      [&] { cluster.hostMemory = readBytes(root, "host_memory"); });
  problems.attempt([&] { readFlops(root); });
  problems.attempt([&] {
    if (root.findNonNull("memory_bandwidth"))
      cluster.memoryPerSecond = readRate(root, "memory_bandwidth");
  });
  problems.attempt([&] {
    if (root.findNonNull("host_memory_bandwidth"))
      cluster.hostMemoryPerSecond = readRate(root, "host_memory_bandwidth");
  });
  cluster.json = root.toJson().dump();
}

void ClusterReader::readFlops(const io::JsonValue &root) {
  const io::JsonValue *flops = root.findNonNull("flops");
  if (!flops)
    return;
  cluster.flops = flops->asNumber();
  if (!(cluster.flops > 0))
    flops->fail("H0110", "\"flops\" is " + flops->describe(),
                "give operations of a rank a second, as 4e14");
  addRow(*flops, true, "");
}

Cluster config::readCluster(const std::string &path) {
  return parseCluster(io::readText(path, io::configJsonCodes.unreadable), path);
}

Cluster config::parseCluster(const std::string &json, const std::string &file) {
  Cluster cluster;
  cluster.file = file;
  std::vector<Diagnostic> problems;
  io::JsonValue root =
      io::parseJson(json, {file, io::configJsonCodes}, &problems);
  ClusterReader(cluster, problems).read(root);
  throwProblems(std::move(problems));
  return cluster;
}

/// Formats a link's bandwidth for a message, as ` at 46.0 GiB/s`. Returns "" if
/// the file does not give it.
static std::string speedOf(const std::optional<cost::Link> &link) {
  if (!link)
    return "";
  return " at " + plan::formatBytes(int64_t(link->bytesPerSecond)) + "/s";
}

/// Warns if a sequence group has ranks on several nodes, since its ranks
/// exchange data in every attention.
static std::string warnOfSequence(const Settings &settings,
                                  const Cluster &cluster) {
  int64_t group = settings.sequence * settings.tensor;
  int64_t ranks = settings.data * settings.pipe * group;
  if (settings.sequence == 1 || ranks <= cluster.ranksPerNode ||
      cluster.ranksPerNode % group == 0)
    return "";
  int64_t fits = settings.sequence;
  while (cluster.ranksPerNode % (fits * settings.tensor) != 0)
    --fits;
  return "seq=" + std::to_string(settings.sequence) +
         " with tensor=" + std::to_string(settings.tensor) + " are groups of " +
         std::to_string(group) + " ranks on nodes of " +
         std::to_string(cluster.ranksPerNode) + " (" + cluster.file +
         "): attention's exchanges go between nodes" +
         speedOf(cluster.interNode) + ", not inside of one" +
         speedOf(cluster.intraNode) + "; seq=" + std::to_string(fits) +
         " with more of data or pipe stays inside";
}

std::string config::checkCluster(const Settings &settings,
                                 const Cluster &cluster) {
  int64_t ranks =
      settings.data * settings.tensor * settings.pipe * settings.sequence;
  if (ranks > cluster.ranks())
    fail("H0227",
         "a mesh of " + std::to_string(ranks) + " ranks does not fit " +
             cluster.name + ": " + std::to_string(cluster.nodes) +
             " nodes of " + std::to_string(cluster.ranksPerNode) +
             " ranks are " + std::to_string(cluster.ranks()),
         "make the product of --mesh " + std::to_string(cluster.ranks()) +
             " or less",
         cluster.nodesLocation);
  std::string node =
      "a node of " + std::to_string(cluster.ranksPerNode) + " ranks";
  std::string tensor = "tensor=" + std::to_string(settings.tensor);
  if (settings.tensor > cluster.ranksPerNode)
    fail("H0227", tensor + " does not fit " + node,
         "use tensor=" + std::to_string(cluster.ranksPerNode) +
             " or less, and more of data, pipe or seq",
         cluster.ranksLocation);
  // The ranks of a tensor group are consecutive. A group is on one node only if
  // the size of groups divides the number of ranks of a node.
  if (ranks > cluster.ranksPerNode &&
      cluster.ranksPerNode % settings.tensor != 0)
    fail("H0227",
         tensor + " does not divide " + node +
             ": a group would be on two nodes",
         "use a tensor size that divides " +
             std::to_string(cluster.ranksPerNode),
         cluster.ranksLocation);
  return warnOfSequence(settings, cluster);
}
