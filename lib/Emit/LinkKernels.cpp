//===- LinkKernels.cpp - Objects to one shared object ---------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Emit/LinkKernels.h"
#include "lld/Common/Driver.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

using namespace llvm;

LLD_HAS_DRIVER(elf)

namespace heddle::emit {

namespace {
/// A directory that goes away with all its files.
class TemporaryDirectory {
public:
  static Expected<TemporaryDirectory> create() {
    TemporaryDirectory directory;
    if (std::error_code error =
            sys::fs::createUniqueDirectory("heddle-link", directory.path))
      return createStringError(error, "no directory for temporary files: " +
                                          error.message());
    return directory;
  }
  TemporaryDirectory(TemporaryDirectory &&other) : path(other.path) {
    other.path.clear();
  }
  ~TemporaryDirectory() {
    if (!path.empty())
      sys::fs::remove_directories(path);
  }
  std::string file(const Twine &name) const {
    SmallString<128> full(path);
    sys::path::append(full, name);
    return full.str().str();
  }

private:
  TemporaryDirectory() = default;
  SmallString<128> path;
};

Error writeFile(const std::string &path, StringRef bytes) {
  std::error_code error;
  raw_fd_ostream stream(path, error);
  if (!error) {
    stream << bytes;
    stream.close();
    error = stream.error();
    stream.clear_error();
  }
  if (error)
    return createStringError(error, path + ": " + error.message());
  return Error::success();
}
} // namespace

Expected<std::string> linkKernels(ArrayRef<std::string> objects) {
  Expected<TemporaryDirectory> directory = TemporaryDirectory::create();
  if (!directory)
    return directory.takeError();
  std::string output = directory->file("kernels.so");
  std::vector<std::string> inputs;
  for (auto [index, object] : enumerate(objects)) {
    inputs.push_back(directory->file(Twine(index) + ".o"));
    if (Error error = writeFile(inputs.back(), object))
      return error;
  }
  // Calls among kernels are direct; nothing of the file system gets in.
  std::vector<const char *> arguments = {
      "ld.lld",          "-shared", "-Bsymbolic",  "--strip-all",
      "--build-id=none", "-o",      output.c_str()};
  for (const std::string &input : inputs)
    arguments.push_back(input.c_str());
  std::string messages;
  raw_string_ostream stream(messages);
  lld::Result result =
      lld::lldMain(arguments, stream, stream, {{lld::Gnu, &lld::elf::link}});
  if (result.retCode != 0)
    return createStringError(inconvertibleErrorCode(),
                             StringRef(messages).trim());
  auto image = MemoryBuffer::getFile(output, /*IsText=*/false,
                                     /*RequiresNullTerminator=*/false);
  if (!image)
    return createStringError(image.getError(), "the linker wrote nothing");
  return (*image)->getBuffer().str();
}

} // namespace heddle::emit
