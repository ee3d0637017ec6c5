//===- FileTest.cpp - Tests of reading and writing files --------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "IoTestSupport.h"
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
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
  int descriptor = open("/dev/full", O_WRONLY);
  if (descriptor < 0)
    GTEST_SKIP() << "no /dev/full";
  close(descriptor);
  TestDirectory directory;
  // The temporary name is known: a link there sends the bytes to /dev/full.
  std::string path = directory / "out";
  fs::create_symlink("/dev/full", path + ".tmp-" + std::to_string(getpid()));
  EXPECT_EQ(codeOf([&] {
              OutputFile out(path);
              out.write("x", 1);
              out.commit();
            }),
            "H0401");
  EXPECT_FALSE(pathExists(path));
}
