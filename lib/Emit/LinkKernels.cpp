//===- LinkKernels.cpp - Links objects to a shared object -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Emit/LinkKernels.h"
#include "lld/Common/Driver.h"
#include "llvm/BinaryFormat/Magic.h"
#include "llvm/Object/ArchiveWriter.h"
#include "llvm/Support/Errno.h"
#include "llvm/Support/MemoryBuffer.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

using namespace llvm;

LLD_HAS_DRIVER(elf)

namespace heddle::emit {

namespace {
/// A file descriptor of this process, which is closed with the object. The
/// linker opens the file by its name under /proc/self/fd.
class Descriptor {
public:
  explicit Descriptor(int number) : number(number) {}
  Descriptor(Descriptor &&other) : number(std::exchange(other.number, -1)) {}
  ~Descriptor() { close(); }
  void close() {
    if (number >= 0)
      ::close(std::exchange(number, -1));
  }
  int get() const { return number; }
  std::string name() const { return "/proc/self/fd/" + std::to_string(number); }

private:
  int number;
};

Error systemError(const char *what) {
  std::error_code error(errno, std::generic_category());
  return createStringError(error, Twine(what) + ": " + error.message());
}

/// Writes the objects as one archive to a file in memory. This needs neither a
/// disk, which may be full or read-only, nor an open file for each object.
Expected<Descriptor> inMemory(ArrayRef<std::string> objects) {
  std::vector<std::string> names;
  for (size_t index = 0; index < objects.size(); ++index)
    names.push_back(std::to_string(index) + ".o");
  std::vector<NewArchiveMember> members;
  for (auto [object, name] : zip(objects, names)) {
    // An archive member that is no object file is refused here, because the
    // linker would end this process.
    if (identify_magic(object) != file_magic::elf_relocatable)
      return createStringError(inconvertibleErrorCode(),
                               name + " is no relocatable object");
    members.emplace_back(MemoryBufferRef(object, name));
  }
  auto archive = writeArchiveToBuffer(members, SymtabWritingMode::NoSymtab,
                                      object::Archive::K_GNU,
                                      /*Deterministic=*/true, /*Thin=*/false);
  if (!archive)
    return archive.takeError();
  Descriptor file(memfd_create("kernels.a", MFD_CLOEXEC));
  if (file.get() < 0)
    return systemError("no file in memory");
  StringRef rest = (*archive)->getBuffer();
  while (!rest.empty()) {
    ssize_t written = sys::RetryAfterSignal(-1, ::write, file.get(),
                                            rest.data(), rest.size());
    if (written < 0)
      return systemError("no memory for the objects");
    rest = rest.drop_front(written);
  }
  return file;
}

/// Reads everything that is written to a pipe.
std::string readAll(int descriptor) {
  std::string bytes;
  std::vector<char> part(1 << 16);
  ssize_t count;
  while ((count = sys::RetryAfterSignal(-1, ::read, descriptor, part.data(),
                                        part.size())) > 0)
    bytes.append(part.data(), count);
  return bytes;
}
} // namespace

Expected<std::string> linkKernels(ArrayRef<std::string> objects) {
  Expected<Descriptor> input = inMemory(objects);
  if (!input)
    return input.takeError();
  // Let the linker write to a pipe, which the thread `reader` reads. A pipe
  // gets sequential writes; a regular file would be mapped into memory.
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return systemError("no pipe");
  Descriptor from(ends[0]), to(ends[1]);
  std::string image, inputName = input->name(), outputName = to.name();
  std::thread reader([&] { image = readAll(from.get()); });
  // -Bsymbolic binds calls between kernels directly. No further option is
  // given, so that the linker reads no file but the archive.
  const char *arguments[] = {
      "ld.lld",           "-shared",         "-Bsymbolic",
      "--strip-all",      "--build-id=none", "-o",
      outputName.c_str(), "--whole-archive", inputName.c_str()};
  std::string messages;
  raw_string_ostream stream(messages);
  lld::Result result =
      lld::lldMain(arguments, stream, stream, {{lld::Gnu, &lld::elf::link}});
  to.close();
  reader.join();
  if (result.retCode != 0)
    return createStringError(inconvertibleErrorCode(),
                             StringRef(messages).trim());
  return image;
}

} // namespace heddle::emit
