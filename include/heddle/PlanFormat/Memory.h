//===- Memory.h - Where bytes are, and what runs beside what ----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PLANFORMAT_MEMORY_H
#define HEDDLE_PLANFORMAT_MEMORY_H

#include "heddle/PlanFormat/Names.h"

#include <cstdint>
#include <iterator>

namespace heddle::plan {

/// Where bytes are. Kernels and communication use what is Device. The host sees
/// what is Host or Pinned, as do kernels on its cores; of Pinned memory devices
/// copy without a detour. A file stands in for memory that is File.
enum class MemoryKind { Device, Host, Pinned, File };
inline constexpr MemoryKind memoryKinds[] = {
    MemoryKind::Device, MemoryKind::Host, MemoryKind::Pinned, MemoryKind::File};
template <>
inline constexpr std::array enumNames<MemoryKind> = {"device", "host", "pinned",
                                                     "file"};

/// What a file holds: each rank has one for each role with bytes on file. They
/// stand one behind the other in its memory of the kind File, in this order.
enum class FileRole { Optimizer, Parameters, Gradients, Activations };
inline constexpr FileRole fileRoles[] = {
    FileRole::Optimizer, FileRole::Parameters, FileRole::Gradients,
    FileRole::Activations};
template <>
inline constexpr std::array enumNames<FileRole> = {"optimizer", "parameters",
                                                   "gradients", "activations"};

/// Pinned memory of each direction that a GPU's copies from and to files go
/// through. The rows that ids name come through that of the way to the GPU.
inline constexpr int64_t stagingRingBytes = int64_t(8) << 20;

/// Work of one stream is done in the order of its submission. Between streams
/// only events make an order. Store copies what leaves the device's memory, and
/// Copy the rest; Host runs kernels on the cores beside a GPU.
enum class Stream { Compute, Communication, Copy, Store, Host };
inline constexpr Stream streams[] = {Stream::Compute, Stream::Communication,
                                     Stream::Copy, Stream::Store, Stream::Host};
template <>
inline constexpr std::array enumNames<Stream> = {"compute", "communication",
                                                 "copy", "store", "host"};

/// Whether the stream copies beside those that compute and communicate.
constexpr bool copiesBeside(Stream stream) {
  return stream == Stream::Copy || stream == Stream::Store;
}

/// Something for each kind of memory.
template <typename T> struct PerMemory {
  std::array<T, std::size(memoryKinds)> values{};

  T &operator[](MemoryKind kind) { return values[size_t(kind)]; }
  const T &operator[](MemoryKind kind) const { return values[size_t(kind)]; }
  /// Of all kinds together.
  T total() const {
    T sum{};
    for (const T &value : values)
      sum += value;
    return sum;
  }
  /// Of all kinds but file.
  T inMemory() const { return total() - (*this)[MemoryKind::File]; }
};

/// Something for each file of a rank.
template <typename T> struct PerFile {
  std::array<T, std::size(fileRoles)> values{};

  T &operator[](FileRole role) { return values[size_t(role)]; }
  const T &operator[](FileRole role) const { return values[size_t(role)]; }
};

} // namespace heddle::plan

#endif // HEDDLE_PLANFORMAT_MEMORY_H
