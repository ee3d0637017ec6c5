//===- Safetensors.h - Read and write safetensors ---------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads and writes files of weights in the safetensors format, one file or a
// whole Hugging Face directory. Reading follows the rules of the reference
// reader, with an error code for each violation. Opening reads only headers;
// tensors are mapped when they are requested.
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
struct TableExtension;

/// Name, type, shape and file position of a tensor.
struct TensorInfo {
  std::string name;
  std::string dtype; ///< As safetensors names it: F32, BF16, I64 ...
  std::vector<int64_t> shape;
  std::string file;   ///< Path of the file that holds it.
  int64_t offset = 0; ///< From the beginning of that file.
  int64_t bytes = 0;
  /// Set for a matrix that the file holds as quantized codes (CodedWeights.h).
  /// It names the tensors from which WeightSet::hold computes the matrix. If
  /// `isTransposed`, the shape is [outputs, inputs], else [inputs, outputs].
  std::shared_ptr<const CodedMatrix> coded;
  bool isTransposed = false;
  /// True for a tensor that is computed from `coded` but is not the matrix: the
  /// permutation that sorts the matrix's inputs by quantization group. GPTQ's
  /// act-order (desc_act) needs it.
  bool isOrder = false;
  /// Set for a table of positions that has more rows than in the file
  /// (ExtendTable.h). WeightSet::hold computes it.
  std::shared_ptr<const TableExtension> extension;
  int64_t numElements() const;
};

/// Bits per element of a safetensors dtype; 0 if unknown.
int64_t dtypeBits(const std::string &dtype);
/// Whether `dtype` is F32, F64, BF16 or F16. Tensors can be converted between
/// these float types.
bool isFloatType(const std::string &dtype);
/// The name of a float type in config.json, such as `bfloat16` for BF16.
const char *nameInConfig(const std::string &dtype);
/// Formats a shape as in `[768, 2304]`.
std::string shapeToString(const std::vector<int64_t> &shape);

/// The header of one file.
struct SafetensorsHeader {
  std::string file;
  std::map<std::string, std::string> metadata;
  std::vector<TensorInfo>
      tensors;       ///< The tensors of the file, sorted by offset.
  uint64_t hash = 0; ///< XXH3 of the header's bytes.
};

/// Reads and checks a header. The data is not read, only its length is checked.
SafetensorsHeader readSafetensorsHeader(const std::string &path);

/// All weights of a directory or of one file. Not synchronized: one thread at a
/// time may call `data` and `read`.
class WeightSet {
public:
  /// All tensors, sorted by name.
  const std::vector<TensorInfo> &tensors() const { return all; }
  /// Finds a tensor by its name, with or without the prefixes of PyTorch's
  /// wrappers.
  const TensorInfo *find(const std::string &name) const;
  /// As `find`, but throws H0335 if the tensor does not exist. The error names
  /// the tensor with the most similar name.
  const TensorInfo &at(const std::string &name) const;
  /// Hexadecimal hash of all headers. Independent of the files' names.
  const std::string &headerHash() const { return hash; }
  /// The file, the index or the index's directory that was opened.
  const std::string &origin() const { return path; }
  /// The files, in the order of their names.
  const std::vector<std::string> &files() const { return fileNames; }
  /// Prefixes of PyTorch's wrappers that were removed from the names of
  /// tensors, such as `_orig_mod., module.`; "" when there were none.
  const std::string &wrappers() const { return wrapperNames; }
  /// The metadata of the first file.
  const std::map<std::string, std::string> &metadata() const { return meta; }

  /// Replaces tensors by those of `others` that have the same names.
  void replace(const WeightSet &others);
  /// Replaces the tensor that has the same name.
  void replace(const TensorInfo &info);

  /// Returns the tensor's mapped bytes, which may be unaligned.
  const uint8_t *data(const TensorInfo &info) const;
  /// Returns the tensor's bytes, mapped as by `data`. A quantized matrix is
  /// dequantized instead, and a table with more rows than in the file is
  /// computed, into memory that is freed with the last copy of the returned
  /// pointer.
  std::shared_ptr<const uint8_t> hold(const TensorInfo &info) const;
  /// Drops pages of a mapped tensor after they were read (MappedFile::forget).
  /// Thread-safe.
  void forget(const TensorInfo &info, int64_t offset, int64_t bytes) const;
  /// Throws H0336 when the tensor cannot be converted to `dtype`.
  static void requireConvertible(const TensorInfo &info,
                                 const std::string &dtype);
  /// Copies the tensor to `destination`, converted to `dtype`: F32, BF16, F16,
  /// F64, or the tensor's own type. Throws H0336 for another conversion.
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
/// without an index), of a checkpoint, of the latest checkpoint of a `--save`
/// directory, or of one .safetensors file. Removes prefixes of PyTorch's
/// wrappers from names. Refuses pickles.
WeightSet openWeights(const std::string &path);
/// Throws H0331 for a directory in which PEFT has saved an adapter without its
/// model.
void refuseAdapter(const std::string &path);
/// Opens one safetensors file.
WeightSet openSafetensors(const std::string &path);

/// A tensor to write. Its bytes are `data`. If `data` is null, `produce` makes
/// the bytes in chunks, and calls `sink` for each chunk in order.
struct TensorToWrite {
  using Sink = std::function<void(const void *data, int64_t bytes)>;
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  const void *data = nullptr;
  std::function<void(const Sink &sink)> produce;
};

/// A tensor of a file that all ranks write together. All ranks pass the same
/// tensors. `pieces` calls `sink` for each range of bytes that this rank
/// writes. The argument `offset` of `sink` is the range's offset in the tensor.
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

/// Writes a file in the order of the reference writer (wider types first, then
/// by name), under a temporary name until it is complete.
WrittenFile writeSafetensors(
    const std::string &path, std::vector<TensorToWrite> tensors,
    const std::map<std::string, std::string> &metadata = {{"format", "pt"}});

/// Writes the file that `writeSafetensors` would write, but with all ranks
/// writing at the same time. Every rank calls it with the same tensors, in any
/// order. The file has a temporary name until it is complete and on the disk.
/// An error on one rank is thrown on all.
void writeShared(const std::string &path, std::vector<SharedTensor> tensors,
                 Peers &peers);
/// Throws when `writeShared` could not create the file `path`. Called first,
/// so that a run fails before it computes.
void requireShared(const std::string &path, Peers &peers);

/// Returns the index of the first infinite or NaN element of a float type; -1
/// if there is none. Runs at memory bandwidth; elements may be unaligned.
int64_t firstNonFinite(const void *elements, const std::string &type,
                       int64_t count);
/// Throws H0307: element `element` of the whole tensor is not finite as a value
/// of `type`.
[[noreturn]] void failNonFinite(const TensorInfo &info, const std::string &type,
                                int64_t element);

/// Converts `count` elements between F32, F64, BF16 and F16, or copies them if
/// the types are equal. The source may be unaligned. Returns false for an
/// unknown conversion.
bool convertElements(const void *source, const std::string &sourceType,
                     void *destination, const std::string &destinationType,
                     int64_t count);

} // namespace heddle::io

#endif // HEDDLE_RUNTIME_IO_SAFETENSORS_H
