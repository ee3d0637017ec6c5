//===- Safetensors.h - safetensors files, in and out ------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads by the reference reader's rules, each breach with an error code of its
// own; opening reads headers only, tensors are mapped when they are asked for.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_SAFETENSORS_H
#define HEDDLE_RUNTIME_IO_SAFETENSORS_H

#include "heddle/runtime/io/File.h"
#include "heddle/runtime/io/Float.h"
#include "heddle/runtime/io/Peers.h"
#include <functional>
#include <map>

namespace heddle::io {

struct CodedMatrix;

/// Where a tensor is and what it is.
struct TensorInfo {
  std::string name;
  std::string dtype; ///< As safetensors names it: F32, BF16, I64 ...
  std::vector<int64_t> shape;
  std::string file;   ///< Path of the file that holds it.
  int64_t offset = 0; ///< From the beginning of that file.
  int64_t bytes = 0;
  /// Of a matrix that the file holds as codes (CodedWeights.h): it stands
  /// nowhere, and `isTurned` if it is [outputs, inputs].
  std::shared_ptr<const CodedMatrix> coded;
  bool isTurned = false;
  bool isOrder = false; ///< Not `coded` itself, but the order of its inputs.
  int64_t numElements() const;
};

/// Bits per element of a safetensors dtype; 0 when there is no such dtype.
int64_t dtypeBits(const std::string &dtype);
/// Whether it is one of the types of floats that convert into each other: F32,
/// F64, BF16, F16.
bool isFloatType(const std::string &dtype);
/// What config.json calls such a type: `bfloat16`, for example.
const char *nameInConfig(const std::string &dtype);
/// A shape as `[768, 2304]`.
std::string shapeToString(const std::vector<int64_t> &shape);

/// One file's header.
struct SafetensorsHeader {
  std::string file;
  std::map<std::string, std::string> metadata;
  std::vector<TensorInfo> tensors; ///< In the order of their offsets.
  uint64_t hash = 0;               ///< XXH3 of the header's bytes.
};

/// Reads and checks a header; of the data only the length is looked at.
SafetensorsHeader readSafetensorsHeader(const std::string &path);

/// All weights of a directory, or of one file. Mapping tensors is not
/// synchronised: one thread at a time may call `data` and `read`.
class WeightSet {
public:
  /// All tensors, sorted by name.
  const std::vector<TensorInfo> &tensors() const { return all; }
  /// A name with wrappers finds the tensor of the name without them, too.
  const TensorInfo *find(const std::string &name) const;
  /// Throws H0335, and names the nearest tensor, when there is none such.
  const TensorInfo &at(const std::string &name) const;
  /// Hexadecimal, of all headers; file names play no part in it.
  const std::string &headerHash() const { return hash; }
  /// The file, the index's directory or the index that was opened.
  const std::string &origin() const { return path; }
  /// The files, in the order of their names.
  const std::vector<std::string> &files() const { return fileNames; }
  /// What PyTorch's wrappers have put into the names of tensors, which are
  /// without it here, as `_orig_mod., module.`; "" when there was nothing.
  const std::string &wrappers() const { return wrapperNames; }
  /// The metadata of the first file.
  const std::map<std::string, std::string> &metadata() const { return meta; }

  /// Takes the tensors of `others` in the places of those of the same names.
  void replace(const WeightSet &others);

  /// The tensor's bytes, mapped; they may stand at any address, unaligned.
  const uint8_t *data(const TensorInfo &info) const;
  /// The same; of a matrix of codes the values, as long as they are held.
  std::shared_ptr<const uint8_t> hold(const TensorInfo &info) const;
  /// Bytes of a tensor that was mapped have been read; several threads
  /// may call it. See MappedFile::forget.
  void forget(const TensorInfo &info, int64_t offset, int64_t bytes) const;
  /// Throws H0336 when the tensor's elements cannot be converted to `dtype`.
  static void requireConvertible(const TensorInfo &info,
                                 const std::string &dtype);
  /// Copies the tensor to `destination`, converted to `dtype` (F32, BF16, F16,
  /// F64, or the tensor's own); throws H0336 when there is no such conversion.
  void read(const TensorInfo &info, const std::string &dtype,
            void *destination) const;

private:
  friend class WeightSetReader;
  friend class CodedSet;
  std::string path, hash, wrapperNames;
  std::vector<TensorInfo> all;
  std::vector<std::string> fileNames;
  std::map<std::string, std::string> meta;
  mutable std::map<std::string, std::shared_ptr<const MappedFile>> mapped;
};

/// Opens the weights of a Hugging Face directory (one file, or shards with or
/// without an index), of a checkpoint, of a `--save` directory (its latest
/// checkpoint), or of one .safetensors file. Names lose what PyTorch's wrappers
/// put into them. Pickles are refused.
WeightSet openWeights(const std::string &path);
/// Throws H0331 for a directory that PEFT has saved without its model.
void refuseAdapter(const std::string &path);
/// Opens one safetensors file.
WeightSet openSafetensors(const std::string &path);

/// A tensor to be written: `data`, or when that is null, what `produce` hands
/// to its argument piece by piece.
struct TensorToWrite {
  using Sink = std::function<void(const void *data, int64_t bytes)>;
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  const void *data = nullptr;
  std::function<void(const Sink &sink)> produce;
};

/// A tensor of a file that all ranks of a job write. Every rank knows of it;
/// `pieces` hands those bytes to its argument that this rank is to write, each
/// piece with its offset in the tensor.
struct SharedTensor {
  using Sink =
      std::function<void(int64_t offset, const void *data, int64_t bytes)>;
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  std::function<void(const Sink &sink)> pieces;
};

/// Size and XXH3 of a file that was written.
struct WrittenFile {
  std::string name;
  int64_t bytes = 0;
  std::string digest;
};

/// Writes a file as the reference writer orders it (wider types first, then by
/// name), one tensor after the other, under a temporary name until complete.
WrittenFile writeSafetensors(
    const std::string &path, std::vector<TensorToWrite> tensors,
    const std::map<std::string, std::string> &metadata = {{"format", "pt"}});

/// The same file, made by all ranks of a job at once; every rank calls it with
/// the same tensors, in whatever order. The file has a temporary name until it
/// is on the disk, whole; what fails on one rank fails on all.
void writeShared(const std::string &path, std::vector<SharedTensor> tensors,
                 Peers &peers);
/// Throws when no such file can be made there, before there is what to write.
void requireShared(const std::string &path, Peers &peers);

/// The first of `count` elements of a float type that is infinite or no number;
/// -1 when there is none. At the speed of memory; they may be unaligned.
int64_t firstNonFinite(const void *elements, const std::string &type,
                       int64_t count);
/// Throws H0307: an element of the tensor, counted in its whole, is not finite
/// as a value of `type`.
[[noreturn]] void failNonFinite(const TensorInfo &info, const std::string &type,
                                int64_t element);

/// Converts `count` elements between F32, F64, BF16 and F16, or copies them
/// when the types are equal; the source may be unaligned. False when there is
/// no such conversion.
bool convertElements(const void *source, const std::string &sourceType,
                     void *destination, const std::string &destinationType,
                     int64_t count);

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_SAFETENSORS_H
