//===- CollectivesTest.cpp - One suite for every transport ----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../Meshes.h"
#include "test/Runtime/AllocationCount.h"
#include "test/Runtime/Comm/CollectiveChecks.h"
#include "test/Runtime/Comm/JobRun.h"

#include "heddle/runtime/io/Diagnostic.h"

#include <functional>
#include <gtest/gtest.h>
#include <set>
#include <thread>

using namespace heddle;
using namespace heddle::rt;
using namespace heddle::test;

/// `function` on every rank, each in a thread; what it returned.
static std::vector<std::string>
onThreads(int ranks, const std::function<std::string(Transport &)> &function) {
  auto transports = makeLocalThreads(ranks);
  std::vector<std::string> results(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back(
        [&, rank] { results[rank] = function(*transports[rank]); });
  for (std::thread &thread : threads)
    thread.join();
  return results;
}

TEST(Loopback, Collectives) {
  auto transport = makeLoopback();
  EXPECT_EQ(transport->size(), 1);
  EXPECT_EQ(checkCollectives(*transport, false), "");
  EXPECT_EQ(checkCollectives(*transport, true), "");
}

class Threads : public testing::TestWithParam<int> {};

TEST_P(Threads, Collectives) {
  for (const std::string &problem :
       onThreads(GetParam(), [](Transport &transport) {
         return checkCollectives(transport, false);
       }))
    EXPECT_EQ(problem, "");
}

TEST_P(Threads, SameBitsOnEachRankAndInEachRun) {
  std::set<std::string> digests;
  for (int run = 0; run < 3; ++run)
    for (const std::string &digest : onThreads(GetParam(), digestCollectives))
      digests.insert(digest);
  EXPECT_EQ(digests.size(), 1u);
}

// Also texts of no bytes, and one after the other.
TEST_P(Threads, TextsOfAllAndOfTheFirst) {
  for (const std::string &problem :
       onThreads(GetParam(), [](Transport &transport) -> std::string {
         auto textOf = [](int rank, int round) {
           return std::string((rank * 1000 + round) % 3001, char('a' + rank));
         };
         for (int round = 0; round < 3; ++round) {
           std::vector<std::string> expected;
           for (int rank = 0; rank < transport.size(); ++rank)
             expected.push_back(textOf(rank, round));
           std::string own = expected[transport.rank()];
           if (exchangeTexts(transport, own) != expected)
             return "exchanged others";
           std::vector<std::string> brought = expected;
           std::vector<GatheredPart> parts;
           for (int rank = 0; rank < transport.size(); ++rank) {
             std::string &text = brought[rank];
             if (rank != transport.rank())
               text.assign(text.size(), '.');
             parts.push_back({rank, text.data(), int64_t(text.size())});
           }
           gatherParts(transport, parts);
           if (transport.rank() == 0 && brought != expected)
             return "was brought others";
           if (tellText(transport, own) != textOf(0, round))
             return "heard another";
         }
         return "";
       }))
    EXPECT_EQ(problem, "");
}

INSTANTIATE_TEST_SUITE_P(Comm, Threads, testing::Range(1, 6));

// A rank that disagrees on what it brings is an error, not memory out of place.
TEST(Exchange, PartsOfAnotherSize) {
  std::vector<std::string> codes =
      onThreads(2, [](Transport &transport) -> std::string {
        char bytes[8] = {};
        try {
          gatherParts(transport, {{1, bytes, transport.rank() == 0 ? 8 : 5}});
        } catch (const UserError &error) {
          return error.diagnostic.code;
        }
        return "";
      });
  EXPECT_EQ(codes, (std::vector<std::string>{"H0920", ""}));
}

TEST(Groups, OfEachRank) {
  plan::Mesh mesh = meshOf(2, 2, 1, 3);
  for (bool threaded : {false, true})
    for (const std::string &problem : onThreads(12, [&](Transport &transport) {
           return checkGroups(transport, mesh, threaded);
         }))
      EXPECT_EQ(problem, "");
}

class Jobs : public testing::TestWithParam<Starter> {
protected:
  void SetUp() override {
    if (!isInstalled(GetParam()))
      GTEST_SKIP() << "no mpirun of " << nameOf(GetParam());
  }
  void expectOk(const std::vector<std::string> &arguments, int ranks = 3) {
    Outcome job = runJob(GetParam(), ranks, arguments);
    EXPECT_EQ(job.status, 0) << job.output;
    EXPECT_EQ(countOf(job.output, ": ok\n"), size_t(ranks)) << job.output;
  }
};

TEST_P(Jobs, Collectives) { expectOk({"collectives", "fixed"}); }

TEST_P(Jobs, LibraryCollectives) {
  if (GetParam() != Starter::Sockets)
    return expectOk({"collectives", "library"});
  Outcome job = runJob(GetParam(), 3, {"collectives", "library"});
  EXPECT_EQ(job.status, 4) << job.output;
  EXPECT_EQ(countOf(job.output, "error[H0226]"), 3u) << job.output;
}

TEST_P(Jobs, Groups) {
  expectOk({"groups", "inline", "2", "2", "1", "1"}, 4);
  expectOk({"groups", "threaded", "2", "2", "1", "1"}, 4);
}

/// The same bits as among threads, on every transport.
TEST_P(Jobs, Digest) {
  std::string digest = onThreads(3, digestCollectives)[0];
  for (int run = 0; run < 2; ++run) {
    Outcome job = runJob(GetParam(), 3, {"digest"});
    EXPECT_EQ(countOf(job.output, "DIGEST " + digest + "\n"), 3u)
        << digest << "\n"
        << job.output;
  }
}

INSTANTIATE_TEST_SUITE_P(Comm, Jobs,
                         testing::Values(Starter::Sockets, Starter::OpenMpi,
                                         Starter::Mpich),
                         [](const auto &info) { return nameOf(info.param); });

namespace {
/// Rank 0 of three that are not there: all messages are done at once.
class NullTransport : public Transport {
public:
  int rank() const override { return 0; }
  int size() const override { return 3; }
  const char *name() const override { return "nobody"; }
  bool isConcurrent() const override { return false; }
  Request isend(int, int, const void *, int64_t) override { return {}; }
  Request irecv(int, int, void *, int64_t) override { return {}; }
  bool test(Request &) override { return true; }
  void wait(Request &) override {}
  void finish() override {}
  void abort(int) override { std::abort(); }
};
} // namespace

TEST(Collectives, AllocateNothing) {
  if (allocationCount() < 0)
    GTEST_SKIP() << "allocations cannot be counted";
  NullTransport transport;
  plan::Mesh mesh = meshOf(1, 3);
  Communicator group = makeCommunicator(mesh, {"data"}, 0);
  Collectives collectives(transport);
  for (const plan::CollectiveShape &shape : collectiveShapes(3)) {
    std::vector<uint64_t> to(shape.count + 8), from(shape.count + 8),
        staging(plan::stagingBytes(shape) / 8 + 8);
    int64_t before = allocationCount();
    collectives.run({&shape, &group, to.data(), from.data(), staging.data()});
    EXPECT_EQ(allocationCount(), before);
  }
}

TEST(Collectives, RefuseWhatNoPlanMayHold) {
  NullTransport transport;
  plan::Mesh mesh = meshOf(1, 3);
  Communicator group = makeCommunicator(mesh, {"data"}, 0);
  Collectives collectives(transport);
  uint64_t buffer[64] = {};
  auto codeOf = [](const std::function<void()> &function) -> std::string {
    try {
      function();
    } catch (const UserError &error) {
      return error.diagnostic.code;
    }
    return "none";
  };
  plan::CollectiveShape shape;
  shape.ranks = 2;
  shape.count = 4;
  plan::CollectiveShape ints = shape;
  ints.ranks = 3;
  ints.type = ints.wire = plan::DType::I32;
  auto run = [&](const plan::CollectiveShape &each) {
    collectives.run({&each, &group, buffer, buffer, buffer + 32});
  };
  EXPECT_EQ(codeOf([&] { run(shape); }), "H0922");
  EXPECT_EQ(codeOf([&] { run(ints); }), "H0921");
  EXPECT_EQ(codeOf([&] { collectives.send(1, -1, buffer, 8); }), "H0922");
  EXPECT_EQ(codeOf([&] { makeCommunicator(mesh, {"model"}, 0); }), "H0922");
}

TEST(Transport, RefusesAMessageOfAnotherSize) {
  auto transport = makeLoopback();
  int32_t out[2] = {}, in[2] = {};
  Request sent = transport->isend(0, 1, out, 8);
  transport->wait(sent);
  Request received = transport->irecv(0, 1, in, 4);
  try {
    transport->wait(received);
    FAIL() << "took 8 bytes for 4";
  } catch (const UserError &error) {
    EXPECT_EQ(error.diagnostic.code, "H0920");
  }
}

TEST(Communicator, OfARank) {
  plan::Mesh mesh = meshOf(2, 3, 1, 4);
  EXPECT_EQ(formatMesh(mesh), "data=3,tensor=4,pipe=2");
  // Rank 17 = ((1*3 + 1)*1 + 0)*4 + 1.
  Communicator tensor = makeCommunicator(mesh, {"tensor"}, 17);
  EXPECT_EQ(tensor.ranks, (std::vector<int>{16, 17, 18, 19}));
  EXPECT_EQ(tensor.position, 1);
  EXPECT_EQ(tensor.id, 1);
  Communicator both = makeCommunicator(mesh, {"tensor", "pipe"}, 17);
  EXPECT_EQ(both.ranks, (std::vector<int>{4, 16, 5, 17, 6, 18, 7, 19}));
  EXPECT_EQ(both.position, 3);
  EXPECT_EQ(both.id, 9);
  EXPECT_EQ(both.name, "tensor,pipe");
  mesh.axes.push_back({"expert", 3, plan::AxisRole::Data, "data"});
  mesh.axes.push_back({"half", 2, plan::AxisRole::Tensor, "tensor"});
  Communicator whole = makeCommunicator(mesh, {"data"}, 17);
  EXPECT_EQ(whole.id, 0b11000); // pipe, data, expert, seq, tensor, half.
  EXPECT_EQ(makeCommunicator(mesh, {"expert"}, 17).id, 0b01000);
  EXPECT_EQ(makeCommunicator(mesh, {"tensor/half"}, 17).id, 0b00010);
  EXPECT_EQ(makeCommunicator(mesh, {"tensor/half"}, 17).ranks,
            (std::vector<int>{17, 19}));
  EXPECT_THROW(makeCommunicator(mesh, {"data", "expert"}, 17), UserError);
  EXPECT_THROW(makeCommunicator(mesh, {"depth"}, 17), UserError);
  Communicator alone = makeCommunicator(mesh, {"seq"}, 17);
  EXPECT_EQ(alone.ranks, std::vector<int>{17});
}
