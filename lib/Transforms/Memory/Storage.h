//===- Storage.h - Which values share memory --------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Part of `memory-plan`: decides, before commands are emitted, which values of
// a function live in the same bytes, and which need a copy.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_MEMORY_STORAGE_H
#define HEDDLE_LIB_TRANSFORMS_MEMORY_STORAGE_H

#include "dialects/Pipe/PipeDialect.h"
#include "dialects/Plan/PlanDialect.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"

namespace heddle::memory {

/// Where a value of a function or step is stored. If an operation writes its
/// result over the bytes of an operand, the two values have the same root.
struct Root {
  enum class Kind {
    Argument, ///< In the memory of argument `index` of the function.
    Output,   ///< In the memory of result `index` of the function.
    State,    ///< In the state or bucket `name`.
    /// In a slice of another root, the one at `index` in Storage::all. A rank's
    /// index, a micro-batch or a slot selects the slice. A slot is a state's
    /// entry for one micro-batch in flight.
    Slice,
    /// In another root, the one at `index` in Storage::all. The value begins at
    /// element `element` of that root's tensor.
    Part,
    Frame, ///< In a temporary buffer of its own.
    /// A buffer that the runtime fills before a step (`input`), or reads after
    /// it (`output`).
    Port,
  } kind = Kind::Frame;
  int64_t index = 0;
  llvm::StringRef name;
  nn::PortAttr input, output;
  /// Only if `kind` is Slice: the index of the micro-batch, or of the slot (a
  /// state's entry for one micro-batch in flight), that the slice holds. Null
  /// if the rank's index along `axes` selects the slice.
  mlir::Value number;
  /// Only if `kind` is Slice: the mesh axes along which this rank's index
  /// selects the slice.
  mlir::ArrayAttr axes;
  /// Only if `kind` is Part (the value is in the memory of another root): the
  /// element of that memory at which the value begins.
  int64_t element = 0;
  /// The leading dimension, in elements; 0: rows have no padding.
  int64_t leadingDimension = 0;
  /// Only if `kind` is Frame (a temporary buffer): the kind of memory that the
  /// buffer is in.
  nn::MemoryKind memory = nn::MemoryKind::Device;
  mlir::RankedTensorType type;
  mlir::Value value; ///< The first value that is stored there.
};

/// Decides which values of a function or step are stored in the same bytes, and
/// which ones have to be copied. The function must consist of launches, calls,
/// and reads and writes of states, and the functions that it calls must be
/// planned already.
class Storage {
public:
  Storage(mlir::FunctionOpInterface function, const mlir::SymbolTable &symbols);

  /// Returns the root of a tensor value, which says where the value is stored.
  Root &rootOf(mlir::Value value) { return roots[rootIndex.lookup(value)]; }
  int64_t indexOf(mlir::Value value) { return rootIndex.lookup(value); }
  llvm::SmallVectorImpl<Root> &all() { return roots; }

  /// Whether a value must be copied because of the operation `op`.
  /// - nn.set, nn.keep, nn.return (operand `index`): the value could not be
  ///   computed directly in the memory of the state, of the dump or of the
  ///   result.
  /// - nn.get: the state is overwritten while the value that was read is still
  ///   used.
  /// - Slices: the slice does not begin at an address that is aligned as
  ///   kernels need it.
  bool needsCopy(mlir::Operation *op, unsigned index = 0) {
    return copies.contains({op, index});
  }
  /// A buffer that the runtime reads after a step. For nn.keep it holds the
  /// dumped value. For nn.return it holds a copy of result `index`, if the
  /// result cannot be computed in the buffer directly.
  Root &portOf(mlir::Operation *op, unsigned index = 0) {
    return roots[ports.lookup({op, index})];
  }
  /// The padding in the result of `pack`: elements that belong to none of the
  /// joined tensors. Each pair is the first element of a range and the number
  /// of elements in the range.
  static llvm::SmallVector<std::pair<int64_t, int64_t>>
  paddingOf(nn::PackOp pack);
  /// Whether a message is sent directly from a slot (a state's entry for one
  /// micro-batch), without a copy. The slot stays unchanged until another
  /// micro-batch uses it, so no command before that use has to wait for the
  /// send.
  bool isSentFromSlot(dist::SendOp send);
  /// For each result of a function, the argument in whose memory it is
  /// computed, or -1.
  llvm::SmallVector<int64_t> ties;

private:
  using Place = std::pair<mlir::Operation *, unsigned>;

  int64_t addRoot(Root::Kind kind, mlir::Value value, int64_t index = 0,
                  llvm::StringRef name = "");
  void share(mlir::Value value, mlir::Value with) {
    rootIndex[value] = rootIndex.lookup(with);
  }
  void assignArguments();
  void assignLaunch(planir::LaunchOp launch);
  int64_t stateRoot(llvm::StringRef name);
  void addSlice(mlir::Value value, int64_t of, mlir::Value number,
                mlir::ArrayAttr axes = {});
  /// Makes the result of `op` a slice of `roots[of]`, without a copy. If the
  /// slice does not begin at an address that is aligned as kernels need it, the
  /// result becomes a copy of the slice.
  void assignSlice(mlir::Operation *op, int64_t of, mlir::Value number,
                   mlir::ArrayAttr axes = {});
  /// Whether a slice of type `part` is aligned as kernels need it, whatever its
  /// index. It is if the size of a slice is a multiple of the alignment.
  bool isAligned(mlir::Type part) const {
    return dist::byteSize(llvm::cast<mlir::RankedTensorType>(part)) %
               operandAlignment ==
           0;
  }
  void assignUnpack(nn::UnpackOp unpack);
  int64_t unpackedOf(nn::PackOp pack);
  void assignPack(nn::PackOp pack);
  void assignCollective(mlir::Operation *op);
  bool isLastRead(mlir::Operation *reader, mlir::Value value);
  void forwardPack(nn::PackOp pack);
  void assign(mlir::Block &block);
  void assignResults(mlir::Operation *op, llvm::ArrayRef<int64_t> tied);
  void forward(mlir::Block &block);
  bool isInMemoryOf(const Root &root, nn::SetOp set) const;
  void forwardSet(nn::SetOp set);
  void keep(nn::KeepOp keep);
  void forwardReturn(nn::ReturnOp terminator);
  /// Returns the value and all values that are computed in its memory, directly
  /// or through another value that is computed there.
  llvm::SmallVector<mlir::Value> sharing(mlir::Value value);
  bool isStale(nn::GetOp get);
  bool outlives(nn::SetOp set);
  llvm::ArrayRef<llvm::StringRef> statesOf(llvm::StringRef name);
  void findAccesses();
  bool readLater(nn::SetOp set, mlir::Operation *definition);

  mlir::FunctionOpInterface function;
  const mlir::SymbolTable &symbols; ///< The model's symbol table.
  int64_t operandAlignment; ///< The alignment that kernels need, in bytes.
  llvm::SmallVector<Root> roots;
  llvm::DenseMap<mlir::Value, int64_t> rootIndex;
  llvm::StringMap<llvm::SmallVector<llvm::StringRef>> members;
  llvm::StringMap<llvm::SmallVector<nn::GetOp>> reads;
  llvm::StringMap<llvm::SmallVector<nn::SetOp>> writes;
  llvm::DenseSet<Place> copies;
  llvm::DenseMap<Place, int64_t> ports;
  llvm::StringMap<int64_t> stateRoots;
};

/// The regions that run as a part of `op`: the body of a loop over
/// micro-batches, or the forward and backward passes that a pipeline stage
/// runs.
llvm::MutableArrayRef<mlir::Region> bodiesOf(mlir::Operation *op);

} // namespace heddle::memory

#endif // HEDDLE_LIB_TRANSFORMS_MEMORY_STORAGE_H
