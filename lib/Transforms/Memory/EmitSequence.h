//===- EmitSequence.h - Emits command sequences -----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Second step of `memory-plan`: after Storage has decided which values share
// memory, SequenceEmitter makes the commands of a function. Frame then assigns
// offsets to the buffers of these commands.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TRANSFORMS_MEMORY_EMITSEQUENCE_H
#define HEDDLE_LIB_TRANSFORMS_MEMORY_EMITSEQUENCE_H

#include "Layout.h"
#include "Storage.h"
#include "mlir/IR/IRMapping.h"
#include <deque>

namespace heddle::memory {

/// Translates a function or step to a plan.sequence, a list of commands, after
/// Storage has decided which values share memory. The sequence has the
/// function's arguments, then one buffer for each result that is not written to
/// an argument. Offsets of buffers are assigned later (Frame.h).
class SequenceEmitter {
public:
  /// `library` says whether collectives may use the algorithms of an MPI
  /// library. These algorithms can need larger staging buffers than Heddle's
  /// own.
  SequenceEmitter(mlir::FunctionOpInterface function,
                  const mlir::SymbolTable &symbols, Storage &storage,
                  planir::ProgramOp program, bool library);
  planir::SequenceOp emit();
  int64_t numCopies = 0;
  /// Maps each collective and each fetch of the function to the command that
  /// starts it.
  llvm::MapVector<mlir::Operation *, mlir::Operation *> started;

private:
  void emitBlock(mlir::Block &block);
  void emitLaunch(planir::LaunchOp launch);
  void boundHost(planir::LaunchOp launch);
  void emitCall(nn::CallOp call);
  void emitPasses(nn::CallOp call);
  void emitLoop(nn::MicroBatchesOp loop);
  void emitFragments(pipe::FragmentsOp fragments);
  void emitBody(mlir::Operation *planned, mlir::Region &from, mlir::Region &to);
  void emitState(mlir::Operation &op);
  bool emitCommunication(mlir::Operation &op);
  void emitCollective(mlir::Operation *op);
  mlir::Value stateRangeOf(mlir::Location loc, llvm::StringRef state,
                           int64_t element, mlir::Value slot, mlir::Type type);
  mlir::Value copyBeside(mlir::Location loc, planir::Stream stream,
                         mlir::Value target, mlir::Value source,
                         dist::FetchRowsOp rows = {});
  void waitForOthers(mlir::Location loc, planir::Stream stream,
                     const StateRange &run, bool isAtOnce = false);
  void begin(mlir::Operation *fetch, const StateRange &run, mlir::Value done);
  void emitFetch(dist::FetchOp fetch);
  void emitFetchRows(dist::FetchRowsOp fetch);
  void emitStore(dist::StoreOp store);
  void emitFlush(dist::FlushOp flush);
  void emitCarry(dist::CarryOp carry);
  void emitMove(dist::MoveOp move);
  void emitCommands(mlir::Block &block);
  void emitOperation(mlir::Operation &op);
  void guardNew(mlir::FlatSymbolRefAttr condition, mlir::Operation *before);
  void emitWait(dist::WaitOp wait);
  void waitFor(mlir::Location loc, mlir::Value token,
               planir::Stream stream = planir::Stream::Compute);
  void emitSend(dist::SendOp send);
  void emitPack(nn::PackOp pack);
  mlir::Value numberOf(const Root &root);
  mlir::Value partOf(Root &root, mlir::Location loc);
  void emitReturn(nn::ReturnOp terminator);
  void copy(mlir::Location loc, mlir::Value target, mlir::Value source);
  void insertAtTop();
  mlir::Value bufferOf(Root &root);
  mlir::Value valueFor(mlir::Value value);
  mlir::Value slice(mlir::Location loc, mlir::Value whole, mlir::Value index,
                    mlir::RankedTensorType part);

  mlir::FunctionOpInterface function;
  const mlir::SymbolTable &symbols; ///< The model's symbol table.
  Storage &storage;
  planir::ProgramOp program;
  bool library;
  mlir::OpBuilder builder;
  planir::SequenceOp sequence;
  mlir::Operation *lastAtTop = nullptr;
  llvm::DenseMap<Root *, mlir::Value> buffers;
  /// The entries of `buffers` that are defined at the beginning of the
  /// plan.sequence, so that all its MLIR regions can use them.
  llvm::DenseMap<Root *, mlir::Value> insertedAtTop;
  llvm::StringMap<mlir::Value> states;
  /// For each value that is still being computed or transferred, the token to
  /// wait for before the value is used.
  llvm::DenseMap<mlir::Value, mlir::Value> tokens;
  /// A copy to or from a state. It is on another stream than `compute`, and may
  /// still be running.
  struct UnderWay {
    StateRange run;
    mlir::Value token;
  };
  std::deque<UnderWay> fetches, stores;
  RangeOverlaps overlap;
  /// The number of stores that continue during the next step.
  int64_t numCarried = 0;
  /// Tokens that were recorded after recent kernels of the stream `host`, the
  /// oldest first. The stream `compute` waits for the oldest token when there
  /// are too many, which limits the number of unfinished kernels of `host`.
  std::deque<mlir::Value> onHost;
  mlir::IRMapping scalars;
  mlir::Value loopIndex;
};

/// Whether the bucket is split over ranks.
bool isSplit(nn::BucketOp bucket);

} // namespace heddle::memory

#endif // HEDDLE_LIB_TRANSFORMS_MEMORY_EMITSEQUENCE_H
