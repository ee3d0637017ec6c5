//===- ClusterCostTest.cpp - Tests of what plans take on clusters ---------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Cost/UsualMachine.h"
#include "test/Runtime/Commands.h"
#include "test/Runtime/Meshes.h"
#include <gtest/gtest.h>

using namespace heddle;
using namespace heddle::cost;
using namespace heddle::test;
using plan::Command;

/// 4 nodes of 4 ranks: 100 bytes a second and 1 s inside, 10 and 5 between;
/// 2 operations a second.
static Cluster cluster() {
  Cluster cluster;
  cluster.nodes = cluster.ranksPerNode = 4;
  cluster.intraNode = Link{100, 1};
  cluster.interNode = Link{10, 5};
  cluster.flops = 2;
  return cluster;
}

static Command work() { return launch(0, {}); }

/// An all-reduce of f32 that every rank begins.
static Command allReduce(int64_t count) {
  return collective(plan::CollectiveKind::AllReduce, {"tensor"}, bytes(count),
                    bytes(count));
}

/// A plan of a GPU with one kernel of 20 operations: 10 s.
static plan::Plan planOf(const plan::Mesh &mesh,
                         const std::vector<std::vector<Command>> &sequences) {
  plan::Plan plan;
  plan.mesh = mesh;
  plan.device = plan::DeviceKind::Cuda;
  plan.kernels.resize(1);
  plan.kernels[0].flops = 20;
  for (const std::vector<Command> &commands : sequences)
    plan.sequences.emplace_back().commands = commands;
  return plan;
}

// rank = ((pipe D + data) S + seq) T + tensor, four in a row on a node.
TEST(ClusterCost, AxesOnNodes) {
  plan::Mesh mesh = meshOf(2, 2, 2, 2);
  Cluster nodes = cluster();
  EXPECT_TRUE(nodes.isInside(mesh, {"tensor"}));
  EXPECT_TRUE(nodes.isInside(mesh, {"seq"}));
  EXPECT_TRUE(nodes.isInside(mesh, {"seq", "tensor"}));
  EXPECT_FALSE(nodes.isInside(mesh, {"data"}));
  EXPECT_FALSE(nodes.isInside(mesh, {"data", "seq"}));
  EXPECT_FALSE(nodes.isInside(mesh, {"pipe"}));
  nodes.ranksPerNode = 16;
  EXPECT_TRUE(nodes.isInside(mesh, {"pipe"}));
  nodes.ranksPerNode = 3;
  EXPECT_FALSE(nodes.isInside(mesh, {"tensor"}));
}

TEST(ClusterCost, Exchanges) {
  plan::Plan plan = planOf(meshOf(2, 2, 1, 4), {});
  Cluster nodes = cluster();
  ClusterCost cost(plan, nodes);
  // Among 4 ranks 3 rounds, of an all-reduce 6.
  EXPECT_DOUBLE_EQ(cost.secondsOf({"tensor"}, "all_gather", 1, 300), 3 + 3);
  EXPECT_DOUBLE_EQ(cost.secondsOf({"tensor"}, "all_reduce", 2, 600), 12 + 6);
  EXPECT_DOUBLE_EQ(cost.secondsOf({"data"}, "reduce_scatter", 1, 50), 5 + 5);
  EXPECT_DOUBLE_EQ(cost.secondsOf({"pipe"}, "send", 4, 40), 20 + 4);
  EXPECT_EQ(cost.secondsOf({"pipe"}, "receive", 4, 40), 0);
  nodes.interNode.reset();
  EXPECT_EQ(cost.linkOf({"data"}), nullptr);
  EXPECT_EQ(cost.secondsOf({"data"}, "all_gather", 1, 50), 0);
  EXPECT_FALSE(cost.hasTimes());
  // Ranks of one node need no link to another one, nor of a node's only rank.
  plan::Plan inside = planOf(meshOf(2, 1, 1, 2), {});
  EXPECT_TRUE(ClusterCost(inside, nodes).hasTimes());
  nodes.intraNode.reset();
  EXPECT_FALSE(ClusterCost(inside, nodes).hasTimes());
  nodes.interNode = Link{10, 5};
  nodes.ranksPerNode = 1;
  EXPECT_TRUE(ClusterCost(plan, nodes).hasTimes());
}

// An all-reduce of 400 bytes among 4 ranks of a node: each sends 600, 6 rounds.
TEST(ClusterCost, WhatIsComputedHidesCollectives) {
  Cluster nodes = cluster();
  plan::Plan plan = planOf(
      meshOf(1, 1, 1, 4),
      {{allReduce(400), waitFor(0)},
       {allReduce(400), work(), waitFor(0)},
       {allReduce(400), work(), work(), allReduce(400), waitFor(3), waitFor(0)},
       {call(0), loop(1, 3)}});
  ClusterCost cost(plan, nodes);
  ASSERT_TRUE(cost.hasTimes());
  SequenceTime bare = cost.timeOf(plan, 0);
  EXPECT_DOUBLE_EQ(bare.collectives, 12);
  EXPECT_DOUBLE_EQ(bare.exposed, 12);
  EXPECT_DOUBLE_EQ(bare.seconds, 12);
  SequenceTime beside = cost.timeOf(plan, 1);
  EXPECT_DOUBLE_EQ(beside.exposed, 2);
  EXPECT_DOUBLE_EQ(beside.seconds, 12);
  SequenceTime two = cost.timeOf(plan, 2);
  EXPECT_DOUBLE_EQ(two.collectives, 24);
  EXPECT_DOUBLE_EQ(two.exposed, 12);
  EXPECT_DOUBLE_EQ(two.seconds, 32);
  SequenceTime nested = cost.timeOf(plan, 3);
  EXPECT_DOUBLE_EQ(nested.exposed, 12 + 3 * 2);
  EXPECT_DOUBLE_EQ(nested.seconds, 12 + 3 * 12);
}

static Command on(plan::Stream stream, Command command) {
  command.stream = stream;
  return command;
}

static plan::Ref inMemory(plan::MemoryKind kind, int64_t count) {
  plan::Ref ref = bytes(count);
  ref.memory = kind;
  return ref;
}

// The four ranks of a node share its files: a rank reads 100 bytes a second and
// writes 50.
TEST(ClusterCost, WhatIsComputedHidesCopies) {
  using plan::MemoryKind;
  constexpr plan::Stream stream = plan::Stream::Copy;
  Cluster nodes = cluster();
  nodes.files = Files{0, 400, 200};
  nodes.pcie = Link{1000, 0};
  auto copyOf = [&](MemoryKind to, MemoryKind from, int64_t count) {
    return on(stream, copy(inMemory(to, count), inMemory(from, count)));
  };
  Command fetch = copyOf(MemoryKind::Device, MemoryKind::File, 1200);
  Command store = copyOf(MemoryKind::File, MemoryKind::Device, 1000);
  plan::Plan plan =
      planOf(meshOf(1, 1, 1, 4),
             {{fetch, on(stream, record()), work(), waitFor(1), work()},
              {work(), record(), on(stream, waitFor(1)), store, store,
               on(stream, record()), work(), waitFor(5)},
              {copyOf(MemoryKind::Pinned, MemoryKind::Device, 40),
               on(stream, record()), waitFor(1)},
              {copyOf(MemoryKind::Device, MemoryKind::Device, 40),
               on(stream, record()), waitFor(1)}});
  ClusterCost cost(plan, nodes);
  SequenceTime read = cost.timeOf(plan, 0);
  EXPECT_DOUBLE_EQ(read.copies, 12);
  EXPECT_DOUBLE_EQ(read.exposedCopies, 2);
  EXPECT_DOUBLE_EQ(read.seconds, 12 + 10);
  EXPECT_EQ(read.exposed, 0);
  SequenceTime written = cost.timeOf(plan, 1);
  EXPECT_DOUBLE_EQ(written.copies, 40);
  EXPECT_DOUBLE_EQ(written.exposedCopies, 30);
  EXPECT_DOUBLE_EQ(written.seconds, 10 + 40);
  nodes.pcie = Link{10, 1};
  EXPECT_DOUBLE_EQ(cost.timeOf(plan, 2).seconds, 1 + 4);
  EXPECT_EQ(cost.timeOf(plan, 3).seconds, 0);
  EXPECT_EQ(read.computing, 20);
  EXPECT_EQ(read.links.size(), 1u);
  EXPECT_DOUBLE_EQ((written.links.at({MemoryKind::Device, MemoryKind::File})),
                   40);
  // The slower of both: 1200 bytes at 10 a second.
  EXPECT_DOUBLE_EQ(cost.timeOf(plan, 0).copies, 1 + 120);
  nodes.pcie.reset();
  EXPECT_FALSE(cost.knows(MemoryKind::Device, MemoryKind::File));
  plan.device = plan::DeviceKind::Cpu;
  EXPECT_TRUE(cost.knows(MemoryKind::Device, MemoryKind::File));
}

// Both directions share a disk: 1200 bytes are read in 12 s, 1000 written
// in 20.
TEST(ClusterCost, ADiskReadsOrWrites) {
  using plan::MemoryKind;
  Cluster nodes = cluster();
  nodes.files = Files{0, 400, 200};
  nodes.pcie = Link{1000, 0};
  auto move = [](plan::Stream stream, MemoryKind to, MemoryKind from,
                 int64_t count) {
    return on(stream, copy(inMemory(to, count), inMemory(from, count)));
  };
  Command fetch =
      move(plan::Stream::Copy, MemoryKind::Device, MemoryKind::File, 1200);
  Command store =
      move(plan::Stream::Store, MemoryKind::File, MemoryKind::Device, 1000);
  auto endOf = [](plan::Stream stream) { return on(stream, record()); };
  plan::Plan plan = planOf(
      meshOf(1, 1, 1, 4),
      {{fetch, store, endOf(plan::Stream::Copy), endOf(plan::Stream::Store),
        waitFor(2), waitFor(3)},
       {store, fetch, work(), endOf(plan::Stream::Copy), waitFor(3)},
       // What is not of a file goes beside it, the other way.
       {fetch,
        move(plan::Stream::Store, MemoryKind::Host, MemoryKind::Device, 1000),
        endOf(plan::Stream::Store), waitFor(2)}});
  ClusterCost cost(plan, nodes);
  SequenceTime both = cost.timeOf(plan, 0);
  EXPECT_DOUBLE_EQ(both.copies, 12 + 20);
  EXPECT_DOUBLE_EQ(both.seconds, 12 + 20);
  EXPECT_DOUBLE_EQ(cost.timeOf(plan, 1).exposedCopies, 20 + 12 - 10);
  EXPECT_DOUBLE_EQ(cost.timeOf(plan, 2).seconds, 1);
  // A link that is slower than the disk leaves it time for the other direction.
  nodes.pcie = Link{50, 0};
  EXPECT_DOUBLE_EQ(cost.timeOf(plan, 0).seconds, 12 + 20);
  nodes.pcie = Link{10, 0};
  EXPECT_DOUBLE_EQ(cost.timeOf(plan, 0).seconds, 120);
}

// A CPU copies in memory where it is told to, at 8 bytes read or written a
// second; and it computes what is for the host's cores.
TEST(ClusterCost, CopiesInMemoryHoldUpACpu) {
  using plan::MemoryKind;
  constexpr plan::Stream stream = plan::Stream::Copy;
  Cluster nodes = cluster();
  nodes.memoryPerSecond = 8;
  Command move = on(stream, copy(inMemory(MemoryKind::Host, 40),
                                 inMemory(MemoryKind::Device, 40)));
  plan::Plan plan =
      planOf(meshOf(1, 1, 1, 1),
             {{move, on(stream, record()), work(), waitFor(1)},
              {on(plan::Stream::Host, work()), on(plan::Stream::Host, record()),
               work(), waitFor(1)}});
  plan.device = plan::DeviceKind::Cpu;
  ClusterCost cost(plan, nodes);
  EXPECT_DOUBLE_EQ(cost.timeOf(plan, 0).seconds, 10 + 10);
  EXPECT_DOUBLE_EQ(cost.timeOf(plan, 0).exposedCopies, 10);
  EXPECT_FALSE(cost.isHostUnrated());
  EXPECT_DOUBLE_EQ(cost.timeOf(plan, 1).seconds, 20);
}

// A kernel on the host's cores, of 60 bytes; the four ranks of a node share its
// memory: a rank moves 5 bytes a second.
TEST(ClusterCost, HostUpdatesRunBesideTheDevice) {
  constexpr plan::Stream stream = plan::Stream::Host;
  Cluster nodes = cluster();
  Command update = on(stream, work());
  plan::Plan plan = planOf(meshOf(1, 1, 1, 4),
                           {{update, on(stream, record()), work(), waitFor(1)},
                            {update, update, on(stream, record()), waitFor(2)},
                            {work()}});
  plan.kernels[0].bytes = 60;
  ClusterCost cost(plan, nodes);
  EXPECT_TRUE(cost.isHostUnrated());
  EXPECT_EQ(cost.timeOf(plan, 0).onHost, 0);
  nodes.hostMemoryPerSecond = 20;
  EXPECT_FALSE(cost.isHostUnrated());
  SequenceTime beside = cost.timeOf(plan, 0);
  EXPECT_DOUBLE_EQ(beside.onHost, 12);
  EXPECT_DOUBLE_EQ(beside.exposedCopies, 2);
  EXPECT_DOUBLE_EQ(beside.seconds, 12);
  EXPECT_DOUBLE_EQ(cost.timeOf(plan, 1).exposedCopies, 24);
  plan::Plan device = planOf(meshOf(1, 1, 1, 4), {{work()}});
  nodes.hostMemoryPerSecond = 0;
  EXPECT_FALSE(ClusterCost(device, nodes).isHostUnrated());
}

// A kernel of 20 operations and 60 bytes, on 2 operations a second.
TEST(ClusterCost, KernelsTakeAsLongAsTheirBytes) {
  Cluster nodes = cluster();
  plan::Plan plan = planOf(meshOf(1, 1, 1, 1), {{work()}});
  plan.kernels[0].bytes = 60;
  ClusterCost cost(plan, nodes);
  EXPECT_DOUBLE_EQ(cost.timeOf(plan, 0).seconds, 10);
  nodes.memoryPerSecond = 4;
  EXPECT_DOUBLE_EQ(cost.timeOf(plan, 0).seconds, 15);
  nodes.memoryPerSecond = 30;
  EXPECT_DOUBLE_EQ(cost.timeOf(plan, 0).seconds, 10);
}

TEST(ClusterCost, FragmentsAndTransfers) {
  Cluster nodes = cluster();
  Command schedule = fragments({{0, 0}, {0, 1}, {1, 0}, {1, 1}},
                               {{plan::FragmentKind::Forward, 0, 1, 2},
                                {plan::FragmentKind::Backward, 0, 2, 2}});
  plan::Plan plan =
      planOf(meshOf(4, 1, 1, 4),
             {{schedule}, {work(), send(1, bytes(50))}, {work(), work()}});
  ClusterCost cost(plan, nodes);
  EXPECT_DOUBLE_EQ(cost.timeOf(plan, 0).seconds, 2 * 10 + 2 * 20);
  EXPECT_DOUBLE_EQ(cost.transferSeconds(plan.sequences[1]), 5 + 5);
  EXPECT_EQ(cost.transferSeconds(plan.sequences[2]), 0);
}

TEST(UsualMachine, FillsWhatIsNotSaid) {
  Cluster usual = withUsualTimes(cluster(), plan::DeviceKind::Cuda);
  EXPECT_EQ(usual.flops, 2);
  EXPECT_EQ(usual.nodes, 4);
  EXPECT_EQ(usual.ranksPerNode, 4);
  EXPECT_EQ(usual.intraNode->bytesPerSecond, 100);
  EXPECT_GT(usual.memoryPerSecond, 0);
  EXPECT_GT(usual.hostMemoryPerSecond, 0);
  EXPECT_TRUE(usual.pcie && usual.files);
  // How much there is stays open.
  EXPECT_EQ(usual.files->bytes, 0);
  EXPECT_EQ(usual.deviceMemory, 0);
}

TEST(UsualMachine, HasTheRanks) {
  for (int64_t ranks : {1, 2, 8, 12, 64}) {
    Cluster usual = usualMachines(plan::DeviceKind::Cpu, ranks);
    EXPECT_GE(usual.ranks(), ranks);
    EXPECT_LT(usual.ranks(), ranks + 8);
    EXPECT_LE(usual.ranksPerNode, 8);
  }
}
