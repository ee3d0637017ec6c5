//===- OffloadStreamTest.cpp - Offload files and their transfers ----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "IoTestSupport.h"
#include "heddle/runtime/io/OffloadDirectories.h"
#include "heddle/runtime/io/OffloadStream.h"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <functional>
#include <numeric>
#include <random>
#include <unistd.h>

using namespace heddle;
using namespace heddle::io;

static constexpr int64_t page = OffloadFile::pageBytes;

namespace {

/// Pages of memory.
class Pages {
public:
  explicit Pages(int64_t count) : bytes(count * page) {
    EXPECT_EQ(posix_memalign(&memory, page, bytes), 0);
    memset(memory, 0, bytes);
  }
  ~Pages() { free(memory); }
  char *data() const { return static_cast<char *>(memory); }
  std::string text() const { return std::string(data(), bytes); }

private:
  void *memory = nullptr;
  int64_t bytes;
};

/// Does requests in an order of its own, some in pieces, and some not at once.
/// It is the least that a queue promises.
class ScrambledQueue : public BlockQueue {
public:
  explicit ScrambledQueue(uint64_t seed) : random(seed) {}
  const char *name() const override { return "scrambled"; }
  void submit(const BlockRequest &request) override { all.push_back(request); }
  BlockResult wait() override {
    size_t chosen = random() % all.size();
    BlockRequest request = all[chosen];
    all.erase(all.begin() + chosen);
    if (random() % 8 == 0)
      return {request.tag, random() % 2 ? -EINTR : -EAGAIN};
    if (random() % 4 == 0) // It may end within a page.
      request.bytes = 1 + random() % request.bytes;
    return {request.tag, perform(request)};
  }

private:
  /// Through the cache: what is no page is moved as well.
  static int64_t perform(const BlockRequest &request) {
    std::string name = "/proc/self/fd/" + std::to_string(request.descriptor);
    int file = ::open(name.c_str(), O_RDWR | O_CLOEXEC);
    int64_t moved =
        request.isWrite
            ? pwrite(file, request.memory, request.bytes, request.offset)
            : pread(file, request.memory, request.bytes, request.offset);
    ::close(file);
    return moved;
  }
  std::mt19937_64 random;
  std::vector<BlockRequest> all;
};

/// Gives the request of that number, counted from 1, another result.
class FaultyQueue : public BlockQueue {
public:
  FaultyQueue(int64_t number, int64_t result) : number(number), fault(result) {}
  const char *name() const override { return "faulty"; }
  void submit(const BlockRequest &request) override { inner->submit(request); }
  BlockResult wait() override {
    BlockResult result = inner->wait();
    if (++count >= number)
      result.moved = fault;
    return result;
  }

private:
  std::unique_ptr<BlockQueue> inner = openBlockThreads(4);
  int64_t number, fault, count = 0;
};

/// A queue that is gone, as after an error of io_uring itself.
class DeadQueue : public BlockQueue {
public:
  const char *name() const override { return "dead"; }
  void submit(const BlockRequest &) override {}
  BlockResult wait() override { fail("H0461", "gone"); }
};

/// Each way to move bytes; the last ones do it as badly as they may.
class OffloadStreamTest : public testing::TestWithParam<std::string> {
protected:
  static std::unique_ptr<BlockQueue> queue(int64_t depth) {
    const std::string &name = GetParam();
    std::string prefix = "scrambled";
    if (name.compare(0, prefix.size(), prefix) == 0)
      return std::make_unique<ScrambledQueue>(
          std::stoull(name.substr(prefix.size())));
    return openBlockQueue(name, depth);
  }
  TestDirectory directory;
};

} // namespace

static std::vector<std::string> queueNames() {
  std::string why;
  std::vector<std::string> names = {"threads", "scrambled1", "scrambled2",
                                    "scrambled3"};
  if (openUring(1, why))
    names.push_back("io_uring");
  return names;
}

INSTANTIATE_TEST_SUITE_P(, OffloadStreamTest, testing::ValuesIn(queueNames()),
                         [](const auto &info) { return info.param; });

/// Transfers that overlap in the file and in memory, against a plain copy of
/// both.
TEST_P(OffloadStreamTest, TransfersAppearInTheirOrder) {
  constexpr int64_t filePages = 40, memoryPages = 24;
  std::mt19937_64 random(7);
  OffloadFile file({directory.path()}, filePages * page, "states");
  Pages memory(memoryPages);
  std::string expectedFile(filePages * page, 0), expected = memory.text();
  OffloadStream stream(queue(3), {2 * page, 3});
  int64_t read = 0, written = 0;
  for (int round = 0; round < 40; ++round) {
    // New values, where nothing is under way.
    for (int64_t i = 0; i < memoryPages; ++i) {
      char value = char(random());
      memset(memory.data() + i * page, value, page);
      memset(expected.data() + i * page, value, page);
    }
    for (uint64_t count = random() % 40; count > 0; --count) {
      OffloadTransfer next;
      next.isWrite = random() % 2;
      next.file = &file;
      int64_t pages = 1 + random() % 9;
      next.offset = random() % (filePages - pages + 1) * page;
      int64_t place = random() % (memoryPages - pages + 1) * page;
      next.memory = memory.data() + place;
      next.bytes = pages * page;
      stream.start(next);
      char *inFile = expectedFile.data() + next.offset;
      char *inMemory = expected.data() + place;
      memcpy(next.isWrite ? inFile : inMemory, next.isWrite ? inMemory : inFile,
             next.bytes);
      (next.isWrite ? written : read) += next.bytes;
    }
    stream.await(stream.started());
    ASSERT_EQ(memory.text(), expected) << "round " << round;
  }
  std::string found(filePages * page, 1);
  stream.read(file, 0, found.data(), found.size());
  EXPECT_EQ(found, expectedFile);
  // What ends within a page is moved again; nothing else is moved twice.
  if (GetParam().find("scrambled") != 0) {
    EXPECT_EQ(stream.traffic().readBytes, read + filePages * page);
    EXPECT_EQ(stream.traffic().writtenBytes, written);
  }
}

/// Bytes that begin and end wherever they like leave those around them alone.
TEST_P(OffloadStreamTest, MovesWhatFillsNoPages) {
  constexpr int64_t bytes = 11 * page;
  std::mt19937_64 random(11);
  OffloadFile file({directory.path()}, bytes, "states");
  OffloadStream stream(queue(2), {2 * page, 2});
  std::string expected(bytes, 0), found;
  for (int round = 0; round < 60; ++round) {
    int64_t first = random() % bytes;
    int64_t count = random() % std::min<int64_t>(bytes - first, 5 * page);
    if (round % 3 == 0) {
      unsigned char value = random();
      stream.fill(file, first, value, count);
      memset(expected.data() + first, value, count);
    } else {
      std::string values(count, 0);
      std::generate(values.begin(), values.end(), std::ref(random));
      stream.write(file, first, values.data(), count);
      expected.replace(first, count, values);
    }
    first = random() % bytes;
    found.resize(random() % (bytes - first));
    stream.read(file, first, found.data(), found.size());
    ASSERT_EQ(found, expected.substr(first, found.size())) << "round " << round;
  }
}

/// Two files of one stream: the same offsets are not the same bytes.
/// Rows that lie anywhere, twice, at the file's end, and nowhere; more than the
/// detour has room for, and rows that are larger than it.
TEST_P(OffloadStreamTest, ReadsRowsOfTables) {
  constexpr int64_t filePages = 9;
  OffloadFile file({directory.path()}, filePages * page, "states");
  std::mt19937 random(3);
  std::string bytes(filePages * page, 0);
  for (char &byte : bytes)
    byte = char(random());
  for (OffloadShape shape :
       {OffloadShape{page, 1}, OffloadShape{2 * page, 3}}) {
    OffloadStream stream(queue(shape.depth), shape);
    stream.write(file, 0, bytes.data(), bytes.size());
    for (auto [offset, rowBytes] : {std::pair<int64_t, int64_t>(0, 4),
                                    {4, 100},
                                    {6, 97 * 4},
                                    {0, page},
                                    {128, 6400},
                                    {page - 2, 2 * page + 2},
                                    {0, filePages * page}}) {
      int64_t rows = (filePages * page - offset) / rowBytes;
      std::vector<int32_t> ids = {int32_t(rows - 1), 0, int32_t(rows), 0, -1,
                                  int32_t(rows / 2)};
      for (int i = 0; i < 20; ++i)
        ids.push_back(int32_t(random() % rows));
      RowChoice choice = {rowBytes, rows, ids.data(), int64_t(ids.size())};
      std::string found(ids.size() * rowBytes, 0), expected = found;
      choice.gather(expected.data(), bytes.data() + offset);
      EXPECT_EQ(expected.substr(2 * rowBytes, rowBytes),
                std::string(rowBytes, '\xff'));
      EXPECT_EQ(expected.substr(0, rowBytes),
                bytes.substr(offset + (rows - 1) * rowBytes, rowBytes));
      int64_t before = stream.traffic().readBytes;
      stream.readRows(file, offset, found.data(), choice);
      EXPECT_EQ(found, expected) << offset << " " << rowBytes;
      int64_t span = OffloadFile::bytesForRow(offset, rowBytes);
      // What ends within a page is read again.
      bool isWhole = GetParam().find("scrambled") == std::string::npos;
      if (isWhole && span <= shape.requestBytes * shape.depth)
        EXPECT_EQ(stream.traffic().readBytes - before,
                  int64_t(ids.size() - 2) * span)
            << offset << " " << rowBytes;
      // As a part of a table, with rows before it and behind it.
      constexpr int64_t first = 5;
      choice.first = first;
      std::vector<int32_t> ofWhole;
      for (int32_t id : ids)
        ofWhole.push_back(id + first);
      choice.ids = ofWhole.data();
      for (int64_t t : {2, 4})
        expected.replace(t * rowBytes, rowBytes, rowBytes, '\0');
      stream.readRows(file, offset, found.data(), choice);
      EXPECT_EQ(found, expected) << offset << " " << rowBytes;
    }
  }
}

TEST_P(OffloadStreamTest, KeepsFilesApart) {
  OffloadFile first({directory.path()}, 4 * page, "states");
  OffloadFile second({directory.path()}, 4 * page, "activations");
  OffloadStream stream(queue(4), {page, 4});
  for (OffloadFile *file : {&first, &second})
    stream.fill(*file, 0, file == &first ? 'a' : 'b', 4 * page);
  for (OffloadFile *file : {&first, &second}) {
    std::string found(4 * page, 0);
    stream.read(*file, 0, found.data(), found.size());
    EXPECT_EQ(found, std::string(4 * page, file == &first ? 'a' : 'b'));
  }
}

/// Which transfer is done is told one by one: with those of its direction that
/// were before it, and maybe without those behind it.
TEST_P(OffloadStreamTest, AwaitsOneOfMany) {
  constexpr int64_t count = 1500; // More than may wait.
  OffloadFile file({directory.path()}, 8 * page, "states");
  Pages memory(8);
  OffloadStream stream(queue(4), {page, 4});
  for (int64_t i = 0; i < count; ++i)
    stream.start(
        {false, &file, i % 8 * page, memory.data() + i % 8 * page, page});
  EXPECT_EQ(stream.started()[OffloadLane::Read], count);
  EXPECT_EQ(stream.started()[OffloadLane::Write], 0);
  for (int64_t i = 1; i <= count; i += 100) {
    OffloadPoint point;
    point[OffloadLane::Read] = i;
    stream.await(point);
  }
  stream.await(stream.started());
  EXPECT_GE(stream.traffic().readBytes, count * page);
}

namespace {
/// Writes do not end before they may.
class HeldWrites : public BlockQueue {
public:
  explicit HeldWrites(std::atomic<bool> &mayEnd) : mayEnd(mayEnd) {}
  const char *name() const override { return "held"; }
  void submit(const BlockRequest &request) override {
    (request.isWrite ? writes : reads).push_back(request);
  }
  BlockResult wait() override {
    std::vector<BlockRequest> &list = reads.empty() ? writes : reads;
    BlockRequest one = list.back();
    list.pop_back();
    if (!one.isWrite)
      return {one.tag,
              pread(one.descriptor, one.memory, one.bytes, one.offset)};
    return {one.tag, mayEnd ? one.bytes : -EAGAIN};
  }

private:
  std::atomic<bool> &mayEnd;
  std::vector<BlockRequest> reads, writes;
};
} // namespace

/// Who waits for what is read waits for no write of other bytes, and who needs
/// rows for nothing that is under way.
TEST(OffloadStreamOrder, ReadsDoNotWaitForWrites) {
  TestDirectory directory;
  OffloadFile file({directory.path()}, 16 * page, "states");
  Pages memory(16);
  std::atomic<bool> mayEnd{false};
  OffloadStream stream(std::make_unique<HeldWrites>(mayEnd), {page, 4});
  OffloadPoint written =
      stream.start({true, &file, 0, memory.data(), 2 * page});
  OffloadPoint read =
      stream.start({false, &file, 4 * page, memory.data() + 4 * page, page});
  stream.await(read);
  EXPECT_EQ(written[OffloadLane::Write], 1);
  EXPECT_EQ(written[OffloadLane::Read], 0);
  std::vector<int32_t> ids = {3, 0};
  std::string rows(2 * 100, 'x');
  stream.readRows(file, 8 * page, rows.data(), {100, 40, ids.data(), 2});
  EXPECT_EQ(rows, std::string(2 * 100, '\0'));
  mayEnd = true;
  stream.await(written);
}

/// One after the other, as all are read to the same page.
TEST_P(OffloadStreamTest, SaysWhenTransfersWereUnderWay) {
  constexpr int64_t count = 2000;
  OffloadFile file({directory.path()}, page, "states");
  Pages memory(1);
  std::vector<OffloadTime> times(count);
  times.back().begin = 1; // Its transfers have begun: this is the last one.
  OffloadStream stream(queue(4), {page, 4});
  for (OffloadTime &time : times) {
    stream.start({false, &file, 0, memory.data(), page, &time});
    stream.start({false, &file, 0, memory.data(), page});
  }
  stream.await(stream.started());
  EXPECT_EQ(times.back().begin, 1);
  times.back().begin = times.back().end;
  int64_t before = 1;
  for (const OffloadTime &time : times) {
    EXPECT_LE(before, time.begin);
    EXPECT_LE(time.begin, time.end);
    before = time.end;
  }
}

//===----------------------------------------------------------------------===//
// Faults
//===----------------------------------------------------------------------===//

namespace {
class SwapFaultTest : public testing::Test {
protected:
  SwapFaultTest() : file({directory.path()}, 64 * page, "states") {
    file.nameBytes([](int64_t offset) {
      return offset < 32 * page ? "the state first" : "the state second";
    });
  }
  /// Writes all of the file in 16 transfers of 4 requests; what comes of it.
  Diagnostic writeAll(std::unique_ptr<BlockQueue> queue) {
    OffloadStream stream(std::move(queue), {page, 4});
    for (int64_t i = 0; i < 16; ++i)
      stream.start({true, &file, i * 4 * page, memory.data(), 4 * page});
    Diagnostic first = diagnosticOf([&] { stream.await(stream.started()); });
    // It stays so, for what comes later too.
    stream.start({true, &file, 0, memory.data(), page});
    EXPECT_EQ(codeOf([&] { stream.await(stream.started()); }), first.code);
    return first;
  }
  TestDirectory directory;
  OffloadFile file;
  Pages memory{4};
};
} // namespace

TEST_F(SwapFaultTest, ARequestFails) {
  for (int64_t number : {1, 2, 17, 63, 64}) {
    Diagnostic said = writeAll(std::make_unique<FaultyQueue>(number, -EIO));
    EXPECT_EQ(said.code, "H0461") << number;
    EXPECT_NE(said.message.find("Input/output error"), std::string::npos)
        << said.message;
    // Which request it is that fails is open.
    size_t place = said.message.find(", at byte ");
    ASSERT_NE(place, std::string::npos) << said.message;
    bool isFirst = std::stoll(said.message.substr(place + 10)) < 32 * page;
    EXPECT_NE(said.message.find(std::string("of the state ") +
                                (isFirst ? "first" : "second") + ", at byte "),
              std::string::npos)
        << said.message;
    EXPECT_NE(said.message.find("of the offload file in " + directory.path()),
              std::string::npos);
    EXPECT_NE(said.help.find("--resume"), std::string::npos);
  }
  Diagnostic full = writeAll(std::make_unique<FaultyQueue>(5, -ENOSPC));
  EXPECT_NE(full.message.find("No space left"), std::string::npos);
  Diagnostic ended = writeAll(std::make_unique<FaultyQueue>(5, 0));
  EXPECT_NE(ended.message.find("the file ends"), std::string::npos);
  // No request may be made for ever.
  Diagnostic stuck = writeAll(std::make_unique<FaultyQueue>(5, 512));
  EXPECT_NE(stuck.message.find("Input/output error"), std::string::npos);
  EXPECT_EQ(writeAll(std::make_unique<DeadQueue>()).message, "gone");
  EXPECT_EQ(writeAll(openBlockThreads(4)).code, "");
}

TEST_F(SwapFaultTest, ADiskThatForgetsIsFound) {
  OffloadFile checked({directory.path(), /*checks=*/true}, 8 * page, "states");
  OffloadStream stream(openBlockThreads(2), {2 * page, 2});
  stream.fill(checked, 0, 'x', 8 * page);
  std::string found(8 * page, 0);
  stream.read(checked, 0, found.data(), found.size());
  Pages other(1);
  ASSERT_EQ(pwrite(checked.descriptor(), other.data(), page, 5 * page), page);
  stream.read(checked, 0, found.data(), 5 * page);
  Diagnostic said = diagnosticOf(
      [&] { stream.read(checked, 0, found.data(), found.size()); });
  EXPECT_EQ(said.code, "H0462");
  EXPECT_NE(said.message.find("at byte 20480 "), std::string::npos)
      << said.message;
}

TEST(OffloadFile, LeavesNoNameBehind) {
  TestDirectory directory;
  std::string place = directory / "new/deep";
  OffloadFile file({place}, 4 * page, "states");
  EXPECT_EQ(listDirectory(place, "H0402"), std::vector<std::string>());
  EXPECT_EQ(file.directory(), place);
}

TEST(OffloadDirectories, ReadsWhatUsersWrite) {
  using plan::FileRole;
  auto of = [](const std::string &text, FileRole role) {
    auto directories = OffloadDirectories::parse(text);
    return directories ? directories->of(role) : "none";
  };
  EXPECT_EQ(of("/a", FileRole::Optimizer), "/a");
  EXPECT_EQ(of("a/b=c", FileRole::Optimizer), "a/b=c");
  EXPECT_EQ(of("", FileRole::Optimizer), "");
  for (const char *text : {"/a,parameters=b=c", "parameters=b=c,/a"}) {
    EXPECT_EQ(of(text, FileRole::Optimizer), "/a");
    EXPECT_EQ(of(text, FileRole::Activations), "/a");
    EXPECT_EQ(of(text, FileRole::Parameters), "b=c");
    EXPECT_EQ(OffloadDirectories::parse(text)->text(), "/a,parameters=b=c");
  }
  EXPECT_EQ(OffloadDirectories::parse("./b=c")->text(), "./b=c");
  EXPECT_EQ(of("gradients=/b", FileRole::Optimizer), "");
  EXPECT_EQ(of("gradients=/b", FileRole::Gradients), "/b");
  for (const char *wrong :
       {",", "/a,", ",/a", "/a,/b", "parameters=", "weights=/a", "a=b",
        "/a,gradients=/b,gradients=/c", "/a,optimiser=/b"})
    EXPECT_FALSE(OffloadDirectories::parse(wrong)) << wrong;
}

TEST(OffloadDirectories, AreTheSameHoweverTheyAreWritten) {
  for (auto [text, plain] :
       {std::pair("/a/", "/a"), std::pair("//a/./b//", "/a/b"),
        std::pair("./a", "a"), std::pair("a/../b/", "a/../b"),
        std::pair("/", "/"), std::pair("./", ".")})
    EXPECT_EQ(OffloadDirectories::parse(text)->all, plain) << text;
  EXPECT_EQ(OffloadDirectories::parse("/a/,parameters=/a")->text(), "/a");
  EXPECT_EQ(
      OffloadDirectories::parse("/a,parameters=/b/,gradients=/a/.")->text(),
      "/a,parameters=/b");
}

TEST(OffloadDirectories, TakeWhatIsStronger) {
  auto taken = [](const char *text, const char *stronger) {
    OffloadDirectories all = *OffloadDirectories::parse(text);
    all.take(*OffloadDirectories::parse(stronger));
    return all.text();
  };
  EXPECT_EQ(taken("/a,parameters=/b", ""), "/a,parameters=/b");
  EXPECT_EQ(taken("/a,parameters=/b", "/c"), "/c");
  EXPECT_EQ(taken("/a,parameters=/b", "/c,optimizer=/d"), "/c,optimizer=/d");
  EXPECT_EQ(taken("/a,parameters=/b", "optimizer=/c"),
            "/a,optimizer=/c,parameters=/b");
  EXPECT_EQ(taken("", "parameters=/c"), "parameters=/c");
}

/// What a killed process left is removed; what another one has open is not, nor
/// what only has a similar name, as in /tmp.
TEST(OffloadFile, RemovesStaleFiles) {
  TestDirectory directory;
  directory.write("heddle-swap-17", "stale");
  directory.write("heddle-swap-18-1", "stale");
  directory.write("other", "a user's");
  directory.write("heddle-swap-notes", "a user's");
  directory.write("heddle-swap-runs/1", "a user's");
  directory.write("heddle-swap-2026/1", "a user's");
  Temporary used(directory / "heddle-swap-", Temporary::Kind::File,
                 directory.path());
  OffloadFile file({directory.path()}, page, "states");
  EXPECT_FALSE(pathExists(directory / "heddle-swap-17"));
  EXPECT_FALSE(pathExists(directory / "heddle-swap-18-1"));
  EXPECT_TRUE(pathExists(used.path()));
  for (const char *other : {"other", "heddle-swap-notes", "heddle-swap-runs/1",
                            "heddle-swap-2026/1"})
    EXPECT_TRUE(pathExists(directory / other)) << other;
}

TEST(OffloadFile, RefusesWhatItCannotHave) {
  TestDirectory directory;
  Diagnostic full = diagnosticOf(
      [&] { OffloadFile({directory.path()}, int64_t(1) << 50, "states"); });
  EXPECT_EQ(full.code, "H0295");
  EXPECT_NE(full.message.find("1125899906842624 bytes of states"),
            std::string::npos)
      << full.message;
  EXPECT_NE(full.message.find(" bytes are free there"), std::string::npos);
  EXPECT_EQ(listDirectory(directory.path(), "H0402"),
            std::vector<std::string>());
  std::string file = directory.write("file", "");
  EXPECT_EQ(codeOf([&] { OffloadFile({file}, page, "states"); }), "H0402");
  EXPECT_EQ(codeOf([&] { OffloadFile({file + "/in"}, page, "states"); }),
            "H0402");
}

/// Errors and short reads, of the system's own files that give them.
TEST(BlockQueue, SaysWhatTheKernelSays) {
  TestDirectory directory;
  Pages memory(2);
  std::string file = directory.write("file", std::string(page + 100, 'x'));
  struct Case {
    std::string path;
    bool isWrite;
    int64_t offset, result;
  };
  const Case cases[] = {{"/dev/full", true, 0, -ENOSPC},
                        {"/proc/self/mem", false, 0, -EIO},
                        {file, false, 0, page + 100},
                        {file, false, page, 100},
                        {file, false, 4 * page, 0}};
  for (const char *method : {"threads", "auto"}) {
    std::unique_ptr<BlockQueue> queue = openBlockQueue(method, 4);
    for (const Case &one : cases) {
      int descriptor = ::open(one.path.c_str(), O_RDWR | O_CLOEXEC);
      ASSERT_GE(descriptor, 0) << one.path;
      BlockRequest request;
      request.isWrite = one.isWrite;
      request.descriptor = descriptor;
      request.offset = one.offset;
      request.memory = memory.data();
      request.bytes = 2 * page;
      request.tag = 3;
      queue->submit(request);
      BlockResult result = queue->wait();
      EXPECT_EQ(result.tag, 3);
      EXPECT_EQ(result.moved, one.result) << queue->name() << " " << one.path;
      ::close(descriptor);
    }
  }
}

TEST(BlockQueue, IsOneOfThoseThatThereAre) {
  EXPECT_EQ(codeOf([] { openBlockQueue("aio", 4); }), "H0190");
  EXPECT_EQ(codeOf([] { openBlockQueue("", 4); }), "H0190");
  EXPECT_STREQ(openBlockQueue("threads", 4)->name(), "threads");
  std::string why;
  bool isHere = openUring(4, why) != nullptr;
  EXPECT_STREQ(openBlockQueue("auto", 4)->name(),
               isHere ? "io_uring" : "threads");
  EXPECT_EQ(why.empty(), isHere);
}
