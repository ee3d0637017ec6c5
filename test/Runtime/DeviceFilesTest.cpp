//===- DeviceFilesTest.cpp - Bytes on file, and rows of tables ------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DeviceTest.h"
#include "Io/IoTestSupport.h"
#include "heddle/runtime/devices/cpu/CpuDevice.h"
#include "heddle/runtime/io/OffloadFile.h"

#include <filesystem>
#include <sys/stat.h>

using namespace heddle;
using namespace heddle::rt;
using namespace heddle::test;

namespace {
class DeviceFilesTest : public DeviceTest {};

/// The sizes of the files without a name that this process has open, by their
/// directories.
std::map<std::string, std::vector<int64_t>> unnamedFiles() {
  std::map<std::string, std::vector<int64_t>> sizes;
  for (const auto &entry :
       std::filesystem::directory_iterator("/proc/self/fd")) {
    struct stat status;
    if (stat(entry.path().c_str(), &status) != 0 || status.st_nlink > 0 ||
        !S_ISREG(status.st_mode))
      continue;
    std::string name = std::filesystem::read_symlink(entry.path());
    sizes[name.substr(0, name.rfind('/'))].push_back(status.st_size);
  }
  for (auto &[directory, all] : sizes)
    std::sort(all.begin(), all.end());
  return sizes;
}
} // namespace

INSTANTIATE_TEST_SUITE_P(, DeviceFilesTest, eachDevice(), deviceName);

/// A state on file goes through three slots a few times: a tile of it is
/// fetched while others are computed and stored.
TEST_P(DeviceFilesTest, ComputesOnTilesOfFiles) {
  constexpr int64_t tiles = 7, slots = 3, steps = 3;
  auto kernels = device.bigramKernels();
  DeviceMemory file(*device, {MemoryKind::File, tiles * page, "test"});
  DeviceMemory ring(*device, {MemoryKind::Device, slots * page, "test"});
  Event computed = device->makeEvent(), fetched = device->makeEvent();
  std::vector<void *> refs;
  for (int64_t slot = 0; slot < slots; ++slot)
    refs.push_back(device->resolve(ring.address() + slot * page + 64));
  std::vector<int64_t> digits(tiles * steps);
  auto slotOf = [&](int64_t number) {
    return ring.address() + number % slots * page;
  };
  auto fetch = [&](int64_t number) { // After the store from the slot.
    if (number < tiles * steps)
      device->copy(Stream::Copy, slotOf(number),
                   file.address() + number % tiles * page, 100);
  };
  fetch(0);
  for (int64_t i = 0; i < tiles * steps; ++i) {
    digits[i] = 1 + (i % tiles + i / tiles) % 9;
    device->record(Stream::Copy, fetched);
    fetch(i + 1);
    device->wait(Stream::Compute, fetched);
    device->submit(
        Stream::Compute,
        {kernels->find("append_digit"), &refs[i % slots], &digits[i], 1, 1},
        {});
    device->record(Stream::Compute, computed);
    device->wait(Stream::Copy, computed);
    device->copy(Stream::Copy, file.address() + i % tiles * page, slotOf(i),
                 100);
  }
  device->synchronize(Stream::Copy);
  for (int64_t tile = 0; tile < tiles; ++tile) {
    int64_t expected = 0, found = 0;
    for (int64_t step = 0; step < steps; ++step)
      expected = expected * 10 + digits[step * tiles + tile];
    memcpy(&found,
           bytesOf(*device, file.address() + tile * page + 64, 8).data(), 8);
    EXPECT_EQ(found, expected) << tile;
  }
  if (swaps()) {
    // Each copy is of one page, and so is each reading here.
    EXPECT_EQ(device->offloadTraffic().readBytes, tiles * (steps + 1) * page);
    EXPECT_EQ(device->offloadTraffic().writtenBytes, tiles * steps * page);
  }
}

/// However many there are; none when nobody asks, or where nothing is on file.
TEST_P(DeviceFilesTest, SaysWhenCopiesOfFilesWereUnderWay) {
  constexpr int64_t copies = 5000;
  EXPECT_EQ(device->fileTimes(), nullptr);
  DeviceMemory file(*device, {MemoryKind::File, 2 * page, "test"});
  DeviceMemory memory(*device, {MemoryKind::Device, page, "test"});
  io::OffloadTimes *times = device->fileTimes();
  ASSERT_EQ(times != nullptr, swaps());
  if (!times)
    return;
  auto copyBoth = [&](int64_t number) {
    Address there = file.address() + number % 2 * page;
    device->copy(Stream::Copy, memory.address(), there, page);
    device->copy(Stream::Copy, there, memory.address(), page - 8);
  };
  copyBoth(0);
  device->synchronize(Stream::Copy);
  EXPECT_EQ(times->count(), 0);
  times->note(true);
  int64_t before = io::steadyNow();
  for (int64_t i = 0; i < copies / 2; ++i)
    copyBoth(i);
  device->synchronize(Stream::Copy);
  ASSERT_EQ(times->count(), copies);
  for (int64_t number = 1; number <= copies; ++number) {
    EXPECT_GE(times->of(number).begin, before) << number;
    EXPECT_GT(times->of(number).end, times->of(number).begin) << number;
  }
  times->note(false);
  EXPECT_EQ(times->count(), 0);
}

/// More than all that is on its way between a file and a GPU at a time, there
/// and back and to another place, on several streams.
TEST_P(DeviceFilesTest, CopiesLargeRunsOfFiles) {
  constexpr int64_t bytes = (int64_t(37) << 20) + page, half = 5000 * page;
  DeviceMemory file(*device, {MemoryKind::File, bytes + half, "test"});
  DeviceMemory memory(*device, {MemoryKind::Device, bytes, "test"});
  std::vector<char> values(bytes);
  for (int64_t i = 0; i < bytes; ++i)
    values[i] = char(i + i / page);
  device->copyIn(Stream::Copy, memory.address(), values.data(), bytes);
  device->copy(Stream::Copy, file.address() + half, memory.address(), bytes);
  device->fill(Stream::Copy, memory.address(), 1, bytes);
  device->copy(Stream::Copy, file.address(), memory.address(), half);
  Event there = device->makeEvent();
  device->record(Stream::Copy, there);
  device->wait(Stream::Compute, there);
  device->copy(Stream::Compute, memory.address(), file.address() + half, bytes);
  device->copy(Stream::Compute, file.address() + half,
               memory.address() + 3 * page, bytes - 3 * page);
  device->synchronize(Stream::Compute);
  EXPECT_EQ(bytesOf(*device, memory.address(), bytes), values);
  std::vector<char> found = bytesOf(*device, file.address(), bytes);
  EXPECT_TRUE(std::all_of(found.begin(), found.begin() + half,
                          [](char c) { return c == 1; }));
  EXPECT_TRUE(
      std::equal(found.begin() + half, found.end(), values.begin() + 3 * page));
}

/// Ids that a kernel or a copy has put there count when the stream comes to it.
TEST_P(DeviceFilesTest, CopiesRowsOfTables) {
  constexpr int64_t rowBytes = 100, rows = 60;
  std::vector<char> table = counted(rows * rowBytes);
  std::vector<int32_t> ids = {59, 0, 7, 60, 7, -1};
  /// Of the table, or of one of which it is the part from a row on.
  auto rowsAt = [&](std::optional<int64_t> first) {
    std::vector<char> expected;
    for (int32_t id : ids) {
      int64_t row = id - first.value_or(0);
      for (int64_t i = 0; i < rowBytes; ++i)
        expected.push_back(row >= 0 && row < rows ? table[row * rowBytes + i]
                                                  : char(first ? 0 : 0xff));
    }
    return expected;
  };
  int64_t idBytes = ids.size() * sizeof(int32_t);
  for (MemoryKind kind :
       {MemoryKind::Host, MemoryKind::Pinned, MemoryKind::File}) {
    DeviceMemory source(*device, {kind, 2 * page, "test"});
    DeviceMemory memory(*device, {MemoryKind::Device, page, "test"});
    Address chosen = memory.address() + (page - 64);
    device->copyIn(Stream::Copy, source.address() + 64, table.data(),
                   table.size());
    device->synchronize(Stream::Copy);
    device->copyIn(Stream::Compute, chosen, ids.data(), idBytes);
    Event there = device->makeEvent();
    device->record(Stream::Compute, there);
    device->wait(Stream::Copy, there);
    for (std::optional<int64_t> first : {std::optional<int64_t>(), {0}, {7}}) {
      device->copyRows(Stream::Copy,
                       {memory.address() + 8, source.address() + 64, chosen,
                        rowBytes, rows, int64_t(ids.size()), first});
      std::vector<char> expected = rowsAt(first);
      EXPECT_EQ(bytesOf(*device, memory.address() + 8, expected.size()),
                expected)
          << nameOf(kind) << " " << first.value_or(-1);
    }
  }
}

/// More than are on their way to a GPU at a time; a graph that is captured once
/// copies those that the ids name each time.
TEST_P(DeviceFilesTest, CopiesManyRowsOfTables) {
  constexpr int64_t rows = 7;
  for (auto [rowBytes, count] :
       {std::pair<int64_t, int64_t>(100, 4100),
        std::pair<int64_t, int64_t>(io::RowChoice::mostRowBytes, 6)}) {
    auto allocate = [&](MemoryKind kind, int64_t bytes) {
      return DeviceMemory(
          *device, {kind, (bytes + page - 1) / page * page, "test", false});
    };
    DeviceMemory source = allocate(MemoryKind::File, rows * rowBytes);
    DeviceMemory target = allocate(MemoryKind::Device, count * rowBytes);
    DeviceMemory chosen = allocate(MemoryKind::Device, count * 4);
    std::vector<char> table(rows * rowBytes);
    for (int64_t i = 0; i < rows * rowBytes; ++i)
      table[i] = char(i + i / rowBytes);
    device->copyIn(Stream::Copy, source.address(), table.data(), table.size());
    device->synchronize(Stream::Copy);
    auto submit = [&, rowBytes = rowBytes, count = count] {
      device->copyRows(Stream::Copy, {target.address(), source.address(),
                                      chosen.address(), rowBytes, rows, count});
    };
    std::optional<CapturedWork> work = device->capture(submit);
    int64_t before = device->offloadTraffic().readBytes;
    for (int32_t shift : {0, 3}) {
      std::vector<int32_t> ids(count);
      std::vector<char> expected;
      for (int64_t t = 0; t < count; ++t) {
        ids[t] = int32_t((t * t + shift) % rows);
        auto row = table.begin() + ids[t] * rowBytes;
        expected.insert(expected.end(), row, row + rowBytes);
      }
      device->copyIn(Stream::Compute, chosen.address(), ids.data(), 4 * count);
      device->synchronize(Stream::Compute);
      if (work)
        device->repeat(*work);
      else
        submit();
      EXPECT_TRUE(bytesOf(*device, target.address(), expected.size()) ==
                  expected)
          << rowBytes << " " << shift;
    }
    if (swaps()) {
      int64_t span =
          std::min(io::OffloadFile::bytesForRow(0, rowBytes), source.size());
      EXPECT_EQ(device->offloadTraffic().readBytes - before, 2 * count * span);
    }
  }
}

/// Each role's file is in its directory, and addresses go on from one to the
/// next. What nobody gave a role is with the activations.
TEST(OffloadMemory, HasAFileForEachRole) {
  io::TestDirectory all, own;
  OffloadOptions options;
  options.directories = *io::OffloadDirectories::parse(
      (all / "deep") + ",parameters=" + (own / "deep"));
  ThreadPool pool(1);
  CpuDevice device(pool, options);
  MemoryRequest request = {MemoryKind::File, 6 * page, "test"};
  request.files[plan::FileRole::Optimizer] = 2 * page;
  request.files[plan::FileRole::Parameters] = page;
  std::map<std::string, std::vector<int64_t>> before = unnamedFiles(), sizes;
  {
    DeviceMemory first(device, request), second(device, request);
    for (int64_t at = 0; at < 6; ++at)
      for (DeviceMemory *memory : {&first, &second})
        device.fill(Stream::Compute, memory->address() + at * page,
                    char(1 + at + (memory == &second ? 6 : 0)), page);
    for (int64_t at = 0; at < 6; ++at) {
      EXPECT_EQ(bytesOf(device, first.address() + at * page, page),
                std::vector<char>(page, char(1 + at)));
      EXPECT_EQ(bytesOf(device, second.address() + at * page, page),
                std::vector<char>(page, char(7 + at)));
    }
    sizes = unnamedFiles();
  }
  using Sizes = std::vector<int64_t>;
  EXPECT_EQ(sizes[all / "deep"],
            Sizes({2 * page, 2 * page, 3 * page, 3 * page}));
  EXPECT_EQ(sizes[own / "deep"], Sizes({page, page}));
  EXPECT_EQ(unnamedFiles(), before);
}

/// The second file of two has no room: neither is left.
TEST(OffloadMemory, GivesUpFilesWithTheLast) {
  io::TestDirectory all, own;
  OffloadOptions options;
  options.directories =
      *io::OffloadDirectories::parse(all.path() + ",parameters=" + own.path());
  ThreadPool pool(1);
  CpuDevice device(pool, options);
  MemoryRequest request = {MemoryKind::File, (int64_t(1) << 50) + page, "test"};
  request.files[plan::FileRole::Optimizer] = page;
  request.files[plan::FileRole::Parameters] = int64_t(1) << 50;
  std::map<std::string, std::vector<int64_t>> before = unnamedFiles();
  Diagnostic said =
      io::diagnosticOf([&] { DeviceMemory memory(device, request); });
  EXPECT_EQ(said.code, "H0295");
  EXPECT_NE(said.message.find("the swap directory " + own.path() +
                              " has no room for the 1125899906842624 bytes of "
                              "test (parameters)"),
            std::string::npos)
      << said.message;
  EXPECT_EQ(unnamedFiles(), before);
}

TEST_P(DeviceFilesTest, CopiesNothing) {
  DeviceMemory file(*device, {MemoryKind::File, page, "test"});
  DeviceMemory memory(*device, {MemoryKind::Device, page, "test"});
  device->copy(Stream::Copy, memory.address(), file.address(), 0);
  device->copy(Stream::Copy, file.address(), memory.address(), 0);
  device->synchronize(Stream::Copy);
  if (swaps()) {
    EXPECT_EQ(device->offloadTraffic().requests, 0);
  }
}

/// Bytes on file have no pointer: a host that follows the address faults.
TEST_P(DeviceFilesTest, FilesAreOutOfSight) {
  DeviceMemory file(*device, {MemoryKind::File, page, "test"});
  EXPECT_EQ(device->map(file.address()), nullptr);
  EXPECT_FALSE(isReadable(file.address().value()));
}

/// What is on its way to a file leaves its memory before rows take it.
TEST_P(DeviceFilesTest, RowsWaitForStoresOfTheirMemory) {
  constexpr int64_t bytes = int64_t(48) << 20, rowBytes = page;
  DeviceMemory file(*device, {MemoryKind::File, bytes, "test"});
  DeviceMemory table(*device, {MemoryKind::Host, rowBytes, "test"});
  DeviceMemory memory(*device, {MemoryKind::Device, bytes, "test"});
  DeviceMemory ids(*device, {MemoryKind::Device, page, "test"});
  device->fill(Stream::Compute, memory.address(), 3, bytes);
  Event filled = device->makeEvent(), stored = device->makeEvent();
  device->record(Stream::Compute, filled);
  device->wait(Stream::Store, filled);
  device->copy(Stream::Store, file.address(), memory.address(), bytes);
  device->record(Stream::Store, stored);
  device->wait(Stream::Copy, stored);
  device->copyRows(Stream::Copy,
                   {memory.address() + (bytes - rowBytes), table.address(),
                    ids.address(), rowBytes, /*tableRows=*/1, /*count=*/1});
  EXPECT_EQ(bytesOf(*device, memory.address() + (bytes - rowBytes), rowBytes),
            std::vector<char>(rowBytes));
  EXPECT_TRUE(bytesOf(*device, file.address(), bytes) ==
              std::vector<char>(bytes, 3));
}
