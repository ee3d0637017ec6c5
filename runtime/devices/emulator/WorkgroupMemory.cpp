//===- WorkgroupMemory.cpp - Workgroup memory that sees races -------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/devices/emulator/Block.h"

namespace heddle::rt::emulator {

namespace {
constexpr int64_t alignment = 128;
/// In place of a reader's number when there were several.
constexpr int32_t several = -1;
} // namespace

WorkgroupMemory::WorkgroupMemory(int64_t size)
    : bytes(size + alignment), traces(size) {
  auto address = reinterpret_cast<uintptr_t>(bytes.data());
  base = (alignment - address % alignment) % alignment;
}

void WorkgroupMemory::reset() {
  // A pattern that is a quiet NaN in f32 and bf16: reads of what nobody wrote
  // show in the result.
  bytes.assign(bytes.size(), static_cast<char>(0xff));
  traces.assign(traces.size(), Trace());
  epoch = 1;
}

std::string WorkgroupMemory::access(const void *address, int64_t size,
                                    bool write, int64_t thread) {
  int64_t offset = static_cast<const char *>(address) - (bytes.data() + base);
  if (offset < 0 || offset + size > static_cast<int64_t>(traces.size()))
    return "access outside of workgroup memory at byte " +
           std::to_string(offset);
  auto self = static_cast<int32_t>(thread);
  for (int64_t at = offset; at < offset + size; ++at) {
    Trace &trace = traces[at];
    bool written = trace.writeEpoch == epoch && trace.writer != self;
    bool read = trace.readEpoch == epoch && trace.reader != self;
    if (written || (write && read))
      return std::string(write ? "write" : "read") + " by thread " +
             std::to_string(thread) + " races with a " +
             (written ? "write by thread " + std::to_string(trace.writer)
              : trace.reader == several
                  ? "read by several threads"
                  : "read by thread " + std::to_string(trace.reader)) +
             " at byte " + std::to_string(at) + " of workgroup memory";
    if (write) {
      trace.writeEpoch = epoch;
      trace.writer = self;
    } else {
      trace.reader = read ? several : self;
      trace.readEpoch = epoch;
    }
  }
  return {};
}

} // namespace heddle::rt::emulator
