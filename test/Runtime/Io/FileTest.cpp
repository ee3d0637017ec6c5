//===- FileTest.cpp - Tests of reading and writing files --------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "IoTestSupport.h"
#include "heddle/runtime/io/Process.h"
#include <csignal>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace heddle;
using namespace heddle::io;
namespace fs = std::filesystem;

TEST(File, MapsFilesAndFollowsLinks) {
  TestDirectory directory;
  std::string file = directory.write("blobs/a", "hello");
  fs::create_symlink(file, directory / "link");
  std::shared_ptr<const MappedFile> mapped =
      MappedFile::open(directory / "link", "H0310");
  EXPECT_EQ(mapped->size(), 5);
  EXPECT_EQ(mapped->data()[4], 'o');
  EXPECT_EQ(MappedFile::open(directory.write("empty", ""), "H0310")->size(), 0);
  EXPECT_EQ(codeOf([&] { MappedFile::open(directory / "no", "H0310"); }),
            "H0310");
  EXPECT_EQ(codeOf([&] { MappedFile::open(directory.path(), "H0310"); }),
            "H0310");
}

TEST(File, NothingIsThereBeforeCommit) {
  TestDirectory directory;
  std::string path = directory.write("out", "old");
  {
    OutputFile out(path);
    out.write("new", 3);
  }
  EXPECT_EQ(slurp(path), "old");
  EXPECT_EQ(listDirectory(directory.path(), "H0301").size(), 1u);
  OutputFile out(path);
  std::string large(3 << 20, 'x');
  out.write("ab", 2);
  out.write(large.data(), large.size());
  out.write("cd", 2);
  EXPECT_EQ(out.digest(),
            hexDigest(hashBytes(("ab" + large + "cd").data(), out.size())));
  out.rewrite(0, "AB", 2);
  out.commit();
  EXPECT_EQ(slurp(path), "AB" + large + "cd");
}

TEST(File, SaysWhenAnOutputCannotBeWritten) {
  TestDirectory directory;
  directory.write("file", "");
  EXPECT_EQ(codeOf([&] { OutputFile out(directory / "no/such/file"); }),
            "H0402");
  EXPECT_EQ(codeOf([&] { makeDirectories(directory / "file/sub"); }), "H0402");
  EXPECT_EQ(codeOf([&] { makeDirectories(directory / "file"); }), "H0402");
  ASSERT_EQ(symlink("nowhere", (directory / "link").c_str()), 0);
  try {
    makeDirectories(directory / "link");
    ADD_FAILURE() << "a link to nothing is a directory";
  } catch (const UserError &error) {
    EXPECT_NE(error.diagnostic.message.find("Not a directory"),
              std::string::npos)
        << error.diagnostic.message;
  }
  EXPECT_EQ(codeOf([&] { requireWritable("/proc/heddle"); }), "H0402");
  requireWritable(directory / "new/directory");
  EXPECT_TRUE(listDirectory(directory / "new/directory", "H0301").empty());
  if (geteuid() == 0)
    GTEST_SKIP() << "root may write everywhere";
  chmod((directory / "new").c_str(), 0555);
  EXPECT_EQ(codeOf([&] { requireWritable(directory / "new"); }), "H0402");
}

TEST(File, AFullDiskLeavesTheOldFile) {
  TestDirectory directory;
  std::string path = directory.write("out", "old");
  // A limit on the size of files stands for a full disk.
  rlimit before;
  getrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, SIG_IGN);
  rlimit small = {1 << 20, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  std::string data(4 << 20, 'x');
  Diagnostic diagnostic = diagnosticOf([&] {
    OutputFile out(path);
    out.write(data.data(), data.size());
    out.commit();
  });
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(diagnostic.exitCode(), 5);
  EXPECT_EQ(slurp(path), "old");
  EXPECT_EQ(listDirectory(directory.path(), "H0301").size(), 1u);
}

TEST(File, NamesTheFullDisk) {
  if (access("/dev/full", W_OK) != 0)
    GTEST_SKIP() << "no /dev/full";
  EXPECT_EQ(codeOf([&] {
              OutputFile out("/dev/full");
              out.write("x", 1);
              out.commit();
            }),
            "H0401");
}

TEST(File, WritesThroughLinks) {
  TestDirectory directory;
  std::string file = directory.write("there/file", "old");
  fs::create_symlink("there/file", directory / "near");
  fs::create_symlink(directory / "near", directory / "far");
  fs::create_symlink("there/new", directory / "dangling");
  for (const char *name : {"far", "dangling"}) {
    OutputFile out(directory / name);
    out.write(name, 3);
    // Beside what the link leads to, so that a rename can replace it.
    EXPECT_EQ(fs::path(out.temporaryPath()).parent_path(), directory / "there");
    out.commit();
    EXPECT_TRUE(fs::is_symlink(directory / name));
  }
  EXPECT_EQ(slurp(file), "far");
  EXPECT_EQ(slurp(directory / "there/new"), "dan");
  EXPECT_EQ(listDirectory(directory / "there", "H0301").size(), 2u);
  fs::create_symlink("round", directory / "round");
  EXPECT_EQ(codeOf([&] { OutputFile out(directory / "round"); }), "H0402");
}

/// What kind of file is at the path.
static mode_t kindOf(const std::string &path) {
  struct stat status = {};
  EXPECT_EQ(lstat(path.c_str(), &status), 0) << path;
  return status.st_mode & S_IFMT;
}

TEST(File, LeavesDevicesWhatTheyAre) {
  TestDirectory directory;
  std::string device = directory / "null", link = directory / "link";
  if (mknod(device.c_str(), S_IFCHR | 0666, makedev(1, 3)) != 0)
    GTEST_SKIP() << "no device can be made here";
  fs::create_symlink(device, link);
  for (const std::string &path : {device, link}) {
    {
      OutputFile abandoned(path);
      abandoned.write("x", 1);
    }
    OutputFile out(path);
    out.write("abc", 3);
    out.rewrite(0, "A", 1);
    out.commit();
    writeText(path, "text");
    requireWritableOutput(path);
  }
  EXPECT_EQ(kindOf(device), mode_t(S_IFCHR));
  EXPECT_EQ(kindOf(link), mode_t(S_IFLNK));
  // Nothing is made beside it, where only a device may be writable.
  EXPECT_EQ(listDirectory(directory.path(), "H0301").size(), 2u);
  EXPECT_EQ(codeOf([&] { fileOfRank(device, 1); }), "H0185");
  EXPECT_EQ(fileOfRank(device, 0), device);
  std::string disk = directory / "disk";
  ASSERT_EQ(mknod(disk.c_str(), S_IFBLK | 0666, makedev(1, 0)), 0);
  EXPECT_EQ(codeOf([&] { OutputFile out(disk); }), "H0402");
  EXPECT_EQ(kindOf(disk), mode_t(S_IFBLK));
}

TEST(File, WritesIntoPipes) {
  TestDirectory directory;
  std::string path = directory / "pipe", read;
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  std::thread reader([&] { read = slurp(path); });
  std::string large(1 << 20, 'x');
  {
    OutputFile out(path);
    // The beginning is known last, as of a token file.
    out.write("____", 4);
    out.write(large.data(), large.size());
    out.rewrite(0, "size", 4);
    out.commit();
  }
  reader.join();
  EXPECT_EQ(read, "size" + large);
  EXPECT_EQ(kindOf(path), mode_t(S_IFIFO));
}

TEST(File, SaysWhenNothingReadsAPipe) {
  TestDirectory directory;
  std::string path = directory / "pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(codeOf([&] { OutputFile out(path); }), "H0430");
  EXPECT_EQ(kindOf(path), mode_t(S_IFIFO));
}

TEST(File, WritesToOpenDescriptors) {
  TestDirectory directory;
  std::string path = directory / "shown";
  int descriptor = open(path.c_str(), O_WRONLY | O_CREAT, 0600);
  ASSERT_EQ(write(descriptor, "before ", 7), 7);
  std::string name = "/dev/fd/" + std::to_string(descriptor);
  struct stat before, after;
  ASSERT_EQ(fstat(descriptor, &before), 0);
  {
    OutputFile out(name);
    out.write("and", 3);
    out.commit();
  }
  ASSERT_EQ(write(descriptor, " after", 6), 6);
  ASSERT_EQ(stat(path.c_str(), &after), 0);
  EXPECT_EQ(before.st_ino, after.st_ino);
  EXPECT_EQ(slurp(path), "before and after");
  close(descriptor);
  EXPECT_EQ(codeOf([&] { OutputFile out(name); }), "H0402");
}

TEST(File, ShortensNamesOfTemporariesOnly) {
  TestDirectory directory;
  std::string longest(255, 'n');
  writeText(directory / longest, "x");
  EXPECT_EQ(slurp(directory / longest), "x");
  EXPECT_EQ(codeOf([&] { writeText(directory / (longest + "n"), "x"); }),
            "H0184");
  EXPECT_EQ(listDirectory(directory.path(), "H0301").size(), 1u);
}

TEST(File, RemovesWhatKilledProcessesLeft) {
  TestDirectory directory;
  std::string path = directory / "out";
  // A number that no process can have, this one's, and names that are no
  // temporaries of this file.
  directory.write("out.tmp-99999999", "half");
  directory.write("out.tmp-" + std::to_string(getpid()), "half");
  for (const char *name : {"out.tmp-backup", "out.tmp-", "other.tmp-99999999"})
    directory.write(name, "kept");
  // A live one: another process writes the same file.
  OutputFile other(path);
  other.write("other", 5);
  std::string live = fs::path(other.temporaryPath()).filename().string();
  writeText(path, "mine");
  EXPECT_EQ(listDirectory(directory.path(), "H0301"),
            (std::vector<std::string>{"other.tmp-99999999", "out", "out.tmp-",
                                      live, "out.tmp-backup"}));
  EXPECT_EQ(slurp(path), "mine");
  other.commit();
  EXPECT_EQ(slurp(path), "other");
}

TEST(File, RemovesTreesAndTemporariesAtTheEnd) {
  TestDirectory directory;
  directory.write("tree/a/b", "x");
  directory.write("tree/c", "x");
  fs::create_symlink(directory.path(), directory / "tree/link");
  removeTree((directory / "tree").c_str());
  EXPECT_TRUE(listDirectory(directory.path(), "H0301").empty());
  pid_t child = fork();
  if (child == 0) {
    OutputFile out(directory / "out");
    Temporary folder(directory / "folder-", Temporary::Kind::Directory, "");
    writeText(folder.path() + "/file", "x");
    removeTemporaries();
    _exit(listDirectory(directory.path(), "H0301").size());
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(File, SaysWhenAMappedFileBecomesShorter) {
  TestDirectory directory;
  std::string path = directory.write("data", std::string(100000, 'x'));
  std::string said = directory / "said";
  std::shared_ptr<const MappedFile> file = MappedFile::open(path, "H0310");
  std::vector<char> bytes(100);
  file->read(99900, 100, bytes.data());
  EXPECT_EQ(bytes[99], 'x');
  EXPECT_STREQ(mappedFileAt(file->data() + 99999), path.c_str());
  EXPECT_EQ(mappedFileAt(bytes.data()), nullptr);
  fs::resize_file(path, 10);
  EXPECT_EQ(codeOf([&] { file->read(99900, 100, bytes.data()); }), "H0432");
  pid_t child = fork();
  if (child == 0) {
    dup2(open(said.c_str(), O_WRONLY | O_CREAT, 0600), STDERR_FILENO);
    prepareProcess();
    OutputFile pending(directory / "pending");
    _exit(*static_cast<const volatile uint8_t *>(file->data() + 99999));
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 5);
  EXPECT_EQ(slurp(said).rfind("error[H0432]: " + path + " became shorter", 0),
            0u)
      << slurp(said);
  EXPECT_EQ(listDirectory(directory.path(), "H0301"),
            (std::vector<std::string>{"data", "said"}));
}

TEST(File, DoesNotWaitForTheWriterOfAPipe) {
  TestDirectory directory;
  std::string path = directory / "pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(codeOf([&] { MappedFile::open(path, "H0340"); }), "H0340");
}

TEST(File, SignalsLeaveNoTemporaries) {
  TestDirectory directory;
  std::string path = directory / "out";
  for (int number : {SIGINT, SIGTERM, SIGHUP, SIGKILL}) {
    pid_t child = fork();
    if (child == 0) {
      prepareProcess();
      OutputFile out(path);
      Temporary folder(directory / "folder-", Temporary::Kind::Directory, "");
      writeText(folder.path() + "/file", "x");
      raise(number);
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, number);
    EXPECT_EQ(listDirectory(directory.path(), "H0301").size(),
              number == SIGKILL ? 2u : 0u);
  }
  writeText(path, "x");
  std::vector<std::string> left = listDirectory(directory.path(), "H0301");
  ASSERT_EQ(left.size(), 2u);
  EXPECT_EQ(left[1], "out");
}
