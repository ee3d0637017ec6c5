//===- Memory.h - Kinds of memory, and streams ------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kinds of memory, and streams. Compiler, plans and runtime share them.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PLANFORMAT_MEMORY_H
#define HEDDLE_PLANFORMAT_MEMORY_H

#include "heddle/PlanFormat/Names.h"

#include <cstdint>
#include <iterator>

namespace heddle::plan {

/// Kinds of memory. Kernels and communication access Device. The host and
/// kernels on its cores access Host and Pinned. A device copies from and to
/// Pinned memory directly. The bytes of File are in offload files.
enum class MemoryKind { Device, Host, Pinned, File };
inline constexpr MemoryKind memoryKinds[] = {
    MemoryKind::Device, MemoryKind::Host, MemoryKind::Pinned, MemoryKind::File};
template <>
inline constexpr std::array enumNames<MemoryKind> = {"device", "host", "pinned",
                                                     "file"};

/// What an offload file holds. Each rank has one file for each of these kinds
/// of data that it offloads to files. The rank's memory of the kind File
/// consists of these files in this order.
enum class FileRole { Optimizer, Parameters, Gradients, Activations };
inline constexpr FileRole fileRoles[] = {
    FileRole::Optimizer, FileRole::Parameters, FileRole::Gradients,
    FileRole::Activations};
template <>
inline constexpr std::array enumNames<FileRole> = {"optimizer", "parameters",
                                                   "gradients", "activations"};

/// Size of the pinned ring buffer through which a GPU copies from or to files.
/// There is one buffer for each direction. Rows of embedding tables that are
/// copied from files go through the buffer for copies to the GPU.
inline constexpr int64_t stagingRingBytes = int64_t(8) << 20;

/// Streams. The work of one stream runs in the order of submission. Work of
/// different streams is ordered only by events. The stream Store is for copies
/// out of the device's memory, Copy for other copies, and Host for kernels on
/// the cores next to a GPU.
enum class Stream { Compute, Communication, Copy, Store, Host };
inline constexpr Stream streams[] = {Stream::Compute, Stream::Communication,
                                     Stream::Copy, Stream::Store, Stream::Host};
template <>
inline constexpr std::array enumNames<Stream> = {"compute", "communication",
                                                 "copy", "store", "host"};

/// Whether the stream makes copies that overlap with Compute and Communication.
constexpr bool copiesBeside(Stream stream) {
  return stream == Stream::Copy || stream == Stream::Store;
}

/// A value for each kind of memory.
template <typename T> struct PerMemory {
  std::array<T, std::size(memoryKinds)> values{};

  T &operator[](MemoryKind kind) { return values[size_t(kind)]; }
  const T &operator[](MemoryKind kind) const { return values[size_t(kind)]; }
  /// The sum over all kinds.
  T total() const {
    T sum{};
    for (const T &value : values)
      sum += value;
    return sum;
  }
  /// The sum over all kinds except File.
  T inMemory() const { return total() - (*this)[MemoryKind::File]; }
};

/// A value for each offload file of a rank.
template <typename T> struct PerFile {
  std::array<T, std::size(fileRoles)> values{};

  T &operator[](FileRole role) { return values[size_t(role)]; }
  const T &operator[](FileRole role) const { return values[size_t(role)]; }
};

} // namespace heddle::plan

#endif // HEDDLE_PLANFORMAT_MEMORY_H
