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

/// A memory location of a function or step. Values that are computed in place
/// of each other share one.
struct Root {
  enum class Kind {
    Argument, ///< Argument `index` of the function.
    Output,   ///< The memory of result `index` of the function.
    State,    ///< The state or bucket `name`.
    Slice,    ///< The slice of root `index` that an index selects.
    Part,     ///< The bytes of root `index` from element `element` on.
    Frame,    ///< Bytes of the frame.
    Port,     ///< In the frame of a step: its `input` or `output`.
  } kind = Kind::Frame;
  int64_t index = 0;
  llvm::StringRef name;
  nn::PortAttr input, output;
  /// For Slice: the index of a micro-batch or slot; null if `axes` select it.
  mlir::Value number;
  mlir::ArrayAttr axes; ///< For Slice: this rank's index along these axes.
  int64_t element = 0;  ///< For Part.
  /// The leading dimension, in elements; 0: rows have no padding.
  int64_t leadingDimension = 0;
  /// For Frame: the kind of memory.
  nn::MemoryKind memory = nn::MemoryKind::Device;
  mlir::RankedTensorType type;
  mlir::Value value; ///< The first value that lives there.
};

/// Decides which values of a function or step live in the same bytes. The
/// function's body must consist of launches, calls, and reads and writes of
/// states. Callees must be planned before their callers.
class Storage {
public:
  Storage(mlir::FunctionOpInterface function, const mlir::SymbolTable &symbols);

  /// The root of a tensor value.
  Root &rootOf(mlir::Value value) { return roots[rootIndex.lookup(value)]; }
  int64_t indexOf(mlir::Value value) { return rootIndex.lookup(value); }
  llvm::SmallVectorImpl<Root> &all() { return roots; }

  /// Whether a value must be copied by this operation: into a state (nn.set), a
  /// port (nn.keep) or the memory of a result (nn.return, operand `index`); out
  /// of a state that is written while the value is still used (nn.get); or out
  /// of a slice that is not aligned as an operand must be.
  bool needsCopy(mlir::Operation *op, unsigned index = 0) {
    return copies.contains({op, index});
  }
  /// The port of an nn.keep, or of a step's result that needs a copy.
  Root &portOf(mlir::Operation *op, unsigned index = 0) {
    return roots[ports.lookup({op, index})];
  }
  /// The padding after members of a packed value, and at its end: first element
  /// and number of elements of each.
  static llvm::SmallVector<std::pair<int64_t, int64_t>>
  paddingOf(nn::PackOp pack);
  /// Whether a message is sent from a slot of a state, which stays unchanged
  /// until the slot is reused.
  bool isSentFromSlot(dist::SendOp send);
  /// By result of a function: the argument that it is tied to, or -1.
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
  /// Makes the result a slice of root `of`, or, if slices of that size are not
  /// aligned as an operand must be, a copy of it.
  void assignSlice(mlir::Operation *op, int64_t of, mlir::Value number,
                   mlir::ArrayAttr axes = {});
  /// Whether all equal slices of a whole are aligned as an operand must be.
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
  /// The value, and values that are computed in place of it, directly or in
  /// several steps.
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

/// The regions that run when `op` does: those of loops and fragments.
llvm::MutableArrayRef<mlir::Region> bodiesOf(mlir::Operation *op);

} // namespace heddle::memory

#endif // HEDDLE_LIB_TRANSFORMS_MEMORY_STORAGE_H
