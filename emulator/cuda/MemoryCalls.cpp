//===- MemoryCalls.cpp - Driver calls: memory, copies, fills --------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements the driver's functions about memory: allocation, copies and fills.
//
//===----------------------------------------------------------------------===//

#include "emulator/cuda/Context.h"
#include "heddle/emulator/cuda/Calls.h"

#include <algorithm>
#include <cstring>

using namespace heddle;
using namespace heddle::rt;
using namespace heddle::rt::cuda;

static Result allocate(DevicePointer *address, size_t bytes, bool onHost,
                       const char *call = __builtin_FUNCTION()) {
  auto work = [&](ContextData &context) {
    if (bytes == 0)
      return InvalidValue;
    *address = context.memory.allocate(bytes, onHost);
    if (!*address)
      return OutOfMemory;
    if (onHost)
      context.pinnedBytes += int64_t(bytes);
    else
      context.gpuBytes =
          std::max(context.gpuBytes, int64_t(context.memory.usedBytes()));
    return Success;
  };
  return inContext(work, call);
}

/// Frees memory. First waits for all commands that may use the memory.
static Result release(DevicePointer address, bool onHost,
                      const char *call = __builtin_FUNCTION()) {
  auto work = [&](ContextData &context) {
    context.timeline.finish();
    return address == 0 || context.memory.release(address, onHost)
               ? Success
               : InvalidValue;
  };
  return inContext(work, call);
}

Result cuda::cuMemAlloc_v2(DevicePointer *address, size_t bytes) {
  return allocate(address, bytes, /*onHost=*/false);
}

Result cuda::cuMemFree_v2(DevicePointer address) {
  return release(address, /*onHost=*/false);
}

Result cuda::cuMemHostAlloc(void **place, size_t bytes, unsigned flags) {
  if (flags & ~7u)
    return InvalidValue;
  DevicePointer address = 0;
  Result result = allocate(&address, bytes, /*onHost=*/true);
  *place = reinterpret_cast<void *>(address);
  return result;
}

Result cuda::cuMemFreeHost(void *place) {
  return release(reinterpret_cast<DevicePointer>(place), /*onHost=*/true);
}

Result cuda::cuMemGetInfo_v2(size_t *free, size_t *total) {
  return inContext([&](ContextData &context) {
    *free = context.memory.free();
    *total = context.memory.total();
    return Success;
  });
}

Result cuda::cuPointerGetAttribute(void *data, PointerAttribute attribute,
                                   DevicePointer pointer) {
  return inContext([&](ContextData &context) {
    if (attribute != PointerMemoryType || !context.memory.isKnown(pointer))
      return InvalidValue;
    unsigned type =
        context.memory.isOnGpu(pointer) ? DeviceMemoryType : HostMemory;
    std::memcpy(data, &type, sizeof type);
    return Success;
  });
}

//===----------------------------------------------------------------------===//
// Copies and fills
//===----------------------------------------------------------------------===//

namespace {
enum class CopySide { Gpu, Host, Either };
} // namespace

/// Returns the bytes of the source or target of a copy, or null if the memory
/// is of the wrong kind. Any address in host memory that the driver did not
/// allocate is accepted.
static char *bytesOf(const ContextData &context, DevicePointer address,
                     size_t bytes, CopySide side) {
  bool isKnown = context.memory.isKnown(address);
  bool isOnGpu = context.memory.isOnGpu(address);
  if ((side == CopySide::Gpu && !isKnown) ||
      (side == CopySide::Host && isOnGpu))
    return nullptr;
  return isKnown ? context.memory.at(address, bytes)
                 : reinterpret_cast<char *>(address);
}

static Result copyBetween(DevicePointer target, CopySide targetSide,
                          DevicePointer source, CopySide sourceSide,
                          size_t bytes, StreamHandle handle,
                          const char *call = __builtin_FUNCTION()) {
  auto work = [&](ContextData &context, StreamData &stream) {
    if (bytes == 0)
      return Success;
    char *to = bytesOf(context, target, bytes, targetSide);
    const char *from = bytesOf(context, source, bytes, sourceSide);
    if (!to || !from)
      return InvalidValue;
    Command command;
    command.name = "a copy of " + std::to_string(bytes) + " bytes";
    command.memory.reads = {{source, source + bytes}};
    command.memory.writes = {{target, target + bytes}};
    bool toGpu = context.memory.isOnGpu(target);
    bool fromGpu = context.memory.isOnGpu(source);
    command.run = [=, &context](Command &) {
      std::memmove(to, from, bytes);
      context.copiedIn += toGpu && !fromGpu ? int64_t(bytes) : 0;
      context.copiedOut += fromGpu && !toGpu ? int64_t(bytes) : 0;
    };
    context.submit(stream, std::move(command));
    return Success;
  };
  return inStream(handle, work, call);
}

static DevicePointer bitsOf(const void *place) {
  return reinterpret_cast<DevicePointer>(place);
}

Result cuda::cuMemcpyHtoDAsync_v2(DevicePointer target, const void *source,
                                  size_t bytes, StreamHandle stream) {
  return copyBetween(target, CopySide::Gpu, bitsOf(source), CopySide::Host,
                     bytes, stream);
}

Result cuda::cuMemcpyDtoHAsync_v2(void *target, DevicePointer source,
                                  size_t bytes, StreamHandle stream) {
  return copyBetween(bitsOf(target), CopySide::Host, source, CopySide::Gpu,
                     bytes, stream);
}

Result cuda::cuMemcpyDtoDAsync_v2(DevicePointer target, DevicePointer source,
                                  size_t bytes, StreamHandle stream) {
  return copyBetween(target, CopySide::Gpu, source, CopySide::Gpu, bytes,
                     stream);
}

Result cuda::cuMemcpyAsync(DevicePointer target, DevicePointer source,
                           size_t bytes, StreamHandle stream) {
  return copyBetween(target, CopySide::Either, source, CopySide::Either, bytes,
                     stream);
}

Result cuda::cuMemsetD8Async(DevicePointer target, unsigned char value,
                             size_t bytes, StreamHandle handle) {
  return inStream(handle, [&](ContextData &context, StreamData &stream) {
    if (bytes == 0)
      return Success;
    char *to = bytesOf(context, target, bytes, CopySide::Gpu);
    if (!to)
      return InvalidValue;
    Command command;
    command.name = "a fill of " + std::to_string(bytes) + " bytes";
    command.memory.writes = {{target, target + bytes}};
    command.run = [=](Command &) { std::memset(to, value, bytes); };
    context.submit(stream, std::move(command));
    return Success;
  });
}
