//===- ObjectCache.cpp - Compiled kernels on disk -------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ObjectCache.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/xxhash.h"

using namespace llvm;

namespace heddle::cpu {

namespace {
/// What stands before the object in a file: scratch bytes, and a checksum of
/// them and the object.
constexpr size_t headerSize = 16;

uint64_t checksum(StringRef object, uint64_t scratchBytes) {
  uint64_t hash = xxh3_64bits(object);
  return hash ^ (scratchBytes * 0x9E3779B97F4A7C15ull);
}

/// Size and time of the running program: another build may make other code.
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

std::string ObjectCache::pathOf(const KernelSource &source) const {
  SmallString<256> path(directory);
  sys::path::append(path, source.hash + "-" + compiler + ".o");
  return path.str().str();
}

std::optional<CompiledKernel>
ObjectCache::find(const KernelSource &source) const {
  if (directory.empty())
    return std::nullopt;
  auto file = MemoryBuffer::getFile(pathOf(source), /*IsText=*/false,
                                    /*RequiresNullTerminator=*/false);
  if (!file || (*file)->getBufferSize() < headerSize)
    return std::nullopt;
  StringRef bytes = (*file)->getBuffer();
  uint64_t scratch = support::endian::read64le(bytes.data());
  uint64_t sum = support::endian::read64le(bytes.data() + 8);
  StringRef object = bytes.drop_front(headerSize);
  if (sum != checksum(object, scratch))
    return std::nullopt;
  return CompiledKernel{source.symbol, static_cast<int64_t>(scratch),
                        object.str()};
}

void ObjectCache::add(const KernelSource &source,
                      const CompiledKernel &kernel) const {
  if (directory.empty())
    return;
  char header[headerSize];
  auto scratch = static_cast<uint64_t>(kernel.scratchBytes);
  support::endian::write64le(header, scratch);
  support::endian::write64le(header + 8, checksum(kernel.object, scratch));
  // Complete or not at all: others may be reading.
  Expected<sys::fs::TempFile> file =
      sys::fs::TempFile::create(pathOf(source) + ".%%%%%%");
  if (!file) {
    consumeError(file.takeError());
    return;
  }
  raw_fd_ostream stream(file->FD, /*shouldClose=*/false);
  stream << StringRef(header, headerSize) << kernel.object;
  stream.flush();
  bool written = !stream.has_error();
  stream.clear_error();
  consumeError(written ? file->keep(pathOf(source)) : file->discard());
}

} // namespace heddle::cpu
