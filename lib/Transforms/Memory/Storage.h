//===- Storage.h - Which value lives where ----------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_MEMORY_STORAGE_H
#define HEDDLE_LIB_TRANSFORMS_MEMORY_STORAGE_H

#include "Packing.h"
#include "dialects/Pipe/PipeDialect.h"
#include "dialects/Plan/PlanFormat.h"
#include "heddle/PlanFormat/Collective.h"
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
  mlir::RankedTensorType type;
  mlir::Value value; ///< The first value that lives there.
  Interval interval; ///< Frame and Port.
};

/// Decides where each value of a function or step lives, and when its frame's
/// bytes are in use. The function's body is launches, calls, reads and writes
/// of states; callees are done before their callers.
class Storage {
public:
  /// `frameOf` gives the size of a callee's frame. `library`: an MPI library's
  /// collectives may be used.
  Storage(mlir::FunctionOpInterface function, const mlir::SymbolTable &symbols,
          bool library, llvm::function_ref<int64_t(llvm::StringRef)> frameOf);

  /// The root of a tensor value.
  Root &rootOf(mlir::Value value) { return roots[rootIndex.lookup(value)]; }
  int64_t indexOf(mlir::Value value) { return rootIndex.lookup(value); }
  llvm::SmallVectorImpl<Root> &all() { return roots; }

  /// Whether the value must be copied to where this operation wants it: a
  /// state (nn.set), a port (nn.keep), the place of a result (nn.return,
  /// operand `index`), or, when its state is written too early, out of it
  /// (nn.get).
  bool needsCopy(mlir::Operation *op, unsigned index = 0) {
    return copies.contains({op, index});
  }
  /// For nn.keep and for a step's result that needs one: its port.
  Root &portOf(mlir::Operation *op, unsigned index = 0) {
    return roots[ports.lookup({op, index})];
  }
  /// The number of the command that the operation becomes.
  int64_t positionOf(mlir::Operation *op) { return positions.lookup(op); }
  /// The frame of a callee: where it stands in this frame.
  Interval &callFrame(mlir::Operation *call) { return frames[call]; }
  llvm::MapVector<mlir::Operation *, Interval> &callFrames() { return frames; }
  /// What a collective needs for values on their way.
  Interval &stagingOf(mlir::Operation *op) { return staging[op]; }
  llvm::MapVector<mlir::Operation *, Interval> &allStaging() { return staging; }
  /// The bytes between the members of a packed value, and behind them: first
  /// element and number of elements of each gap.
  static llvm::SmallVector<std::pair<int64_t, int64_t>> gapsOf(nn::PackOp pack);
  /// Whether what is sent lies in a slot of a state, which stays as it is until
  /// the slot comes round again.
  bool isSentFromSlot(dist::SendOp send);
  /// For each result of a function, the argument whose place it takes, or -1.
  llvm::SmallVector<int64_t> ties;
  int64_t frameBytes = 0;

private:
  using Place = std::pair<mlir::Operation *, unsigned>;

  int64_t addRoot(Root::Kind kind, mlir::Value value, int64_t index = 0,
                  llvm::StringRef name = "");
  void share(mlir::Value value, mlir::Value with) {
    rootIndex[value] = rootIndex.lookup(with);
  }
  void assignArguments();
  int64_t stateRoot(llvm::StringRef name);
  void addSlice(mlir::Value value, int64_t of, mlir::Value number,
                mlir::ArrayAttr axes = {});
  void assignUnpack(nn::UnpackOp unpack);
  void assignCollective(mlir::Operation *op);
  bool isLastRead(mlir::Operation *reader, mlir::Value value);
  void forwardPack(nn::PackOp pack);
  int64_t commandsOf(mlir::Operation *op);
  void assign(mlir::Block &block);
  void assignResults(mlir::Operation *op, llvm::ArrayRef<int64_t> tied);
  void forward(mlir::Block &block);
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
  void number(mlir::Block &block);
  void findLifetimes(llvm::function_ref<int64_t(llvm::StringRef)> frameOf);
  void use(mlir::Value value, mlir::Operation *user);
  void packFrame();

  mlir::FunctionOpInterface function;
  const mlir::SymbolTable &symbols; ///< Of the model.
  bool library;
  llvm::SmallVector<Root> roots;
  llvm::DenseMap<mlir::Value, int64_t> rootIndex;
  llvm::StringMap<llvm::SmallVector<llvm::StringRef>> members;
  llvm::StringMap<llvm::SmallVector<nn::GetOp>> reads;
  llvm::StringMap<llvm::SmallVector<nn::SetOp>> writes;
  llvm::DenseSet<Place> copies;
  llvm::DenseMap<Place, int64_t> ports;
  llvm::DenseMap<mlir::Operation *, int64_t> positions;
  llvm::DenseMap<mlir::Operation *, int64_t> loopEnds;
  llvm::MapVector<mlir::Operation *, Interval> frames, staging;
  llvm::StringMap<int64_t> stateRoots;
  int64_t commands = 0;
};

/// The regions whose operations run when `op` does: loops and fragments.
llvm::MutableArrayRef<mlir::Region> bodiesOf(mlir::Operation *op);

/// How the dimension `dim` of a buffer of that type is split among ranks.
plan::PartLayout layoutOf(mlir::RankedTensorType type, int64_t dim,
                          std::optional<llvm::ArrayRef<int64_t>> segments);

/// What a collective of the dist dialect does.
plan::CollectiveShape shapeOf(mlir::Operation *op,
                              const mlir::SymbolTable &symbols);

/// Whether the operation is a collective of the dist dialect.
bool isCollective(mlir::Operation *op);

} // namespace heddle::memory

#endif // HEDDLE_LIB_TRANSFORMS_MEMORY_STORAGE_H
