//===- Sources.h - States in the tensors of files ---------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_SOURCES_H
#define HEDDLE_RUNTIME_APP_SOURCES_H

#include "heddle/runtime/core/PackWeights.h"
#include "heddle/runtime/core/Pieces.h"
#include "heddle/runtime/core/Session.h"
#include "heddle/runtime/io/Safetensors.h"
#include <functional>
#include <map>
#include <set>

namespace heddle::rt {

/// The tensor of that name; null where there is none. Hugging Face's files of
/// one model differ in whether names begin with that of the base model
/// (`transformer.`).
const io::TensorInfo *findTensor(const io::WeightSet &weights,
                                 const std::string &name);

/// Reads a state from the tensors that it is made of. What was read of their
/// files does not stay in memory. The weights must outlive it.
class SourceReader {
public:
  /// The tensors are looked up under their names behind `prefix`, or without
  /// one by findTensor. Throws H0335 for a tensor that is missing, H0387 for
  /// one of another shape.
  SourceReader(const io::WeightSet &weights,
               const std::vector<plan::Piece> &pieces, const std::string &state,
               const std::string &prefix = "");
  SourceReader(const SourceReader &) = delete;
  SourceReader &operator=(const SourceReader &) = delete;
  ~SourceReader();

  /// Throws H0336 when some tensor cannot be read as `type`.
  void requireConvertible(const std::string &type) const;
  /// Reads the elements first .. first + count of the state. The first of them
  /// that is not finite, or -1.
  int64_t read(int64_t first, int64_t count, const std::string &type,
               void *target) const;
  /// Throws H0307 for an element of the state.
  [[noreturn]] void failNonFinite(const std::string &type,
                                  int64_t element) const;
  /// The codes that the files have of a whole weight, if they are such as it is
  /// packed with: then nothing is rounded once more. Else none.
  GroupCodes codesFor(const plan::Packed &whole) const;
  /// Whether some of it is codes in the files.
  bool hasCodes() const;

private:
  /// An output of a matrix of codes.
  struct CodedOutput {
    const io::CodedMatrix *matrix = nullptr;
    int64_t output = 0;
    bool operator==(const CodedOutput &other) const {
      return matrix == other.matrix && output == other.output;
    }
  };
  /// Which each output of the state is, all inputs of it in order, where the
  /// state is made of such outputs; else none.
  std::vector<CodedOutput> codedOutputs() const;
  struct Tensor {
    const io::TensorInfo *info = nullptr;
    std::shared_ptr<const uint8_t> data;
  };
  const Tensor &tensorOf(const PieceRun &run) const {
    return tensors[run.piece - pieces.data()];
  }
  const io::WeightSet &weights;
  std::vector<plan::Piece> pieces;
  std::vector<Tensor> tensors; ///< Of each piece.
};

/// Throws H0389 unless each tensor with the order of a matrix's inputs is as
/// the one that `orders` names for it, or with "" leaves them in turn: products
/// may share what they multiply (plan::Weights).
void requireOrders(const io::WeightSet &weights,
                   const std::map<std::string, std::string> &orders);

/// A value of the plan as a file of all ranks stores it; `value` and `part`, of
/// which pieces point into the former, are null on ranks that do not hold it.
io::SharedTensor shareTensor(Session &session, const std::string &name,
                             plan::DType type,
                             const std::vector<int64_t> &shape,
                             const plan::Placement &placement,
                             const Value *value, const Part *part);

/// Gathers the tensors that states are saved as.
class SharedStates {
public:
  explicit SharedStates(Session &session) : session(session) {}

  /// Adds a state, under the names of its tensors behind `prefix`; but once for
  /// each `prefix` and `name`. `value` and `part`, which must outlive the
  /// tensors, are null on ranks that do not hold it.
  void add(const std::string &prefix, const std::string &name,
           const std::vector<plan::Piece> &pieces, plan::DType type,
           const Value *value, const Part *part);

  std::vector<io::SharedTensor> take() { return std::move(tensors); }

private:
  Session &session;
  std::vector<io::SharedTensor> tensors;
  std::map<std::string, size_t> numbers; ///< Of the tensors, by name.
  std::set<std::string> known;
};

/// Calls `visit` with runs of at most `most` elements together that follow each
/// other in the rank's memory, numbered from there on; with how many elements
/// these are, and with the first one's number.
void forEachPiece(
    const std::vector<Run> &runs, int64_t most,
    const std::function<void(const std::vector<Run> &piece, int64_t count,
                             int64_t first)> &visit);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_SOURCES_H
