//===- File.h - Mapped files, atomic outputs, paths -------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The functions by which all of Heddle reads and writes files, and helpers for
// paths. Inputs are mapped. Outputs have a temporary name until they are
// complete. Errors are UserErrors that name the file.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_FILE_H
#define HEDDLE_RUNTIME_IO_FILE_H

#include "heddle/runtime/io/Diagnostic.h"
#include "heddle/runtime/io/Temporary.h"
#include <memory>
#include <optional>

namespace heddle::io {

/// Registers a mapped file while the object lives. If somebody truncates the
/// file, an access to its lost pages ends the process. The signal handler that
/// io::prepareProcess installs then prints an error that names the file.
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
  int64_t bytes; ///< A multiple of the page size.
  std::string name;
};

/// A file that is mapped for reading; symbolic links are followed.
class MappedFile {
public:
  /// Throws `code` when the path cannot be opened or is no regular file.
  static std::shared_ptr<const MappedFile> open(const std::string &path,
                                                const std::string &code);
  MappedFile(const MappedFile &) = delete;
  MappedFile &operator=(const MappedFile &) = delete;
  ~MappedFile();
  const std::string &path() const { return filePath; }
  const uint8_t *data() const { return bytes; }
  int64_t size() const { return length; }
  /// Copies bytes of the file with read calls. If the file was truncated, this
  /// function throws H0432; an access to `data` would end the process instead.
  void read(int64_t offset, int64_t bytes, void *destination) const;
  /// Lets the system free the memory of pages that this process has read. Later
  /// accesses read these pages from the file again.
  void forget(int64_t offset, int64_t bytes) const;

private:
  MappedFile() = default;
  std::string filePath;
  const uint8_t *bytes = nullptr;
  int64_t length = 0;
  int descriptor = -1;
  std::optional<NamedMapping> mapping;
};

/// Returns the path of the file that is mapped at an address, or null. Safe in
/// a signal handler.
const char *mappedFileAt(const void *address);

/// An output that is not complete yet: a temporary file beside the file that
/// `path` leads to (symbolic links are followed). A device or pipe, such as
/// /dev/stdout, is never replaced: its temporary file is in the system's
/// temporary directory, and `commit` copies the bytes to the device. Without
/// `commit`, the destructor removes everything.
class PendingOutput {
public:
  /// `mode`: permissions of a new file, minus the umask. Waits until a named
  /// pipe has a reader, and throws H0430 when none comes.
  explicit PendingOutput(const std::string &path, mode_t mode = 0666);
  PendingOutput(const PendingOutput &) = delete;
  PendingOutput &operator=(const PendingOutput &) = delete;
  ~PendingOutput();
  /// The descriptor of the temporary file, which is open for reading and
  /// writing, and the file's path.
  int descriptor() const;
  const std::string &temporaryPath() const;
  /// Renames the temporary file to the output's path. If that path is a device
  /// file or a pipe, such as /dev/stdout, copies the temporary file's bytes to
  /// it instead. If not `isDurable`, the output may be empty after a crash of
  /// the machine, but no time is lost with fsync, which takes seconds on a busy
  /// disk.
  void commit(bool isDurable = true);

private:
  std::string given, target;
  int device =
      -1; ///< Descriptor of the device that gets the bytes; -1: a file.
  std::unique_ptr<Temporary> temporary;
};

/// A pending output that is written sequentially and hashed.
class OutputFile {
public:
  explicit OutputFile(const std::string &path, mode_t mode = 0666);
  ~OutputFile();
  void write(const void *data, int64_t bytes);
  /// Overwrites bytes that were written before. `digest` is invalid then.
  void rewrite(int64_t offset, const void *data, int64_t bytes);
  /// Passes buffered bytes to the system.
  void flush();
  /// The path of the temporary file, which `commit` renames.
  const std::string &temporaryPath() const { return output.temporaryPath(); }
  void commit(bool isDurable = true);
  int64_t size() const { return written; }
  /// Returns XXH3 (64 bit, hexadecimal) of the sequentially written bytes.
  std::string digest() const;

private:
  struct Hash;
  std::string path;
  PendingOutput output;
  int64_t written = 0;
  std::vector<uint8_t> buffer;
  std::unique_ptr<Hash> hash;
};

/// A file that several processes write at the same time, each in ranges of its
/// own.
class SharedFile {
public:
  /// Opens an existing file.
  explicit SharedFile(const std::string &path);
  SharedFile(const SharedFile &) = delete;
  SharedFile &operator=(const SharedFile &) = delete;
  ~SharedFile();
  void write(int64_t offset, const void *data, int64_t bytes);
  /// Syncs and closes the file.
  void commit();

private:
  std::string path;
  int descriptor = -1;
};

/// Throws the error of a failed write; `error` is an errno: H0184 for a name
/// that is too long, otherwise H0401 or H0402.
[[noreturn]] void failToWrite(const std::string &path, int error);
/// Whether the path leads to a device or pipe (symbolic links are followed),
/// into which outputs are written directly.
bool isDevice(const std::string &path);
/// Opens an output that is written line by line. It is truncated unless
/// `append` is set. Returns the descriptor.
int openForLines(const std::string &path, bool append);
/// Reads a whole text file; throws `code` when it cannot be read.
std::string readText(const std::string &path, const std::string &code);
/// Returns the path for the output of `rank` if rank 0 writes its own output to
/// `path`: `trace.rank3.json` for `trace.json`. Throws H0185 if `path` is not a
/// file.
std::string fileOfRank(const std::string &path, int64_t rank);
/// Replaces the file atomically.
void writeText(const std::string &path, const std::string &text,
               bool isDurable = true);
/// Creates a directory and its parents; throws H0402.
void makeDirectories(const std::string &path);
/// Creates the directory; throws H0402 when no file can be created in it.
void requireWritable(const std::string &directory);
/// Throws H0402 when the output file `path` cannot be created. Writes nothing
/// to a device.
void requireWritableOutput(const std::string &path);
/// A file that a flag names. An input may also be the directory of a model or
/// of a checkpoint.
struct NamedFile {
  std::string flag, path;
};
/// Throws H0160 when an output is also an input, which would be overwritten, or
/// when two outputs are one file. A device or pipe may be named twice.
void requireApart(const std::vector<NamedFile> &inputs,
                  const std::vector<NamedFile> &outputs);
/// Whether the path exists; false also when it is not accessible.
bool pathExists(const std::string &path);
/// Returns the sorted names in a directory; throws `code` when it cannot be
/// read.
std::vector<std::string> listDirectory(const std::string &path,
                                       const std::string &code);
/// Syncs the entries of a directory to the disk.
void syncDirectory(const std::string &path);
/// Size and XXH3 (64 bit, hexadecimal) of a file.
struct FileDigest {
  int64_t bytes = 0;
  std::string digest;
};
/// Reads a file once, block by block; throws `code` when it cannot be read.
FileDigest digestFile(const std::string &path, const std::string &code);
/// Returns XXH3 (64 bit) of a buffer, as a number and in hexadecimal.
uint64_t hashBytes(const void *data, int64_t bytes);
std::string hexDigest(uint64_t hash);

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_FILE_H
