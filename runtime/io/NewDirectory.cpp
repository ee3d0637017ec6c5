//===- NewDirectory.cpp - Fill a new directory atomically -------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "NewDirectory.h"
#include "CheckpointFormat.h"
#include "heddle/runtime/io/File.h"
#include <algorithm>
#include <cerrno>
#include <cstdio>

using namespace heddle;
using namespace heddle::io;

static bool isTemporaryName(const std::string &name) {
  return name.rfind(checkpoint::temporaryPrefix, 0) == 0;
}

NewDirectory::NewDirectory(const std::string &path) : path(path) {
  if (pathExists(path)) {
    std::vector<std::string> names = listDirectory(path, "H0181");
    // If the directory has other files as well, another process may be writing
    // it: then remove nothing.
    if (std::all_of(names.begin(), names.end(), isTemporaryName))
      sweepTemporaries(path, isTemporaryName);
    if (!listDirectory(path, "H0181").empty())
      fail("H0181", path + " is there already, and not empty",
           "name a directory that does not exist yet");
  }
  makeDirectories(path);
  temporary.emplace(path + "/" + checkpoint::temporaryPrefix + "new-",
                    Temporary::Kind::Directory, path);
}

void NewDirectory::commit() {
  syncDirectory(temporaryPath());
  // Rename in the order of names: the index of a model then comes after the
  // files that it names.
  for (const std::string &name : listDirectory(temporaryPath(), "H0402"))
    if (::rename((temporaryPath() + "/" + name).c_str(),
                 (path + "/" + name).c_str()) != 0)
      failToWrite(path, errno);
  temporary.reset();
  syncDirectory(path);
}
