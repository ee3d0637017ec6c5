//===- MemoryImageTest.cpp - Tests of memory kept in a file ---------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/app/MemoryImage.h"
#include "Io/IoTestSupport.h"
#include "heddle/runtime/devices/cpu/CpuDevice.h"
#include "heddle/runtime/devices/separate/SeparateDevice.h"
#include "heddle/runtime/io/CacheDirectory.h"

#include <cstring>
#include <fstream>

using namespace heddle;
using namespace heddle::rt;
using heddle::io::codeOf;
using heddle::io::diagnosticOf;
using heddle::io::slurp;
using heddle::io::TestDirectory;
namespace fs = std::filesystem;

namespace {

constexpr int64_t regionBytes = int64_t(9) << 20;

/// A region, and parts of it: within a page, over huge pages, and one that
/// ends where the next begins.
class MemoryImageTest : public ::testing::Test {
protected:
  /// Bytes that differ from place to place.
  void fill(unsigned seed) {
    for (int64_t i = 0; i < regionBytes; ++i)
      bytes[i] = char(i * 31 + i / 4096 + seed);
  }
  MemoryImage image(const std::string &key = "key") {
    std::vector<ImagePart> parts;
    for (auto [offset, count] : extents)
      parts.push_back({memory.address() + offset, offset, count});
    return MemoryImage(device, threads, parts, key);
  }
  bool isInParts(int64_t place) const {
    for (auto [offset, count] : extents)
      if (place >= offset && place < offset + count)
        return true;
    return false;
  }

  std::vector<std::pair<int64_t, int64_t>> extents = {{64, 100},
                                                      {5000, (5 << 20) + 77},
                                                      {(5 << 20) + 5077, 3},
                                                      {8 << 20, 4096}};
  ThreadPool threads{2};
  CpuDevice device{threads};
  DeviceMemory memory{device, {MemoryKind::Device, regionBytes, "test", false}};
  char *bytes = device.map(memory.address());
  TestDirectory directory;
  std::string path = directory / "image";
};

} // namespace

TEST_F(MemoryImageTest, GivesBackWhatWasWrittenAndNothingElse) {
  fill(1);
  std::string kept(bytes, regionBytes);
  image().write(path);
  EXPECT_EQ(int64_t(fs::file_size(path)), image().bytes());
  for (LoadWay way : {LoadWay::Read, LoadWay::Map, LoadWay::Auto}) {
    fill(2);
    std::string before(bytes, regionBytes);
    std::optional<LoadWay> found = image().load(path, way);
    ASSERT_TRUE(found);
    if (way != LoadWay::Auto)
      EXPECT_EQ(*found, way);
    for (int64_t i = 0; i < regionBytes; ++i)
      ASSERT_EQ(bytes[i], isInParts(i) ? kept[i] : before[i]) << i;
  }
}

TEST_F(MemoryImageTest, DoesNotWriteToTheFile) {
  fill(1);
  image().write(path);
  std::string written = slurp(path);
  ASSERT_TRUE(image().load(path, LoadWay::Map));
  fill(2);
  EXPECT_EQ(slurp(path), written);
}

/// Memory that the host cannot access is copied through pinned buffers, and is
/// never mapped.
TEST_F(MemoryImageTest, KeepsMemoryOfASeparateDevice) {
  SeparateDevice other(threads, /*seed=*/1);
  DeviceMemory separate(other,
                        {MemoryKind::Device, regionBytes, "test", false});
  std::vector<ImagePart> parts;
  for (auto [offset, count] : extents)
    parts.push_back({separate.address() + offset, offset, count});
  MemoryImage image(other, threads, parts, "key");
  auto bytesOf = [&] {
    std::vector<char> found(regionBytes);
    other.copyOut(Stream::Compute, found.data(), separate.address(),
                  regionBytes);
    other.synchronize(Stream::Compute);
    return found;
  };
  auto store = [&](unsigned seed) {
    fill(seed);
    other.copyIn(Stream::Compute, separate.address(), bytes, regionBytes);
    other.synchronize(Stream::Compute);
    return std::vector<char>(bytes, bytes + regionBytes);
  };
  std::vector<char> kept = store(1);
  image.write(path);
  std::vector<char> before = store(2);
  EXPECT_EQ(image.load(path, LoadWay::Map), LoadWay::Read);
  std::vector<char> found = bytesOf();
  for (int64_t i = 0; i < regionBytes; ++i)
    ASSERT_EQ(found[i], isInParts(i) ? kept[i] : before[i]) << i;
  std::string damaged = slurp(path);
  damaged[int64_t(4) << 20] ^= 4;
  directory.write("image", damaged);
  EXPECT_EQ(codeOf([&] { image.load(path, LoadWay::Auto); }), "H0482");
  found = bytesOf();
  for (int64_t i = 0; i < regionBytes; ++i)
    ASSERT_EQ(found[i], isInParts(i) ? 0 : before[i]) << i;
}

TEST_F(MemoryImageTest, FindsNoFile) {
  EXPECT_FALSE(image().load(path, LoadWay::Auto));
}

TEST_F(MemoryImageTest, KeepsNothingOfWhatIsDamaged) {
  fill(1);
  image().write(path);
  std::string whole = slurp(path);
  int64_t size = int64_t(whole.size());
  // A byte of the first part, of one behind huge pages, of the checksums, of
  // the key and of the form.
  std::vector<std::string> damaged = {"", whole.substr(0, size / 2),
                                      whole.substr(0, size - 1), whole + "x"};
  for (int64_t place :
       {int64_t(70), int64_t(4) << 20, size - 50, size - 18, size - 2}) {
    damaged.push_back(whole);
    damaged.back()[place] ^= 4;
  }
  for (const std::string &text : damaged)
    for (LoadWay way : {LoadWay::Read, LoadWay::Map, LoadWay::Auto}) {
      fill(2);
      std::string before(bytes, regionBytes);
      directory.write("image", text);
      EXPECT_EQ(codeOf([&] { image().load(path, way); }), "H0482");
      for (auto [offset, count] : extents)
        for (int64_t i = offset; i < offset + count; ++i)
          ASSERT_TRUE(bytes[i] == 0 || bytes[i] == before[i]) << i;
    }
}

TEST_F(MemoryImageTest, RefusesAnotherKey) {
  image().write(path);
  EXPECT_EQ(codeOf([&] { image("kex").load(path, LoadWay::Read); }), "H0482");
}

TEST_F(MemoryImageTest, IsWrittenWholeOrNotAtAll) {
  directory.write("file", "");
  std::string below = directory / "file/image";
  EXPECT_EQ(codeOf([&] { image().write(below); }), "H0402");
}

//===----------------------------------------------------------------------===//
// Room
//===----------------------------------------------------------------------===//

TEST(CacheDirectory, RemovesTheOldestFirst) {
  TestDirectory directory;
  auto now = fs::file_time_type::clock::now();
  for (int age : {3, 1, 4, 2}) {
    std::string name =
        directory.write(std::to_string(age), std::string(10, 'x'));
    fs::last_write_time(name, now - std::chrono::hours(age));
  }
  auto names = [&] { return io::listDirectory(directory.path(), ""); };
  io::makeRoom(directory.path(), 10, 50);
  EXPECT_EQ(names().size(), 4u);
  io::makeRoom(directory.path(), 11, 50);
  EXPECT_EQ(names(), (std::vector<std::string>{"1", "2", "3"}));
  io::makeRoom(directory.path(), 40, 50);
  EXPECT_EQ(names(), (std::vector<std::string>{"1"}));
  io::makeRoom(directory.path(), 60, 50);
  EXPECT_EQ(names(), std::vector<std::string>());
  io::makeRoom(directory / "nothing", 60, 50);
}

TEST(CacheDirectory, TakesAShareOfTheDisk) {
  TestDirectory directory;
  EXPECT_EQ(io::shareOfDisk(directory.path(), 1000), 1000);
  int64_t most = io::shareOfDisk(directory.path(), INT64_MAX);
  EXPECT_LT(most, int64_t(fs::space(directory.path()).capacity) / 4);
  EXPECT_GT(most, 0);
}
