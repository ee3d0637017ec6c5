//===- StateTensors.h - States as tensors of files --------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Maps states of a plan to tensors of weight files: reads a state, which may be
// a slice or concatenation of tensors, and describes states as tensors to save.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_STATETENSORS_H
#define HEDDLE_RUNTIME_APP_STATETENSORS_H

#include "heddle/runtime/core/PackWeights.h"
#include "heddle/runtime/core/Session.h"
#include "heddle/runtime/core/WeightSlices.h"
#include "heddle/runtime/io/Safetensors.h"
#include <functional>
#include <map>
#include <set>

namespace heddle::rt {

/// Returns the parameter to which a state belongs; for example, an optimizer
/// state belongs to the parameter that it helps to update. Returns the state
/// itself if it is a parameter, or null if it belongs to none.
const plan::State *findParameter(const plan::Stage &stage,
                                 const plan::State &state);

/// Returns the slices of tensors in weight files and checkpoints that make up a
/// state. If the state belongs to a parameter, these are the parameter's
/// slices; otherwise, the only slice is the whole tensor with the state's name.
std::vector<plan::WeightSlice> sourcesOf(const plan::Stage &stage,
                                         const plan::State &state);

/// Finds a tensor by its name, with or without the prefix of the base model
/// (`transformer.`), which differs between Hugging Face's files of one model.
/// Returns null if it does not exist.
const io::TensorInfo *findTensor(const io::WeightSet &weights,
                                 const std::string &name);

/// Makes the table of positions longer, as io::extendTable does, if `weights`
/// have it. `extended` may name no table. Throws H0131 if the table has other
/// numbers of rows than the weights with which the binary was compiled.
void extendPositions(io::WeightSet &weights,
                     const plan::ExtendedTable &extended);

/// Reads a state from the tensors that it is made of. Releases the memory of
/// mapped file pages after reading them. `weights` must outlive the reader.
class SourceReader {
public:
  /// Looks each tensor up by the name `prefix` + name; if `prefix` is empty, by
  /// findTensor. Throws H0335 for a missing tensor, H0387 for a wrong shape.
  SourceReader(const io::WeightSet &weights,
               const std::vector<plan::WeightSlice> &pieces,
               const std::string &state, const std::string &prefix = "");
  SourceReader(const SourceReader &) = delete;
  SourceReader &operator=(const SourceReader &) = delete;
  ~SourceReader();

  /// Throws H0336 when a tensor cannot be converted to `type`.
  void requireConvertible(const std::string &type) const;
  /// Reads elements [first, first + count) of the state. Returns the index of
  /// the first one that is not finite, or -1.
  int64_t read(int64_t first, int64_t count, const std::string &type,
               void *target) const;
  /// Throws H0307 for an element of the state that is not finite.
  [[noreturn]] void failNonFinite(const std::string &type,
                                  int64_t element) const;
  /// Returns the scales and zero points of an unsharded weight that the files
  /// store in the plan's quantized format, so that quantizing it again does not
  /// round. Returns nothing if the files do not have that format.
  GroupScales scalesFor(const plan::PackedWeight &whole) const;
  /// Whether the files store any of the state's tensors quantized.
  bool hasCodes() const;

private:
  /// An output feature (one column of weights) of a quantized matrix in the
  /// files.
  struct CodedOutput {
    const io::CodedMatrix *matrix = nullptr;
    int64_t output = 0;
    bool operator==(const CodedOutput &other) const {
      return matrix == other.matrix && output == other.output;
    }
  };
  /// The state is a matrix. For each of its output features, returns the output
  /// feature of a quantized matrix in the files from which it is read. Returns
  /// nothing unless each output feature is read whole from a quantized matrix.
  std::vector<CodedOutput> codedOutputs() const;
  struct Tensor {
    const io::TensorInfo *info = nullptr;
    std::shared_ptr<const uint8_t> data;
  };
  const Tensor &tensorOf(const WeightRange &run) const {
    return tensors[run.piece - pieces.data()];
  }
  const io::WeightSet &weights;
  std::vector<plan::WeightSlice> pieces;
  /// For each slice in `pieces`, the tensor of which it is a slice.
  std::vector<Tensor> tensors;
};

/// Checks the orders of the inputs of quantized matrices (g_idx of GPTQ). Each
/// key of `orders` names an order, which must equal the order that the key's
/// value names, because matrix products with the same input share one order. If
/// the value is "", the order must be ascending. Throws H0389 if an order is
/// wrong.
void requireOrders(const io::WeightSet &weights,
                   const std::map<std::string, std::string> &orders);

/// Describes a value of the plan as a tensor of a file, to which each rank
/// writes the shard that it stores. `value`, and its shard `part`, are null on
/// ranks that store none. The result keeps pointers to `value` and `part`.
io::SharedTensor shareTensor(Session &session, const std::string &name,
                             plan::DType type,
                             const std::vector<int64_t> &shape,
                             const plan::Placement &placement,
                             const Value *value, const RankShard *part);

/// Collects the tensors to write to a file for states of a plan.
class SharedStates {
public:
  explicit SharedStates(Session &session) : session(session) {}

  /// Adds the tensors that a state consists of, named `prefix` + tensor name. A
  /// second call with the same `prefix` and `name` does nothing. `value` and
  /// `part` are null on ranks that do not store the state, and must outlive the
  /// tensors.
  void add(const std::string &prefix, const std::string &name,
           const std::vector<plan::WeightSlice> &pieces, plan::DType type,
           const Value *value, const RankShard *part);

  std::vector<io::SharedTensor> take() { return std::move(tensors); }

private:
  Session &session;
  std::vector<io::SharedTensor> tensors;
  std::map<std::string, size_t> numbers; ///< Index of each tensor, by name.
  std::set<std::string> known;
};

/// Divides the elements of this rank's shard, which are given by `runs`, into
/// chunks of at most `most` elements that are contiguous in the shard. Calls
/// `visit` for each chunk. `first` is the index of the chunk's first element in
/// the shard. `piece` lists the chunk's ranges; their offsets in the shard are
/// relative to `first`.
void forEachPiece(
    const std::vector<ElementRange> &runs, int64_t most,
    const std::function<void(const std::vector<ElementRange> &piece,
                             int64_t count, int64_t first)> &visit);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_STATETENSORS_H
