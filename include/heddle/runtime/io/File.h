//===- File.h - Files mapped, and files written whole -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reading by mapping, and writing such that a file is there whole or not at
// all. Failures to write are H0401 (no space) and H0402 (anything else).
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_FILE_H
#define HEDDLE_RUNTIME_IO_FILE_H

#include "heddle/runtime/io/Diagnostic.h"
#include <memory>

namespace heddle::io {

/// A file mapped for reading; symbolic links are followed.
class MappedFile {
public:
  /// Throws `code` when the file cannot be opened or is no regular file.
  static std::shared_ptr<const MappedFile> open(const std::string &path,
                                                const std::string &code);
  MappedFile(const MappedFile &) = delete;
  MappedFile &operator=(const MappedFile &) = delete;
  ~MappedFile();
  const std::string &path() const { return filePath; }
  const uint8_t *data() const { return bytes; }
  int64_t size() const { return length; }

private:
  MappedFile() = default;
  std::string filePath;
  const uint8_t *bytes = nullptr;
  int64_t length = 0;
};

/// A file under a temporary name beside `path`, until `commit` gives it its
/// own. Destroyed without `commit`, it leaves nothing behind.
class OutputFile {
public:
  explicit OutputFile(std::string path);
  OutputFile(const OutputFile &) = delete;
  OutputFile &operator=(const OutputFile &) = delete;
  ~OutputFile();
  void write(const void *data, int64_t bytes);
  /// Overwrites bytes that were written before; `digest` then no longer holds.
  void rewrite(int64_t offset, const void *data, int64_t bytes);
  /// Flushes, syncs and renames.
  void commit();
  int64_t size() const { return written; }
  /// XXH3 (64 bit, hexadecimal) of what was written in sequence.
  std::string digest() const;

private:
  void flush();
  struct Hash;
  std::string path, temporary;
  int descriptor = -1;
  int64_t written = 0;
  std::vector<uint8_t> buffer;
  std::unique_ptr<Hash> hash;
};

/// A file whose bytes several processes write at the same time, each its own.
class SharedFile {
public:
  /// With `bytes`, makes a file of just so many; otherwise opens one.
  explicit SharedFile(const std::string &path, int64_t bytes = -1);
  SharedFile(const SharedFile &) = delete;
  SharedFile &operator=(const SharedFile &) = delete;
  ~SharedFile();
  void write(int64_t offset, const void *data, int64_t bytes);
  /// Syncs and closes.
  void commit();

private:
  std::string path;
  int descriptor = -1;
};

/// The whole file as text; throws `code` when it cannot be read.
std::string readText(const std::string &path, const std::string &code);
/// What a rank writes where rank 0 writes `path`: `trace.json` of rank 3 is
/// `trace.rank3.json`.
std::string fileOfRank(const std::string &path, int64_t rank);
/// Replaces the file atomically.
void writeText(const std::string &path, const std::string &text);
/// Gives a file that is complete on the disk another name in its directory.
void renameFile(const std::string &from, const std::string &to);
/// Makes a directory and its parents; throws H0402.
void makeDirectories(const std::string &path);
/// Throws H0402 when no file can be made in the directory, which is made first.
void requireWritable(const std::string &directory);
/// Whether there is something at the path; false also when it cannot be seen.
bool pathExists(const std::string &path);
/// The names in a directory, sorted; throws `code` when it cannot be read.
std::vector<std::string> listDirectory(const std::string &path,
                                       const std::string &code);
/// Syncs a directory's entries to the disk.
void syncDirectory(const std::string &path);
/// XXH3 (64 bit) of a buffer, and its hexadecimal form.
uint64_t hashBytes(const void *data, int64_t bytes);
std::string hexDigest(uint64_t hash);

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_FILE_H
