//===- World.cpp - The ranks of a job, from start to end ------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/comm/World.h"

#include "heddle/runtime/comm/Socket.h"
#include "heddle/runtime/io/Temporary.h"

#include <chrono>
#include <thread>
#include <unistd.h>

using namespace heddle;
using namespace heddle::rt;

std::unique_ptr<World> World::open(int joinSeconds) {
  Launch launch = detectLaunch();
  launch.joinSeconds = joinSeconds;
  std::unique_ptr<Transport> transport = openTransport(launch);
  return std::make_unique<World>(std::move(launch), std::move(transport));
}

World::World(Launch launch, std::unique_ptr<Transport> transport)
    : started(std::move(launch)), link(std::move(transport)) {}

void World::checkPlan(const std::string &hash, const plan::Mesh &mesh) {
  // Each rank sends a string with two lines: the hash of its plan, which is
  // compared, and its host name, which the error message names.
  std::vector<std::string> lines =
      exchangeTexts(*link, hash + "\n" + hostName());
  auto hashOf = [&](int rank) {
    return lines[rank].substr(0, lines[rank].find('\n'));
  };
  for (int rank = 1; rank < size(); ++rank)
    if (hashOf(rank) != hashOf(0))
      heddle::fail("H0222",
                   "rank " + std::to_string(rank) + " (" +
                       lines[rank].substr(lines[rank].find('\n') + 1) +
                       ") runs another plan than rank 0: " + hashOf(rank) +
                       ", not " + hashOf(0),
                   "start the same binary on every host");
  if (mesh.ranks() != size())
    heddle::fail("H0220",
                 "the plan is for " + std::to_string(mesh.ranks()) +
                     (mesh.ranks() == 1 ? " rank (" : " ranks (") +
                     formatMesh(mesh) + "), the job has " +
                     std::to_string(size()),
                 "start it with heddle run, or with mpirun -n " +
                     std::to_string(mesh.ranks()) +
                     "; or compile it for these ranks, as with --mesh data=" +
                     std::to_string(size()));
}

/// Ends the process even if other threads hang inside MPI. First waits, so that
/// the last message is sent, and other ranks can report their errors: a
/// launcher kills all ranks as soon as one ends.
[[noreturn]] static void endProcess(const Diagnostic &diagnostic) {
  constexpr std::chrono::milliseconds partingTime(200);
  std::this_thread::sleep_for(partingTime);
  io::removeTemporaries();
  _exit(diagnostic.exitCode());
}

void World::startHeartbeat() {
  heartbeat = std::make_unique<Heartbeat>(
      *link, [this](const Diagnostic &diagnostic, int rank) {
        report(diagnostic, rank);
        endProcess(diagnostic);
      });
}

void World::finish() {
  // Wait until every rank has called `finish`. Until then a rank may fail, and
  // the heartbeat must still be able to report its death.
  exchangeTexts(*link, "");
  if (heartbeat)
    heartbeat->goodbye();
  link->finish();
}

void World::fail(const Diagnostic &diagnostic) {
  constexpr std::chrono::seconds alarmTime(8);
  if (heartbeat && diagnostic.code == "H0424")
    std::this_thread::sleep_for(alarmTime);
  report(diagnostic);
  if (heartbeat)
    heartbeat->failed(diagnostic.message);
  endProcess(diagnostic);
}

void World::report(const Diagnostic &diagnostic, int missing) {
  std::string text = diagnostic.format();
  (void)!write(STDERR_FILENO, text.data(), text.size());
  if (witness)
    witness(diagnostic, missing);
}
