//===- File.h - Files mapped, and files written whole -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reading by mapping, and writing such that a file is there whole or not at
// all.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_FILE_H
#define HEDDLE_RUNTIME_IO_FILE_H

#include "heddle/runtime/io/Diagnostic.h"
#include "heddle/runtime/io/Temporary.h"
#include <memory>
#include <optional>

namespace heddle::io {

/// Says while it is there that a file's pages are mapped: if they are lost, the
/// process ends with an error that names the file (io::prepareProcess).
class NamedMapping {
public:
  NamedMapping(const void *begin, int64_t bytes, std::string path);
  NamedMapping(const NamedMapping &) = delete;
  NamedMapping &operator=(const NamedMapping &) = delete;
  ~NamedMapping();
  const char *path() const { return name.c_str(); }
  bool holds(const void *address) const;

private:
  const char *begin;
  int64_t bytes; ///< Of whole pages.
  std::string name;
};

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
  /// Copies bytes by reading the file. Throws H0432 when they are no longer
  /// there, where an access to `data` would end the process.
  void read(int64_t offset, int64_t bytes, void *destination) const;
  /// The bytes have been read: their pages no longer count as memory of
  /// this process. They may still be looked at.
  void forget(int64_t offset, int64_t bytes) const;

private:
  MappedFile() = default;
  std::string filePath;
  const uint8_t *bytes = nullptr;
  int64_t length = 0;
  int descriptor = -1;
  std::optional<NamedMapping> mapping;
};

/// The path of the file that is mapped at an address, or null; may be called in
/// the handler of a signal.
const char *mappedFileAt(const void *address);

/// An output that is not complete yet: a file under a temporary name beside the
/// one that `path` leads to, symbolic links followed. What is there and no file
/// (a device, a pipe, /dev/stdout) is never replaced: the temporary is where
/// temporaries are, and its bytes are written to the device in the end.
/// Destroyed without `commit`, it leaves nothing behind.
class PendingOutput {
public:
  /// `mode`: the permissions of a new file, less the umask. Waits for the
  /// reader of a named pipe, and throws H0430 when none comes.
  explicit PendingOutput(const std::string &path, mode_t mode = 0666);
  PendingOutput(const PendingOutput &) = delete;
  PendingOutput &operator=(const PendingOutput &) = delete;
  ~PendingOutput();
  /// The temporary, open for reading and writing, and its path.
  int descriptor() const;
  const std::string &temporaryPath() const;
  /// Renames, or writes to the device. Unless it is durable, a crash of the
  /// machine may leave the file empty; syncing a busy disk can take seconds.
  void commit(bool isDurable = true);

private:
  std::string given, target;
  int device = -1; ///< Where the bytes go, unless they become a file.
  std::unique_ptr<Temporary> temporary;
};

/// A pending output that is written in sequence, and hashed.
class OutputFile {
public:
  explicit OutputFile(const std::string &path, mode_t mode = 0666);
  ~OutputFile();
  void write(const void *data, int64_t bytes);
  /// Overwrites bytes that were written before; `digest` then no longer holds.
  void rewrite(int64_t offset, const void *data, int64_t bytes);
  /// Hands to the system what was written so far.
  void flush();
  /// The file until `commit`.
  const std::string &temporaryPath() const { return output.temporaryPath(); }
  void commit(bool isDurable = true);
  int64_t size() const { return written; }
  /// XXH3 (64 bit, hexadecimal) of what was written in sequence.
  std::string digest() const;

private:
  struct Hash;
  std::string path;
  PendingOutput output;
  int64_t written = 0;
  std::vector<uint8_t> buffer;
  std::unique_ptr<Hash> hash;
};

/// A file whose bytes several processes write at the same time, each its own.
class SharedFile {
public:
  /// Opens a file that is there.
  explicit SharedFile(const std::string &path);
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

/// Throws for what could not be written, for the reason `error` (an errno):
/// H0401, H0402, or H0184 when a name is too long.
[[noreturn]] void failToWrite(const std::string &path, int error);
/// Whether something is at the path, symbolic links followed, that outputs are
/// written to as it is, since it is no file.
bool isDevice(const std::string &path);
/// Opens an output to which is written line by line, at its end or, unless
/// `append` is set, emptied. The descriptor.
int openForLines(const std::string &path, bool append);
/// The whole file as text; throws `code` when it cannot be read.
std::string readText(const std::string &path, const std::string &code);
/// What a rank writes where rank 0 writes `path`: `trace.json` of rank 3 is
/// `trace.rank3.json`. Throws H0185 when there is no file that it can be
/// beside.
std::string fileOfRank(const std::string &path, int64_t rank);
/// Replaces the file atomically.
void writeText(const std::string &path, const std::string &text,
               bool isDurable = true);
/// Makes a directory and its parents; throws H0402.
void makeDirectories(const std::string &path);
/// Throws H0402 when no file can be made in the directory, which is made first.
void requireWritable(const std::string &directory);
/// The same for an output; nothing is written to a device.
void requireWritableOutput(const std::string &path);
/// A file that a flag names; for an input also the directory of a model or of a
/// checkpoint.
struct NamedFile {
  std::string flag, path;
};
/// Throws H0160 when an output is one of the inputs, which would be lost, or
/// two outputs are one file. What is no regular file may be named twice.
void requireApart(const std::vector<NamedFile> &inputs,
                  const std::vector<NamedFile> &outputs);
/// Whether there is something at the path; false also when it cannot be seen.
bool pathExists(const std::string &path);
/// The names in a directory, sorted; throws `code` when it cannot be read.
std::vector<std::string> listDirectory(const std::string &path,
                                       const std::string &code);
/// Syncs a directory's entries to the disk.
void syncDirectory(const std::string &path);
/// Size and XXH3 (64 bit, hexadecimal) of a file.
struct FileDigest {
  int64_t bytes = 0;
  std::string digest;
};
/// Reads a file once, piece by piece; throws `code` when it cannot.
FileDigest digestFile(const std::string &path, const std::string &code);
/// XXH3 (64 bit) of a buffer, and its hexadecimal form.
uint64_t hashBytes(const void *data, int64_t bytes);
std::string hexDigest(uint64_t hash);

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_FILE_H
