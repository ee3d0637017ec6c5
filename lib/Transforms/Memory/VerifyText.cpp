//===- VerifyText.cpp - Checks of a plan that need no offsets -------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "VerifyText.h"
#include "dialects/Dist/Parts.h"
#include "dialects/NN/ProgramPorts.h"
#include "dialects/Plan/Lifetimes.h"
#include "heddle/Transforms/Common/VerifyPass.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace heddle;

/// Checks that the type of a state is the type of a shard of the state's whole
/// tensor. `like` has the attributes of the original nn.state.
static LogicalResult verifyState(planir::StateOp state,
                                 const dist::Strategy &strategy) {
  DictionaryAttr like = state.getLike();
  auto whole = like.getAs<TypeAttr>("whole");
  auto storage = like.getAs<dist::TensorShardingAttr>("storage");
  auto segments = like.getAs<DenseI64ArrayAttr>("segments");
  if (!whole)
    return success();
  auto part = cast<RankedTensorType>(state.getType());
  if (auto packed = like.getAs<nn::PackedAttr>("packed"))
    part = packed.getOf();
  // Mesh axes of data parallelism split the bucket's flat tensor as a whole.
  // Only other mesh axes, such as those of tensor parallelism, split each
  // member of the bucket by itself.
  return dist::verifyPart(state, part, whole.getValue(), storage, segments,
                          strategy);
}

static LogicalResult verifyFlat(planir::FlatOp flat,
                                const dist::Strategy &strategy) {
  int64_t ranks = dist::groupSize(strategy, flat.getAxes());
  auto type = cast<RankedTensorType>(flat.getType());
  int64_t elements = flat.getElements();
  if (elements > 0 && type.getNumElements() == (elements - 1) / ranks + 1)
    return success();
  return flat.emitError("H0913: is ")
         << type << " on each of " << ranks << " ranks, which is no part of "
         << elements << " elements";
}

/// Whether an operation may be in a plan.sequence.
static bool isKnown(Operation *op) {
  return isa<planir::CommandOpInterface, planir::BufferOp, planir::StateRefOp,
             planir::SliceOp, planir::ViewOp, planir::RankOp, planir::EndOp,
             arith::AddIOp, arith::MulIOp>(op) ||
         (isa<arith::ConstantOp>(op) && op->getResult(0).getType().isIndex());
}

/// Whether an index is constant: the same in every iteration of a loop, and on
/// every rank.
static bool isFixed(Value index) {
  Operation *op = index.getDefiningOp();
  return op && !isa<planir::RankOp>(op) &&
         llvm::all_of(op->getOperands(), isFixed);
}

static LogicalResult verifySequence(planir::SequenceOp sequence,
                                    const dist::Strategy &strategy) {
  auto verifyOne = [&](Operation *op) -> LogicalResult {
    if (op == sequence)
      return success();
    if (isa<arith::MulIOp>(op) && !isFixed(op->getOperand(0)) &&
        !isFixed(op->getOperand(1)))
      return op->emitError("H0913: multiplies two indices that change; one of "
                           "them has to be a constant");
    bool nested = op->getParentOp() != sequence;
    if (isKnown(op) && !(nested && isa<planir::BufferOp>(op)))
      return success();
    return op->emitError("H0913: is no command of a plan")
           << (nested && isKnown(op) ? " inside of another" : "");
  };
  if (failed(verifyEach<Operation *>(sequence, verifyOne)))
    return failure();
  llvm::StringMap<planir::BufferOp> ports;
  for (auto buffer : sequence.getBody().getOps<planir::BufferOp>()) {
    nn::PortAttr port = buffer.getPort();
    if (!port)
      continue;
    auto type = cast<ShapedType>(buffer.getBuffer().getType());
    if (!nn::isTypeOf(port, type))
      return buffer.emitError("H0913: is the port \"")
             << port.getKey() << "\", which is no " << Type(type);
    if (!ports.try_emplace(port.getKey(), buffer).second)
      return buffer.emitError("H0913: is the port \"")
             << port.getKey() << "\", which another buffer is too";
  }
  return dist::verifyPorts(
      sequence, sequence.getPortsAttr(),
      [&](StringRef key) -> std::optional<ShapedType> {
        planir::BufferOp buffer = ports.lookup(key);
        if (!buffer)
          return std::nullopt;
        return buffer.getOutput()
                   ? ShapedType()
                   : cast<ShapedType>(buffer.getBuffer().getType());
      },
      strategy);
}

std::pair<planir::MemoryKind, int64_t>
memory::placeOf(const SymbolTable &symbols, planir::StateRefOp reference) {
  Operation *state = symbols.lookup(reference.getState());
  if (auto flat = dyn_cast<planir::FlatOp>(state))
    return {flat.getMemory(), flat.getOffset()};
  auto own = cast<planir::StateOp>(state);
  return {own.getMemory(), own.getOffset()};
}

/// The memory that an operand is in.
static planir::MemoryKind memoryOf(const SymbolTable &symbols, Value operand) {
  Operation *root = planir::rootOf(operand).getDefiningOp();
  if (auto buffer = dyn_cast_or_null<planir::BufferOp>(root))
    return buffer.getMemory();
  if (auto state = dyn_cast_or_null<planir::StateRefOp>(root))
    return memory::placeOf(symbols, state).first;
  return planir::MemoryKind::Device;
}

/// Checks that commands use memory that they can reach. Kernels, calls and
/// communication use the device's memory, kernels on the host use the host's,
/// and copies may use every kind.
static LogicalResult verifyReach(const SymbolTable &symbols, Operation *op) {
  using planir::MemoryKind;
  if (!isa<planir::CommandOpInterface>(op) ||
      isa<planir::CopyOp, planir::FillOp>(op))
    return success();
  auto launch = dyn_cast<planir::LaunchOp>(op);
  bool onHost = launch && launch.getStream() == planir::Stream::Host;
  auto copiesRows = dyn_cast<planir::CopyRowsOp>(op);
  for (Value operand : op->getOperands()) {
    bool isTable = copiesRows && operand == copiesRows.getSource();
    if (!isa<MemRefType>(operand.getType()) || isTable)
      continue;
    MemoryKind kind = memoryOf(symbols, operand);
    bool reaches = onHost
                       ? kind == MemoryKind::Host || kind == MemoryKind::Pinned
                       : kind == MemoryKind::Device;
    if (reaches)
      continue;
    auto diagnostic =
        op->emitError("H0925: uses ")
        << stringifyMemoryKind(kind)
        << (onHost ? " memory, which no kernel on the host reaches"
                   : " memory, which plan.copy and plan.fill "
                     "alone reach");
    diagnostic.attachNote()
        << "help: copy it to a buffer of the "
        << (onHost ? "host, as plan.buffer in pinned" : "device");
    return diagnostic;
  }
  return success();
}

static LogicalResult verifyMemory(const SymbolTable &symbols,
                                  planir::SequenceOp sequence) {
  auto verifyOne = [&](Operation *op) -> LogicalResult {
    auto buffer = dyn_cast<planir::BufferOp>(op);
    if (buffer && buffer.getMemory() != planir::MemoryKind::Device &&
        !sequence.getKind())
      return op->emitError("H0925: is in ")
             << stringifyMemoryKind(buffer.getMemory())
             << " memory, where only a step program has a frame";
    return verifyReach(symbols, op);
  };
  return verifyEach<Operation *>(sequence, verifyOne);
}

LogicalResult memory::verifyText(planir::ProgramOp program) {
  const dist::Strategy &strategy = program.getStrategy().getValue();
  for (auto flat : program.getOps<planir::FlatOp>())
    if (failed(verifyFlat(flat, strategy)))
      return failure();
  for (auto state : program.getOps<planir::StateOp>())
    if (failed(verifyState(state, strategy)))
      return failure();
  for (NamedAttribute owner : program.getOwners())
    if (!isa<IntegerAttr>(owner.getValue()))
      return program.emitError("H0913: its owner ")
             << owner.getName() << " has " << owner.getValue()
             << ", which is no number of bytes";
  SymbolTable symbols(program);
  for (auto sequence : program.getOps<planir::SequenceOp>()) {
    if (failed(verifySequence(sequence, strategy)) ||
        failed(verifyMemory(symbols, sequence)))
      return failure();
    if (!sequence.getKind())
      continue;
    if (!sequence.getArgumentTypes().empty())
      return sequence.emitError("H0913: is the program of kind \"")
             << stringifyProgramKind(*sequence.getKind())
             << "\", and takes arguments";
  }
  return success();
}
