//===- TrafficTest.cpp - Tests of counting what a rank sends --------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/core/Traffic.h"
#include "Commands.h"
#include "Meshes.h"

#include <gtest/gtest.h>

using namespace heddle;
using namespace heddle::plan;
using namespace heddle::rt;
using namespace heddle::test;

TEST(Traffic, CountsLoopsAndFragments) {
  Command schedule = fragments(
      {{0, 0}, {0, 1}, {0, 2}, {1, 0}, {1, 1}},
      {{FragmentKind::Forward, 0, 2, 1}, {FragmentKind::Backward, 1, 3, 2}});
  using Kind = Collective::Kind;
  Plan plan;
  plan.mesh = meshOf(2, 4);
  plan.sequences = {
      {"main", 0, 0, 0, {loop(1, 3), schedule}},
      {"body",
       0,
       0,
       0,
       {collective(Kind::AllGather, {"data"}, bytes(64), bytes(16)),
        collective(Kind::AllReduce, {"data", "pipe"}, bytes(64), bytes(64)),
        collective(Kind::AllReduce, {"tensor"}, bytes(64), bytes(64))}},
      {"forward", 0, 0, 0, {send(1, bytes(100))}},
      {"backward", 0, 0, 0, {receive(1, bytes(100))}}};
  Program program;
  std::vector<TrafficLine> lines = countTraffic(plan, program, 1);
  ASSERT_EQ(lines.size(), 4u); // A group of one sends nothing.
  auto expect = [&](size_t i, const char *axes, const char *kind, int64_t calls,
                    int64_t bytes) {
    EXPECT_EQ(lines[i].axes, axes);
    EXPECT_EQ(lines[i].kind, kind);
    EXPECT_EQ(lines[i].calls, calls);
    EXPECT_EQ(lines[i].bytesSent, bytes);
  };
  expect(0, "data", "all_gather", 3, 3 * 3 * 16);
  expect(1, "data,pipe", "all_reduce", 3, 3 * (7 * 8 + 7 * 8));
  expect(2, "pipe", "receive", 2, 0);
  expect(3, "pipe", "send", 3, 300);
}

TEST(Traffic, TellsReasonsApart) {
  using Kind = Collective::Kind;
  Plan plan;
  plan.mesh = meshOf(1, 2);
  std::vector<Command> commands = {
      collective(Kind::AllGather, {"data"}, bytes(64), bytes(32)),
      collective(Kind::AllGather, {"data"}, bytes(64), bytes(32)),
      collective(Kind::AllReduce, {"data"}, bytes(64), bytes(64))};
  commands[0].path = "h.0";
  commands[1].path = "h.1";
  plan.sequences = {{"main", 0, 0, 0, commands}};
  std::vector<TrafficLine> lines = countTraffic(plan, Program(), 0);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0].reason, "h.0");
  EXPECT_EQ(lines[1].reason, "h.1");
  EXPECT_EQ(lines[1].wire, DType::F32);
  std::vector<TrafficLine> sums = sumByKind(lines);
  ASSERT_EQ(sums.size(), 2u);
  EXPECT_EQ(sums[0].kind, "all_gather");
  EXPECT_EQ(sums[0].calls, 2);
  EXPECT_EQ(sums[0].bytesSent, 64);
  EXPECT_EQ(sums[1].bytesSent, 64);
}

TEST(Traffic, CountsMovesBetweenKindsOfMemory) {
  auto in = [](MemoryKind memory, int64_t count) {
    Ref ref = bytes(count);
    ref.memory = memory;
    return ref;
  };
  Plan plan;
  plan.mesh = meshOf(1, 1);
  for (auto [role, offset] : {std::pair(StateRole::Optimizer, int64_t(0)),
                              std::pair(StateRole::Saved, int64_t(8192))}) {
    plan.states.emplace_back();
    plan.states.back().role = role;
    plan.states.back().offset = offset;
    plan.states.back().memory = MemoryKind::File;
  }
  Ref saved = in(MemoryKind::File, 4096);
  saved.space = Space::Persistent;
  saved.offset = 8192 + 4096;
  plan.sequences = {
      {"main",
       0,
       0,
       0,
       {loop(1, 3), copy(in(MemoryKind::File, 5000), bytes(5000)),
        copy(bytes(77), in(MemoryKind::Host, 77)), copy(bytes(8), bytes(8))}},
      {"body", 0, 0, 0, {copy(bytes(4096), saved)}}};
  std::vector<MoveLine> lines = countMoves(plan, Program());
  ASSERT_EQ(lines.size(), 3u);
  auto expect = [&](size_t i, MemoryKind from, MemoryKind to, int64_t copies,
                    int64_t moved) {
    EXPECT_EQ(lines[i].from, from);
    EXPECT_EQ(lines[i].to, to);
    EXPECT_EQ(lines[i].copies, copies);
    EXPECT_EQ(lines[i].bytes, moved);
  };
  // Of files whole blocks.
  expect(0, MemoryKind::Device, MemoryKind::File, 1, 8192);
  expect(1, MemoryKind::Host, MemoryKind::Device, 1, 77);
  expect(2, MemoryKind::File, MemoryKind::Device, 3, 3 * 4096);
  EXPECT_EQ(lines[2].bytesOf,
            (std::map<StateRole, int64_t>{{StateRole::Saved, 3 * 4096}}));
}

TEST(Traffic, CountsRowsOfTables) {
  Ref ids = bytes(7 * 4), target = bytes(7 * 100), table = bytes(50 * 100);
  table.space = Space::Persistent;
  auto movedFrom = [&](MemoryKind memory, int64_t offset) {
    Plan plan;
    plan.mesh = meshOf(1, 1);
    table.memory = memory;
    table.offset = offset;
    plan.sequences = {{"main", 0, 0, 0, {copyRows(target, table, ids, 100)}}};
    std::vector<MoveLine> lines = countMoves(plan, Program());
    return lines.size() == 1 ? lines[0].bytes : -1;
  };
  EXPECT_EQ(movedFrom(MemoryKind::Host, 4096), 7 * 100);
  // A row of 100 bytes may lie on two pages.
  EXPECT_EQ(movedFrom(MemoryKind::File, 4096), 7 * 2 * 4096);
  EXPECT_EQ(movedFrom(MemoryKind::Device, 4096), -1);
  EXPECT_EQ(bytesMoved({target, table, ids, 0, {}}), 0);
  // Of a part as many, if all tokens are in it.
  Plan parts;
  parts.mesh = meshOf(1, 2);
  table.memory = MemoryKind::Host;
  parts.sequences = {
      {"main",
       0,
       0,
       0,
       {copyRows(target, table, ids, 100),
        copyRows(target, table, ids, 100, plan::Scalar{50, {}})}}};
  MoveLine both = countMoves(parts, Program()).at(0);
  EXPECT_EQ(both.bytes, 2 * 7 * 100);
  EXPECT_EQ(both.bytesOfParts, 7 * 100);
  // Rows of 128 bytes lie on one, unless the table begins between them.
  EXPECT_EQ(io::OffloadFile::bytesForRow(128 * 3, 128), 4096);
  EXPECT_EQ(io::OffloadFile::bytesForRow(64, 128), 2 * 4096);
  EXPECT_EQ(io::OffloadFile::bytesForRow(0, 4096), 4096);
  EXPECT_EQ(io::OffloadFile::bytesForRow(4, 4096), 2 * 4096);
  EXPECT_EQ(io::OffloadFile::bytesForRow(0, 6400), 3 * 4096);
}

TEST(Traffic, SaysWhatKernelsRunBeside) {
  auto on = [](Stream stream, Command command) {
    command.stream = stream;
    return command;
  };
  auto fetch = [&](int64_t count) {
    Ref file = bytes(count);
    file.memory = MemoryKind::File;
    return on(Stream::Copy, copy(bytes(count), file));
  };
  Plan plan;
  plan.mesh = meshOf(1, 1);
  plan.sequences = {{"main",
                     0,
                     0,
                     0,
                     {fetch(4096), on(Stream::Copy, record()), fetch(8192),
                      on(Stream::Copy, record()), launch(0, {bytes(4)}),
                      waitFor(1), fetch(4096), waitFor(3), loop(1, 3)}},
                    // Who waits for it at once waits for the one before it too.
                    {"body",
                     0,
                     0,
                     0,
                     {fetch(16384), on(Stream::Copy, record()), waitFor(1)}}};
  std::vector<MoveLine> lines = countMoves(plan, Program());
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].bytes, 4096 + 8192 + 4096 + 3 * 16384);
  EXPECT_EQ(lines[0].besideKernels, 4096 + 8192);
  EXPECT_EQ(lines[0].mostUnderWay, 4096 + 16384);
}

// What the host's cores wait for, and compute, holds up no kernel of a GPU. On
// a CPU it is done where it is submitted, as copies in memory are.
TEST(Traffic, SaysWhatTheHostRunsBeside) {
  auto on = [](Stream stream, Command command) {
    command.stream = stream;
    return command;
  };
  Ref there = bytes(64), file = bytes(4096);
  there.memory = MemoryKind::Pinned;
  file.memory = MemoryKind::File;
  Plan plan;
  plan.mesh = meshOf(1, 1);
  plan.kernels.resize(1);
  // A gradient leaves, a kernel runs on the GPU, the gradient is used, another
  // kernel runs; what comes back is waited for at once. A last update is not.
  plan.sequences = {
      {"main",
       0,
       0,
       0,
       {on(Stream::Copy, copy(there, bytes(64))), on(Stream::Copy, record()),
        on(Stream::Host, waitFor(1)), launch(0, {bytes(4)}),
        on(Stream::Host, launch(0, {there})), on(Stream::Host, record()),
        launch(0, {bytes(4)}), on(Stream::Copy, waitFor(5)),
        on(Stream::Copy, copy(bytes(64), there)), on(Stream::Copy, record()),
        waitFor(9), on(Stream::Copy, copy(bytes(4096), file)),
        on(Stream::Host, launch(0, {there}))}}};
  auto besides = [&](DeviceKind device) {
    plan.device = device;
    std::vector<int64_t> bytes;
    for (const MoveLine &line : countMoves(plan, Program()))
      bytes.push_back(line.besideKernels);
    return bytes;
  };
  // From device to pinned memory, back, and from the file.
  EXPECT_EQ(besides(DeviceKind::Cuda), (std::vector<int64_t>{64, 0, 0}));
  HostUpdates host = countHostUpdates(plan, Program());
  EXPECT_EQ(host.elements, 2 * 64 / 4);
  EXPECT_EQ(host.besideKernels, 64 / 4);
  EXPECT_EQ(besides(DeviceKind::Cpu), (std::vector<int64_t>{0, 0, 4096}));
}

/// What a run leaves is beside the kernels of the next one, up to where that
/// waits for it.
TEST(Traffic, SaysWhatTheNextRunIsBeside) {
  Ref file = bytes(4096);
  file.memory = MemoryKind::File;
  Command stored = copy(file, bytes(4096)), noted = record(0);
  stored.stream = noted.stream = Stream::Store;
  Command kernel = launch(0, {bytes(4)});
  Plan plan;
  plan.mesh = meshOf(1, 1);
  plan.kernels.resize(1);
  plan.device = DeviceKind::Cpu;
  for (bool isEarly : {false, true}) {
    std::vector<Command> commands = {kernel, settle(0), kernel, stored, noted};
    if (isEarly)
      std::swap(commands[0], commands[1]);
    plan.sequences = {{"main", 0, 0, 0, commands}};
    std::vector<MoveLine> lines = countMoves(plan, Program());
    ASSERT_EQ(lines.size(), 1u);
    EXPECT_EQ(lines[0].copies, 1);
    EXPECT_EQ(lines[0].bytes, 4096);
    EXPECT_EQ(lines[0].besideKernels, isEarly ? 0 : 4096);
    EXPECT_EQ(lines[0].mostUnderWay, 4096);
  }
}

TEST(Traffic, NamesFragmentsAsSchedulesDo) {
  Fragment fragment{FragmentKind::Forward, 0, 0, 1};
  EXPECT_EQ(fragment.name("12"), "F12");
  fragment = {FragmentKind::BackwardWeight, 1, 0, 1};
  EXPECT_EQ(fragment.name("3"), "W3/1");
  EXPECT_EQ(fragment.name(), "W/1");
}
