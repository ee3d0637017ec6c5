//===- ObjectCache.cpp - The cache of compiled kernels --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ObjectCache.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/xxhash.h"

using namespace llvm;

namespace heddle::codegen {

namespace {
/// The size of a file's header. The header is the checksum of the code that
/// follows it.
constexpr size_t headerSize = 8;

/// Identifies this build of the compiler by the size and the modification time
/// of its executable, because another build may generate other code.
std::string identifyCompiler() {
  sys::fs::file_status status;
  if (sys::fs::status("/proc/self/exe", status))
    return "unknown";
  return utohexstr(status.getSize()) + "-" +
         utohexstr(status.getLastModificationTime().time_since_epoch().count());
}
} // namespace

ObjectCache::ObjectCache(StringRef path)
    : directory(path == "off" ? "" : path.str()), compiler(identifyCompiler()) {
  if (!directory.empty() && sys::fs::create_directories(directory))
    directory.clear();
}

std::string ObjectCache::pathOf(StringRef hash) const {
  SmallString<256> path(directory);
  sys::path::append(path, hash + "-" + compiler + ".o");
  return path.str().str();
}

std::optional<std::string> ObjectCache::find(StringRef hash) const {
  if (directory.empty())
    return std::nullopt;
  auto file = MemoryBuffer::getFile(pathOf(hash), /*IsText=*/false,
                                    /*RequiresNullTerminator=*/false);
  if (!file || (*file)->getBufferSize() < headerSize)
    return std::nullopt;
  StringRef bytes = (*file)->getBuffer();
  StringRef code = bytes.drop_front(headerSize);
  if (support::endian::read64le(bytes.data()) != xxh3_64bits(code))
    return std::nullopt;
  return code.str();
}

void ObjectCache::add(StringRef hash, StringRef code) const {
  if (directory.empty())
    return;
  char header[headerSize];
  support::endian::write64le(header, xxh3_64bits(code));
  // Write to a temporary file and rename it, because other processes may read
  // the file at the same time.
  Expected<sys::fs::TempFile> file =
      sys::fs::TempFile::create(pathOf(hash) + ".%%%%%%");
  if (!file) {
    consumeError(file.takeError());
    return;
  }
  raw_fd_ostream stream(file->FD, /*shouldClose=*/false);
  stream << StringRef(header, headerSize) << code;
  stream.flush();
  bool written = !stream.has_error();
  stream.clear_error();
  consumeError(written ? file->keep(pathOf(hash)) : file->discard());
}

} // namespace heddle::codegen
