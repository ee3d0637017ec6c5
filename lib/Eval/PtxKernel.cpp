//===- PtxKernel.cpp - Runs a GPU kernel in the emulator ------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Eval/PtxKernel.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>

using namespace llvm;

namespace heddle::eval {

/// Creates the simulated device memory, with an allocation for each buffer.
/// Buffers that overlap are in one allocation.
static emulator::GlobalMemory
memoryOf(std::vector<std::pair<char *, int64_t>> buffers) {
  llvm::sort(buffers);
  std::vector<std::pair<char *, int64_t>> apart;
  for (auto [begin, bytes] : buffers) {
    if (apart.empty() || begin >= apart.back().first + apart.back().second) {
      apart.emplace_back(begin, bytes);
      continue;
    }
    auto &[first, all] = apart.back();
    all = std::max<int64_t>(all, begin + bytes - first);
  }
  emulator::GlobalMemory memory;
  for (auto [index, buffer] : llvm::enumerate(apart))
    memory.add("buffer " + std::to_string(index), buffer.first, buffer.second);
  return memory;
}

std::string PtxKernel::run(ArrayRef<void *> refs, ArrayRef<int64_t> scalars,
                           char *scratch, emulator::Counters *counters) const {
  // Scratch memory is filled with NaN, so that a kernel which reads bytes that
  // it has not written gives a wrong result.
  std::vector<uint64_t> own;
  if (!scratch)
    own.assign(divideCeil(scratchBytes, sizeof(uint64_t)), ~uint64_t(0));
  std::vector<void *> addresses(refs);
  if (scratchBytes > 0)
    addresses.push_back(scratch ? static_cast<void *>(scratch) : own.data());
  std::vector<std::pair<char *, int64_t>> buffers;
  std::vector<const void *> values;
  void **address = addresses.data();
  const int64_t *scalar = scalars.begin();
  for (const std::optional<int64_t> &bytes : arguments) {
    if (!bytes) {
      values.push_back(scalar++);
      continue;
    }
    buffers.emplace_back(static_cast<char *>(*address), *bytes);
    values.push_back(address++);
  }
  emulator::GlobalMemory memory = memoryOf(std::move(buffers));
  if (std::string wrong = emulator::Options::problemOfEnvironment();
      !wrong.empty())
    return wrong;
  auto options = emulator::Options::fromEnvironment();
  options.counts = counters != nullptr;
  for (emulator::Launch launch : launches) {
    launch.arguments = values;
    std::string fault = module->run(launch, memory, options, counters);
    if (!fault.empty())
      return fault;
  }
  return "";
}

} // namespace heddle::eval
