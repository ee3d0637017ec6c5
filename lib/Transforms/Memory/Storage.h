//===- Storage.h - Which value lives where ----------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
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

/// One piece of memory of a function or step. Values that take over each
/// other's place share one.
struct Root {
  enum class Kind {
    Argument, ///< Of the function: argument `index`.
    Output,   ///< Of the function: the memory of its result `index`.
    State,    ///< The state or bucket `name`.
    Slice,    ///< The part of root `index` that a number chooses.
    Part,     ///< The bytes of root `index` from element `element` on.
    Frame,    ///< In the frame.
    Port,     ///< In the frame of a step: its `input` or `output`.
  } kind = Kind::Frame;
  int64_t index = 0;
  llvm::StringRef name;
  nn::PortAttr input, output;
  mlir::Value number;   ///< Slice: of a micro-batch or slot, or null:
  mlir::ArrayAttr axes; ///< of this rank along these axes.
  int64_t element = 0;  ///< Part.
  int64_t pitch = 0;    ///< Elements between begins of rows; 0: no gaps.
  /// Frame: where the frame is.
  nn::MemoryKind memory = nn::MemoryKind::Device;
  mlir::RankedTensorType type;
  mlir::Value value; ///< The first value that lives there.
};

/// Decides which values of a function or step live in the same bytes. The
/// function's body is launches, calls, reads and writes of states; callees are
/// done before their callers.
class Storage {
public:
  Storage(mlir::FunctionOpInterface function, const mlir::SymbolTable &symbols);

  /// The root of a tensor value.
  Root &rootOf(mlir::Value value) { return roots[rootIndex.lookup(value)]; }
  int64_t indexOf(mlir::Value value) { return rootIndex.lookup(value); }
  llvm::SmallVectorImpl<Root> &all() { return roots; }

  /// Whether the value must be copied to where this operation wants it: a
  /// state (nn.set), a port (nn.keep), the place of a result (nn.return,
  /// operand `index`), or, when its state is written too early, out of it
  /// (nn.get); or out of a slice that begins at no place for an operand.
  bool needsCopy(mlir::Operation *op, unsigned index = 0) {
    return copies.contains({op, index});
  }
  /// For nn.keep and for a step's result that needs one: its port.
  Root &portOf(mlir::Operation *op, unsigned index = 0) {
    return roots[ports.lookup({op, index})];
  }
  /// The bytes between the members of a packed value, and behind them: first
  /// element and number of elements of each gap.
  static llvm::SmallVector<std::pair<int64_t, int64_t>>
  paddingOf(nn::PackOp pack);
  /// Whether what is sent lies in a slot of a state, which stays as it is until
  /// the slot comes round again.
  bool isSentFromSlot(dist::SendOp send);
  /// For each result of a function, the argument whose place it takes, or -1.
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
  /// The result is a slice of root `of`, or where slices of its size begin at
  /// no place for an operand, a copy of it.
  void assignSlice(mlir::Operation *op, int64_t of, mlir::Value number,
                   mlir::ArrayAttr axes = {});
  /// Whether all equal parts of a whole begin where an operand may.
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
  /// The value, and those that take its place, or a place of that.
  llvm::SmallVector<mlir::Value> sharing(mlir::Value value);
  bool isStale(nn::GetOp get);
  bool outlives(nn::SetOp set);
  llvm::ArrayRef<llvm::StringRef> statesOf(llvm::StringRef name);
  void findAccesses();
  bool readLater(nn::SetOp set, mlir::Operation *definition);

  mlir::FunctionOpInterface function;
  const mlir::SymbolTable &symbols; ///< Of the model.
  int64_t operandAlignment;         ///< In bytes.
  llvm::SmallVector<Root> roots;
  llvm::DenseMap<mlir::Value, int64_t> rootIndex;
  llvm::StringMap<llvm::SmallVector<llvm::StringRef>> members;
  llvm::StringMap<llvm::SmallVector<nn::GetOp>> reads;
  llvm::StringMap<llvm::SmallVector<nn::SetOp>> writes;
  llvm::DenseSet<Place> copies;
  llvm::DenseMap<Place, int64_t> ports;
  llvm::StringMap<int64_t> stateRoots;
};

/// The regions whose operations run when `op` does: loops and fragments.
llvm::MutableArrayRef<mlir::Region> bodiesOf(mlir::Operation *op);

} // namespace heddle::memory

#endif // HEDDLE_LIB_TRANSFORMS_MEMORY_STORAGE_H
