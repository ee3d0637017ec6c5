//===- Dataflow.cpp - Nothing is read before it is written ----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Transforms/Prove/Passes.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include <map>

using namespace mlir;
using namespace heddle;

namespace heddle {
#define GEN_PASS_DEF_PROVEDATAFLOW
#include "include/heddle/Transforms/Prove/Passes.h.inc"
} // namespace heddle

namespace {

/// A buffer of one activation of a sequence: its identity and its bytes in the
/// arena. States have no bytes there.
struct Place {
  int64_t identity = 0;
  int64_t offset = 0, bytes = 0;
  bool persistent = false;
};

/// Who wrote each byte last. Ranges that nobody wrote have identity 0.
class Writers {
public:
  explicit Writers(int64_t bytes) { owners[0] = 0, owners[bytes] = 0; }

  void write(const Place &place) {
    split(place.offset);
    split(place.offset + place.bytes);
    owners.erase(owners.lower_bound(place.offset),
                 owners.lower_bound(place.offset + place.bytes));
    owners[place.offset] = place.identity;
  }

  /// Whether all bytes were written last by the place's own buffer.
  bool owns(const Place &place) const {
    auto range = std::prev(owners.upper_bound(place.offset));
    for (; range != owners.end() && range->first < place.offset + place.bytes;
         ++range)
      if (range->second != place.identity)
        return false;
    return true;
  }

private:
  void split(int64_t offset) {
    auto range = std::prev(owners.upper_bound(offset));
    owners.emplace(offset, range->second);
  }
  std::map<int64_t, int64_t> owners; ///< Start of a range: its writer.
};

int64_t bytesOf(Type type) {
  auto shaped = cast<ShapedType>(type);
  return shaped.getNumElements() * shaped.getElementTypeBitWidth() / 8;
}

/// Executes one step program.
class Execution {
public:
  Execution(planir::ProgramOp program, const SymbolTable &symbols,
            int64_t &commands)
      : symbols(symbols), writers(program.getArenaBytes()), commands(commands) {
  }

  LogicalResult run(planir::SequenceOp sequence, ArrayRef<Place> arguments,
                    int64_t frame) {
    DenseMap<Value, Place> places;
    size_t next = 0;
    for (BlockArgument argument : sequence.getArguments())
      if (!argument.getType().isIndex())
        places[argument] = arguments[next++];
    return runBlock(sequence.getBody().front(), places, frame);
  }

private:
  LogicalResult runBlock(Block &block, DenseMap<Value, Place> &places,
                         int64_t frame) {
    for (Operation &op : block) {
      if (auto buffer = dyn_cast<planir::BufferOp>(op))
        placeBuffer(buffer, places, frame);
      if (auto state = dyn_cast<planir::StateRefOp>(op))
        places[state.getBuffer()].persistent = true;
      if (auto slice = dyn_cast<planir::SliceOp>(op))
        places[slice.getBuffer()] = places[slice.getSource()];
      if (auto loop = dyn_cast<planir::LoopOp>(op)) {
        // A third iteration meets what the second met.
        for (int64_t i = 0; i < std::min<int64_t>(loop.getCount(), 2); ++i)
          if (failed(runBlock(loop.getBody().front(), places, frame)))
            return failure();
      }
      if (isa<planir::LaunchOp, planir::CopyOp, planir::CallOp>(op)) {
        ++commands;
        if (failed(runCommand(op, places, frame)))
          return failure();
      }
    }
    return success();
  }

  /// Inputs are written by the runtime before the program starts.
  void placeBuffer(planir::BufferOp buffer, DenseMap<Value, Place> &places,
                   int64_t frame) {
    Place place{++lastIdentity,
                frame + static_cast<int64_t>(buffer.getOffset()),
                bytesOf(buffer.getBuffer().getType()), false};
    places[buffer.getBuffer()] = place;
    if (buffer.getPort())
      writers.write(place);
  }

  LogicalResult runCommand(Operation &op, DenseMap<Value, Place> &places,
                           int64_t frame) {
    if (auto call = dyn_cast<planir::CallOp>(op)) {
      SmallVector<Place> arguments;
      for (Value operand : call.getOperands())
        if (!operand.getType().isIndex())
          arguments.push_back(places[operand]);
      auto callee = symbols.lookup<planir::SequenceOp>(call.getSequence());
      return run(callee, arguments, frame + call.getFrameOffset());
    }
    if (auto copy = dyn_cast<planir::CopyOp>(op)) {
      if (failed(read(op, places[copy.getSource()], 1)))
        return failure();
      write(places[copy.getTarget()]);
      return success();
    }
    auto launch = cast<planir::LaunchOp>(op);
    auto kernel = symbols.lookup<planir::KernelOp>(launch.getKernel());
    size_t inputs = kernel.getArgumentTypes().size();
    for (auto [number, operand] : llvm::enumerate(launch.getOperands()))
      if (number < inputs && !operand.getType().isIndex() &&
          failed(read(op, places[operand], number)))
        return failure();
    for (int64_t tie : kernel.getTies())
      if (tie >= 0)
        write(places[launch.getOperands()[tie]]);
    for (Value output : launch.getOperands().drop_front(inputs))
      write(places[output]);
    return success();
  }

  LogicalResult read(Operation &op, const Place &place, size_t number) {
    if (place.persistent || writers.owns(place))
      return success();
    return op.emitError("H0914: operand ")
           << number << " is read, but its bytes [" << place.offset << ", "
           << place.offset + place.bytes
           << ") were not written, or were overwritten by another buffer";
  }

  void write(const Place &place) {
    if (!place.persistent)
      writers.write(place);
  }

  const SymbolTable &symbols;
  Writers writers;
  int64_t &commands;
  int64_t lastIdentity = 0;
};

struct Dataflow : heddle::impl::ProveDataflowBase<Dataflow> {
  void runOnOperation() override {
    int64_t commands = 0;
    for (auto program : getOperation().getOps<planir::ProgramOp>()) {
      SymbolTable symbols(program);
      for (auto sequence : program.getOps<planir::SequenceOp>())
        if (sequence.getKind() &&
            failed(Execution(program, symbols, commands).run(sequence, {}, 0)))
          return signalPassFailure();
    }
    numCommands += commands;
    markAllAnalysesPreserved();
  }
};

} // namespace
