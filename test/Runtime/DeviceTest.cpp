//===- DeviceTest.cpp - What every device must do -------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DeviceTest.h"
#include "BigramPlan.h"
#include "heddle/runtime/core/HostMirror.h"
#include "heddle/runtime/core/UploadRing.h"

#include <cstring>
#include <set>

using namespace heddle;
using namespace heddle::rt;
using namespace heddle::test;

INSTANTIATE_TEST_SUITE_P(, DeviceTest, eachDevice(), deviceName);

TEST_P(DeviceTest, MemoryIsZeroedAndApart) {
  DeviceMemory first(*device, {MemoryKind::Device, 3 * page, "test", false});
  DeviceMemory second(*device, {MemoryKind::Device, page, "test", true});
  EXPECT_EQ(first.address().value() % (GetParam() < cudaLate ? page : 256), 0u);
  EXPECT_EQ(bytesOf(*device, first.address(), 3 * page),
            std::vector<char>(3 * page));
  device->fill(Stream::Compute, first.address(), 7, 3 * page);
  EXPECT_EQ(bytesOf(*device, second.address(), page), std::vector<char>(page));
}

TEST_P(DeviceTest, GivesNoMoreThanThereIs) {
  for (MemoryKind kind : plan::memoryKinds) {
    bool isSwapped = kind == MemoryKind::File && swaps();
    EXPECT_EQ(codeOf([&] {
                DeviceMemory(*device, {kind, int64_t(1) << 50, "test", false});
              }),
              isSwapped ? "H0295" : "H0292");
  }
}

TEST_P(DeviceTest, TheHostSeesItsOwnMemory) {
  for (MemoryKind kind : {MemoryKind::Host, MemoryKind::Pinned}) {
    DeviceMemory memory(*device, {kind, page, "test", false});
    char *host = device->map(memory.address());
    ASSERT_NE(host, nullptr);
    host[5] = 3;
    EXPECT_EQ(device->map(memory.address() + 5), host + 5);
    EXPECT_EQ(bytesOf(*device, memory.address() + 5, 1), std::vector<char>{3});
  }
}

TEST_P(DeviceTest, EveryKindHoldsBytes) {
  for (MemoryKind kind : plan::memoryKinds) {
    DeviceMemory memory(*device, {kind, 2 * page, "test", true});
    EXPECT_EQ(bytesOf(*device, memory.address(), 2 * page),
              std::vector<char>(2 * page));
    std::vector<char> values = counted(page);
    device->copyIn(Stream::Copy, memory.address() + page, values.data(), page);
    device->copy(Stream::Copy, memory.address(), memory.address() + page, page);
    EXPECT_EQ(bytesOf(*device, memory.address(), page), values);
  }
}

TEST_P(DeviceTest, RingsBringMoreThanTheyHold) {
  constexpr int64_t pieces = 7;
  DeviceMemory memory(*device, {MemoryKind::Device, pieces * page, "test"});
  std::vector<char> expected(pieces * page);
  UploadRing ring(*device, page - 1);
  ASSERT_EQ(ring.slotBytes(), page);
  for (int64_t piece = 0; piece < pieces; ++piece) {
    // Whoever comes too early is overwritten.
    int64_t bytes = page - 11 * piece;
    char *slot = ring.next();
    for (int64_t i = 0; i < page; ++i)
      slot[i] = char(31 * piece + i % 97);
    std::copy_n(slot, bytes, expected.data() + piece * page);
    ring.send(memory.address() + piece * page, bytes);
  }
  ring.finish();
  EXPECT_EQ(bytesOf(*device, memory.address(), pieces * page), expected);
  EXPECT_EQ(UploadRing(*device, int64_t(1) << 40).slotBytes(),
            UploadRing::mostBytes);
  constexpr int64_t least = UploadRing::mostBytes + 1;
  EXPECT_EQ(UploadRing(*device, 1, least).slotBytes(),
            UploadRing::mostBytes + page);
}

TEST_P(DeviceTest, AddressesThatAreNotMappedFault) {
  DeviceMemory memory(*device, {MemoryKind::Device, page, "test", false});
  bool isMapped = device->map(memory.address()) != nullptr;
  EXPECT_EQ(isMapped, GetParam() == 0);
  EXPECT_EQ(isReadable(memory.address().value()), isMapped);
}

TEST_P(DeviceTest, CopiesAndFills) {
  DeviceMemory memory(*device, {MemoryKind::Device, 4 * page, "test", false});
  // Lengths around those that threads share.
  for (int64_t bytes : {1, 63, 64, 129, 4097}) {
    std::vector<char> values = counted(bytes);
    Address from = memory.address() + 3, to = memory.address() + 2 * page + 1;
    device->copyIn(Stream::Compute, from, values.data(), bytes);
    device->copy(Stream::Compute, to, from, bytes);
    device->fill(Stream::Compute, from, 0xee, bytes);
    EXPECT_EQ(bytesOf(*device, to, bytes), values) << bytes;
    EXPECT_EQ(bytesOf(*device, from, bytes),
              std::vector<char>(bytes, char(0xee)));
    device->fill(Stream::Compute, memory.address(), 0, 4 * page);
  }
}

TEST_P(DeviceTest, LaunchesOnEveryThread) {
  std::vector<char> image = device.bigramImage();
  std::unique_ptr<KernelSet> kernels =
      device->load(image.data(), image.size(), device.bigramList());
  image.assign(image.size(), 0); // The image is not kept.
  EXPECT_EQ(kernels->find("no_such_kernel"), nullptr);
  DeviceMemory memory(*device, {MemoryKind::Device, page, "test", false});
  void *refs[] = {device->resolve(memory.address() + 64)};
  int64_t scalars[] = {70};
  device->submit(Stream::Compute,
                 {kernels->find("store_thread"), refs, scalars, 1, 1}, {});
  std::vector<char> found = bytesOf(*device, memory.address() + 64, 16);
  const auto *numbers = reinterpret_cast<const int64_t *>(found.data());
  EXPECT_EQ(numbers[0], 70);
  EXPECT_EQ(numbers[1], 71);
}

/// What is known to be small is done by one thread.
TEST_P(DeviceTest, LaunchesSmallKernelsOnOneThread) {
  if (GetParam() != 0)
    GTEST_SKIP() << "has no threads of the host";
  std::vector<char> image = device.bigramImage();
  for (double bytes : {8.0, 1e6}) {
    plan::Kernel kernel;
    kernel.name = "store_thread";
    kernel.bytes = bytes;
    auto kernels = device->load(image.data(), image.size(), {kernel});
    DeviceMemory memory(*device, {MemoryKind::Device, page, "test", false});
    void *refs[] = {device->resolve(memory.address())};
    int64_t scalars[] = {70};
    device->submit(Stream::Compute,
                   {kernels->find("store_thread"), refs, scalars, 1, 1}, {});
    std::vector<char> found = bytesOf(*device, memory.address(), 16);
    const auto *numbers = reinterpret_cast<const int64_t *>(found.data());
    EXPECT_EQ(numbers[0], 70);
    EXPECT_EQ(numbers[1], bytes == 8 ? 0 : 71);
  }
}

TEST_P(DeviceTest, RefusesOtherImages) {
  EXPECT_EQ(codeOf([&] { device->load("x", 1, {}); }), "H0384");
}

/// GPUs have a clock of their own.
TEST_P(DeviceTest, MeasuresWhatItDoes) {
  DeviceMemory memory(*device, {MemoryKind::Device, page, "test", false});
  std::optional<int64_t> nanoseconds = device->measure(Stream::Compute, [&] {
    device->fill(Stream::Compute, memory.address(), 3, page);
  });
  bool hasClock = GetParam() >= cudaLate;
  EXPECT_EQ(nanoseconds.has_value(), hasClock);
  EXPECT_EQ(bytesOf(*device, memory.address(), page),
            std::vector<char>(page, char(hasClock ? 3 : 0)));
  if (hasClock) {
    EXPECT_GE(*nanoseconds, 0);
  }
}

/// Both streams write the same byte; the one that waits writes last.
TEST_P(DeviceTest, EventsOrderStreams) {
  DeviceMemory memory(*device, {MemoryKind::Device, page, "test", false});
  Event event = device->makeEvent();
  device->wait(Stream::Compute, event); // Never recorded: for nothing.
  for (int round = 0; round < 50; ++round)
    for (auto [first, last] :
         {std::pair(Stream::Compute, Stream::Communication),
          std::pair(Stream::Communication, Stream::Compute)}) {
      device->fill(first, memory.address(), 1, 100);
      device->record(first, event);
      device->wait(last, event);
      device->fill(last, memory.address(), 2, 100);
      device->record(last, event);
      device->wait(first, event); // Before the next round.
      device->synchronize(last);
      ASSERT_EQ(bytesOf(*device, memory.address(), 1), std::vector<char>{2});
    }
}

/// Two streams and three kinds of memory; devices that capture nothing do it
/// twice.
TEST_P(DeviceTest, RepeatsWhatItHasCaptured) {
  std::unique_ptr<KernelSet> kernels = device.bigramKernels();
  DeviceMemory memory(*device, {MemoryKind::Device, page, "test", false});
  DeviceMemory pinned(*device, {MemoryKind::Pinned, page, "test", false});
  DeviceMemory host(*device, {MemoryKind::Host, page, "test", false});
  Event half = device->makeEvent(), kept = device->makeEvent(),
        done = device->makeEvent();
  void *refs[] = {device->resolve(memory.address() + 64)};
  int64_t digits[] = {3, 4};
  auto append = [&](int64_t *digit) {
    device->submit(Stream::Compute,
                   {kernels->find("append_digit"), refs, digit, 1, 1}, {});
  };
  auto submit = [&] {
    append(&digits[0]);
    device->record(Stream::Compute, half);
    device->wait(Stream::Copy, half);
    device->copy(Stream::Copy, pinned.address(), memory.address() + 64, 8);
    device->copy(Stream::Copy, host.address(), pinned.address(), 8);
    device->fill(Stream::Copy, host.address() + 8, 7, 1);
    device->record(Stream::Copy, kept);
    device->wait(Stream::Compute, kept);
    append(&digits[1]);
    device->record(Stream::Compute, done);
  };
  std::optional<CapturedWork> work = device->capture(submit);
  EXPECT_EQ(work.has_value(), GetParam() == 0 || GetParam() == cudaLate ||
                                  GetParam() == cudaSeed);
  auto number = [&](Address address) {
    int64_t found = 0;
    memcpy(&found, bytesOf(*device, address, 8).data(), 8);
    return found;
  };
  EXPECT_EQ(number(memory.address() + 64), 0);
  for (int64_t before : {0, 34, 3434}) {
    work ? device->repeat(*work) : submit();
    device->wait(Stream::Communication, done);
    int64_t found = 0;
    device->copyOut(Stream::Communication, &found, memory.address() + 64, 8);
    device->synchronize(Stream::Communication);
    EXPECT_EQ(found, before * 100 + 34);
    EXPECT_EQ(number(host.address()), before * 10 + 3);
    EXPECT_EQ(bytesOf(*device, host.address() + 8, 1), std::vector<char>{7});
  }
}

/// What is submitted after it is done.
TEST_P(DeviceTest, AFailedCaptureEnds) {
  DeviceMemory memory(*device, {MemoryKind::Device, page, "test", false});
  auto fails = [&] {
    device->fill(Stream::Compute, memory.address(), 3, 1);
    fail("H0385", "it does", "");
  };
  try {
    device->capture(fails);
  } catch (const UserError &) {
  }
  device->fill(Stream::Compute, memory.address() + 1, 4, 1);
  EXPECT_EQ(bytesOf(*device, memory.address(), 2), (std::vector<char>{0, 4}));
}

TEST_P(DeviceTest, MirrorsItsMemory) {
  DeviceMemory small(*device, {MemoryKind::Device, page, "test", false});
  DeviceMemory empty(*device, {MemoryKind::Device, 0, "test", false});
  DeviceMemory large(*device, {MemoryKind::Device, 4 * page, "test", false});
  HostMirror mirror(*device, {small.region(), empty.region(), large.region()});
  Address place = large.address() + 100;
  std::vector<char> values = counted(2 * page);
  memcpy(mirror.at(place, 2 * page), values.data(), 2 * page);
  mirror.store(place, 2 * page);
  mirror.release(place, 2 * page);
  device->copy(Stream::Compute, small.address(), place, page);
  EXPECT_EQ(memcmp(mirror.load(small.address(), page), values.data(), page), 0);
  EXPECT_EQ(memcmp(mirror.load(place, 2 * page), values.data(), 2 * page), 0);
  EXPECT_EQ(mirror.at(empty.address(), 0), nullptr);
  EXPECT_EQ(codeOf([&] { mirror.at(large.address(), 4 * page + 1); }), "H0412");
  EXPECT_EQ(codeOf([&] { mirror.at(Address(16), 1); }), "H0412");
}

TEST_P(DeviceTest, ViewsWhatIsNotMirrored) {
  DeviceMemory memory(*device, {MemoryKind::Device, 2 * page, "test"});
  DeviceMemory file(*device, {MemoryKind::File, 2 * page, "test"});
  HostMirror mirror(*device, {memory.region()});
  std::vector<char> values = counted(page);
  device->copyIn(Stream::Compute, memory.address() + 5, values.data(), page);
  device->copy(Stream::Compute, file.address() + 9, memory.address() + 5, page);
  EXPECT_EQ(
      memcmp(mirror.view(memory.address() + 5, page), values.data(), page), 0);
  EXPECT_EQ(memcmp(mirror.view(file.address() + 9, page), values.data(), page),
            0);
}

TEST_P(DeviceTest, MirrorsWaitForWhatWasSubmitted) {
  DeviceMemory memory(*device, {MemoryKind::Device, page, "test", false});
  HostMirror mirror(*device, {memory.region()});
  Address place = memory.address() + 10;
  for (char round = 1; round < 30; ++round) {
    device->fill(Stream::Compute, place, round, 2);
    ASSERT_EQ(mirror.load(place, 2)[1], round);
    device->fill(Stream::Compute, place, 99, 2);
    device->fill(Stream::Compute, place + 1, round, 1);
    *mirror.at(place, 1) = 50;
    mirror.store(place, 1);
    ASSERT_EQ(mirror.load(place, 2)[0], 50);
    ASSERT_EQ(mirror.load(place, 2)[1], round);
  }
}

/// Without an event two streams have no order: seeds differ in it.
TEST(SeparateDevice, SeedsChooseTheOrder) {
  std::set<std::vector<char>> seen;
  for (int seed = 1; seed <= 8; ++seed) {
    std::vector<char> last;
    for (int again = 0; again < 2; ++again) {
      TestDevice device(seed);
      DeviceMemory memory(*device, {MemoryKind::Device, page, "test", false});
      for (int i = 0; i < 16; ++i)
        for (Stream stream : plan::streams)
          device->fill(stream, memory.address() + i, 1 + int(stream), 1);
      std::vector<char> found = bytesOf(*device, memory.address(), 16);
      EXPECT_TRUE(last.empty() || last == found);
      last = found;
    }
    seen.insert(last);
  }
  EXPECT_GT(seen.size(), 4u);
}

/// Whether what one stream reads is what another, for which it does not wait,
/// writes before.
bool readsInOrder(int64_t number) {
  TestDevice device(number);
  DeviceMemory memory(*device, {MemoryKind::Device, page, "test", false});
  std::vector<char> found(64);
  for (int64_t i = 0; i < 64; ++i) {
    device->fill(Stream::Compute, memory.address() + i, 5, 1);
    device->copyOut(Stream::Communication, &found[i], memory.address() + i, 1);
  }
  device->synchronize(Stream::Communication);
  return found == std::vector<char>(64, 5);
}

TEST(SeparateDevice, StreamsRunInAnOrderThatTheSeedChooses) {
  constexpr int64_t seeds = 8;
  int64_t inOrder = 0;
  for (int64_t number = 1; number <= seeds; ++number)
    inOrder += readsInOrder(number);
  EXPECT_LT(inOrder, seeds);
}

TEST(SeparateDevice, RefusesWhatItDidNotHandOut) {
  TestDevice device(1);
  DeviceMemory memory(*device, {MemoryKind::Device, page, "test", false});
  auto fill = [&](Address address, int64_t bytes) {
    return codeOf([&, address, bytes] {
      device->fill(Stream::Compute, address, 0, bytes);
    });
  };
  EXPECT_EQ(fill(memory.address(), page), "");
  EXPECT_EQ(fill(memory.address() + 1, page), "H0412");
  EXPECT_EQ(fill(Address(16), 1), "H0412");
}
