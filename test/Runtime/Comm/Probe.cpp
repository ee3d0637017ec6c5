//===- Probe.cpp - A rank of a job, for the tests -------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// usage: HeddleCommProbe VERB [ARGUMENT...], under a launcher or none
//
// Ends with 0 when all is well, 1 when a check fails, and with the exit code of
// a UserError, which it prints.
//
//===----------------------------------------------------------------------===//

#include "../Meshes.h"
#include "heddle/runtime/comm/Executor.h"
#include "heddle/runtime/comm/World.h"
#include "test/Runtime/Comm/CollectiveChecks.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <thread>
#include <unistd.h>

using namespace heddle;
using namespace heddle::rt;

using Arguments = std::vector<std::string>;

/// From four numbers: pipe, data, seq, tensor.
static plan::Mesh meshFrom(const Arguments &arguments, size_t first) {
  plan::Mesh mesh = test::meshOf(1, 1);
  for (plan::Mesh::Axis &axis : mesh.axes)
    axis.size = std::stoi(arguments.at(first++));
  return mesh;
}

/// One line at a time, whole, from all ranks.
static void say(const std::string &line) {
  std::string text = line + "\n";
  (void)!write(STDOUT_FILENO, text.data(), text.size());
}

static int report(World &world, const std::string &problem) {
  say("rank " + std::to_string(world.rank()) + ": " +
      (problem.empty() ? "ok" : problem));
  world.finish();
  return problem.empty() ? 0 : 1;
}

/// Prints the launch, the transport, and whether an MPI library is loaded.
static int showLaunch(World &world) {
  std::ifstream maps("/proc/self/maps");
  std::string line, loaded = "none";
  while (std::getline(maps, line))
    if (line.find("libmpi") != std::string::npos)
      loaded = line.substr(line.rfind('/') + 1);
  say("rank " + std::to_string(world.rank()) + " of " +
      std::to_string(world.size()) + " by " + world.launch().launcher +
      " over " + world.transport().name() + ", library " + loaded);
  world.finish();
  return 0;
}

/// Steps of an all_reduce of `count` floats until `seconds` have passed, then
/// the orderly end. Says "PID rank pid" first.
static int beat(World &world, double seconds, int64_t count, bool busy) {
  world.startHeartbeat();
  say("PID " + std::to_string(world.rank()) + " " + std::to_string(getpid()));
  plan::Mesh mesh = test::meshOf(1, world.size());
  Communicator group = makeCommunicator(mesh, {"data"}, world.rank());
  Collectives collectives(world.transport());
  plan::CollectiveShape shape;
  shape.ranks = world.size();
  shape.count = count;
  std::vector<float> values(count);
  std::vector<float> staging(plan::stagingBytes(shape) / 4 + 16);
  auto begin = std::chrono::steady_clock::now();
  volatile double sink = 0;
  for (int64_t step = 0;; ++step) {
    std::chrono::duration<double> passed =
        std::chrono::steady_clock::now() - begin;
    values[0] = passed.count() > seconds ? 1 : 0;
    world.setActivity(step, "all_reduce #12 over data");
    collectives.run(
        {&shape, &group, values.data(), values.data(), staging.data()});
    if (values[0] > 0)
      break;
    if (busy)
      for (int i = 0; i < 20000000; ++i)
        sink = sink + i;
    else
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return report(world, "");
}

/// Rank 1 ends with an error of its own, the others wait for its message.
static int failAlone(World &world) {
  world.startHeartbeat();
  world.setActivity(3, "writing a checkpoint");
  if (world.rank() == 1) {
    Diagnostic diagnostic;
    diagnostic.code = "H0401";
    diagnostic.message = "no space left on the device";
    world.fail(diagnostic);
  }
  int32_t never = 0;
  Collectives collectives(world.transport());
  try {
    Request request = collectives.receive(1, 0, &never, sizeof never);
    collectives.wait(request);
  } catch (const UserError &error) {
    world.fail(error.diagnostic);
  }
  return 1;
}

/// Traffic of every kind, as the counters have it: "kind bytes" lines.
static int countTraffic(World &world, const plan::Mesh &mesh) {
  Collectives collectives(world.transport());
  const std::vector<std::vector<std::string>> axes = {
      {"data"}, {"tensor"}, {"pipe", "data"}};
  for (const auto &along : axes) {
    Communicator group = makeCommunicator(mesh, along, world.rank());
    for (plan::CollectiveShape shape : test::collectiveShapes(group.size())) {
      size_t bytes = shape.count * plan::byteSize(shape.type) + 64;
      std::vector<uint8_t> to(bytes), from(bytes),
          staging(plan::stagingBytes(shape) + 64);
      collectives.run({&shape, &group, to.data(), from.data(), staging.data()});
    }
  }
  std::vector<uint8_t> out(1000 + world.rank()), in(2000);
  int next = (world.rank() + 1) % world.size();
  int previous = (world.rank() + world.size() - 1) % world.size();
  Request sent = collectives.send(next, 3, out.data(), out.size());
  Request received =
      collectives.receive(previous, 3, in.data(), 1000 + previous);
  collectives.wait(sent);
  collectives.wait(received);
  const Traffic &traffic = collectives.traffic();
  for (int group = 0; group < 16; ++group)
    for (int kind = 0; kind < plan::numCollectiveKinds; ++kind)
      if (int64_t bytes = traffic.collectives[group][kind])
        say("COUNT " + std::to_string(world.rank()) + " " +
            std::to_string(group) + " " + std::to_string(kind) + " " +
            std::to_string(bytes));
  say("COUNT " + std::to_string(world.rank()) + " p2p 0 " +
      std::to_string(traffic.pointToPoint));
  return report(world, "");
}

static int runVerb(World &world, const Arguments &arguments) {
  const std::string &verb = arguments.at(0);
  if (verb == "launch")
    return showLaunch(world);
  if (verb == "collectives")
    return report(world, test::checkCollectives(world.transport(),
                                                arguments.at(1) == "library"));
  if (verb == "groups")
    return report(world,
                  test::checkGroups(world.transport(), meshFrom(arguments, 2),
                                    arguments.at(1) == "threaded"));
  if (verb == "digest") {
    say("DIGEST " + test::digestCollectives(world.transport()));
    return report(world, "");
  }
  if (verb == "plan") { // BAD-RANK P D S T
    bool isBad = std::stoi(arguments.at(1)) == world.rank();
    try {
      world.checkPlan(isBad ? "0bad" : "900d", meshFrom(arguments, 2));
    } catch (const UserError &error) {
      std::cerr << error.diagnostic.format();
      world.finish();
      return error.diagnostic.exitCode();
    }
    return report(world, "");
  }
  if (verb == "beat") // SECONDS COUNT busy|idle
    return beat(world, std::stod(arguments.at(1)), std::stol(arguments.at(2)),
                arguments.at(3) == "busy");
  if (verb == "fail")
    return failAlone(world);
  if (verb == "traffic")
    return countTraffic(world, meshFrom(arguments, 1));
  say("no verb " + verb);
  return 1;
}

int main(int argc, char **argv) {
  std::unique_ptr<World> world;
  try {
    world = World::open(Launch().joinSeconds);
    return runVerb(*world, Arguments(argv + 1, argv + argc));
  } catch (const UserError &error) {
    if (world)
      world->fail(error.diagnostic);
    std::cerr << error.diagnostic.format();
    return error.diagnostic.exitCode();
  }
}
