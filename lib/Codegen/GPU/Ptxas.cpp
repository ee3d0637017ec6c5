//===- Ptxas.cpp - Assembling PTX where CUDA is installed -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs ptxas in a separate process, with temporary files.
//
//===----------------------------------------------------------------------===//

#include "Ptxas.h"
#include "heddle/Codegen/GPU/Kernels.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/Regex.h"

using namespace llvm;

namespace heddle::gpu {

std::string findPtxas() {
  if (ErrorOr<std::string> path = sys::findProgramByName("ptxas"))
    return *path;
  if (ErrorOr<std::string> path =
          sys::findProgramByName("ptxas", {"/usr/local/cuda/bin"}))
    return *path;
  return {};
}

/// Parses the number that the first group of the regular expression `pattern`
/// matches. Returns 0 if nothing matches.
static int64_t numberIn(StringRef text, StringRef pattern) {
  SmallVector<StringRef> groups;
  int64_t number = 0;
  if (Regex(pattern).match(text, &groups))
    groups[1].getAsInteger(10, number);
  return number;
}

/// Parses the output of `ptxas -v`: the resources that each function uses.
static StringMap<Resources> readResources(StringRef text) {
  StringMap<Resources> all;
  constexpr StringRef heading = "Compiling entry function '";
  for (size_t at; (at = text.find(heading)) != StringRef::npos;) {
    text = text.drop_front(at + heading.size());
    StringRef own = text.take_front(text.find(heading));
    all[own.take_front(own.find('\''))] = {
        numberIn(own, "Used ([0-9]+) registers"),
        numberIn(own, "([0-9]+) bytes smem"),
        numberIn(own, "([0-9]+) bytes stack frame")};
  }
  return all;
}

static Expected<std::string> createTemporary(StringRef suffix) {
  SmallString<128> path;
  if (std::error_code error =
          sys::fs::createTemporaryFile("heddle", suffix, path))
    return createStringError(error, "no temporary file can be made");
  return path.str().str();
}

Expected<Assembly> assemblePtx(StringRef ptxas, StringRef ptx, StringRef chip) {
  Expected<std::string> input = createTemporary("ptx");
  if (!input)
    return input.takeError();
  FileRemover removeInput(*input);
  Expected<std::string> log = createTemporary("log");
  if (!log)
    return log.takeError();
  FileRemover removeLog(*log);
  Expected<std::string> output = createTemporary("cubin");
  if (!output)
    return output.takeError();
  FileRemover removeOutput(*output);
  std::error_code error;
  raw_fd_ostream stream(*input, error);
  stream << ptx;
  stream.close();
  if (!error)
    error = stream.error();
  stream.clear_error();
  if (error)
    return createStringError(error, "cannot write " + *input);

  std::string architecture = ("-arch=" + chip).str();
  StringRef arguments[] = {ptxas, architecture, "-v", "-o", *output, *input};
  std::optional<StringRef> redirects[] = {StringRef(), StringRef(*log),
                                          StringRef(*log)};
  std::string message;
  int status =
      sys::ExecuteAndWait(ptxas, arguments, std::nullopt, redirects,
                          /*SecondsToWait=*/0, /*MemoryLimit=*/0, &message);
  auto printed = MemoryBuffer::getFile(*log);
  StringRef text = printed ? (*printed)->getBuffer() : StringRef(message);
  if (status != 0)
    return createStringError(inconvertibleErrorCode(), (text + message).str());
  auto cubin = MemoryBuffer::getFile(*output, /*IsText=*/false,
                                     /*RequiresNullTerminator=*/false);
  if (!cubin)
    return createStringError(cubin.getError(), "cannot read " + *output);
  return Assembly{readResources(text), (*cubin)->getBuffer().str()};
}

std::string whyPtxasFails(StringRef path, StringRef chip) {
  std::string text =
      formatv(".version {0}.{1}\n.target {2}\n"
              ".address_size 64\n.visible .entry k() {{ ret; }\n",
              ptxVersion / 10, ptxVersion % 10, chip);
  Expected<Assembly> assembly = assemblePtx(path, text, chip);
  if (assembly)
    return {};
  std::string printed = toString(assembly.takeError());
  StringRef first = StringRef(printed).trim().split('\n').first;
  return first.empty() ? "it says nothing" : first.str();
}

std::string cubinNameOf(StringRef object) { return (object + "_cubin").str(); }

} // namespace heddle::gpu
