//===- ModelCommunication.cpp - Communication of ModelInterpreter ---------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Collectives and messages on tensors.
//
//===----------------------------------------------------------------------===//

#include "ModelInterpreter.h"

#include "llvm/ADT/TypeSwitch.h"
#include <limits>

using namespace mlir;
using heddle::plan::CollectiveKind;

namespace heddle::eval {

/// The layout of a tensor that is split into parts along dimension `dim`.
static plan::PartLayout layoutOf(Type type, int64_t dim,
                                 ArrayRef<int64_t> segments) {
  ArrayRef<int64_t> shape = cast<ShapedType>(type).getShape();
  plan::PartLayout layout;
  int64_t inner = 1;
  for (int64_t extent : shape.take_front(dim))
    layout.outer *= extent;
  for (int64_t extent : shape.drop_front(dim + 1))
    inner *= extent;
  for (int64_t segment : segments)
    layout.segments.push_back(segment * inner);
  return layout;
}

static ArrayRef<int64_t> segmentsOf(Operation *op) {
  auto segments = op->getAttrOfType<DenseI64ArrayAttr>("segments");
  return segments ? segments.asArrayRef() : ArrayRef<int64_t>();
}

static Collective describe(Operation *op) {
  Type in = op->getOperand(0).getType(), out = op->getResult(0).getType();
  ArrayRef<int64_t> segments = segmentsOf(op);
  Collective what;
  what.axes = planir::namesOf(op->getAttrOfType<ArrayAttr>("axes"));
  what.shape = cast<ShapedType>(out).getShape().vec();
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](dist::ReduceScatterOp scatter) {
        what.kind = CollectiveKind::ReduceScatter;
        what.layout = layoutOf(in, scatter.getDim(), segments);
      })
      .Case([&](dist::AllGatherOp gather) {
        what.kind = CollectiveKind::AllGather;
        what.layout = layoutOf(out, gather.getDim(), segments);
      })
      .Case([&](dist::RotateOp) { what.kind = CollectiveKind::Rotate; })
      .Case([&](dist::AllToAllOp exchange) {
        what.kind = CollectiveKind::AllToAll;
        int64_t split = exchange.getSplitDim(),
                concat = exchange.getConcatDim();
        // Only the last dimension can have segments, for example the features
        // of q, k and v, which are split among ranks separately.
        int64_t last = cast<ShapedType>(in).getRank() - 1;
        what.layout =
            layoutOf(in, split, split == last ? segments : ArrayRef<int64_t>());
        what.concat = layoutOf(out, concat,
                               concat == last ? segments : ArrayRef<int64_t>());
      });
  return what;
}

std::optional<ElementKind> ModelInterpreter::wireOf(Operation *op) const {
  if (options.fullPrecision)
    return std::nullopt;
  auto wire = op->getAttrOfType<TypeAttr>("wire");
  return kindOf(wire ? wire.getValue()
                     : getElementTypeOrSelf(op->getResult(0).getType()));
}

LogicalResult ModelInterpreter::exchange(Operation *op, const Collective &what,
                                         const Tensor &input,
                                         Tensors &results) {
  FailureOr<int64_t> ticket = rank.start(op, what, input);
  if (failed(ticket))
    return failure();
  FailureOr<Tensor> value = rank.wait(*ticket);
  if (failed(value))
    return failure();
  results.push_back(round(*value, op->getResult(0).getType()));
  return success();
}

/// Executes a reshard in a module that is split into pipeline stages, but whose
/// tensors are not yet sharded. Only partial sums over stages must be added up;
/// other reshards do nothing.
LogicalResult ModelInterpreter::runReshard(dist::ReshardOp reshard,
                                           const Tensor &input,
                                           Tensors &results) {
  auto isPartial = [](dist::TensorShardingAttr sharding) {
    return llvm::is_contained(planir::namesOf(sharding.getUnreduced()),
                              dist::pipelineAxis());
  };
  if (!isPartial(reshard.getFrom()) || isPartial(reshard.getTo())) {
    results.push_back(input);
    return success();
  }
  Collective what;
  what.axes = {dist::pipelineAxis().str()};
  what.shape = input.shape().vec();
  what.wire = wireOf(reshard);
  return exchange(reshard, what, input, results);
}

/// What dist.stack gives in a module whose tensors are not yet sharded. Which
/// summand of a partial sum a rank will have is not known there: each has an
/// equal share.
static Tensor stacked(dist::StackOp stack, const Tensor &input) {
  Tensor all(stack.getOutput().getType());
  int64_t count = input.numElements(), ranks = all.numElements() / count;
  for (int64_t rank = 0; rank < ranks; ++rank)
    all.copyFrom(input, 0, rank * count, count);
  if (!stack.getFrom().getUnreduced().empty() && isFloat(all.kind()))
    for (double &element : all.mutableFloats())
      element /= static_cast<double>(ranks);
  return all;
}

/// The value that the result of a collective or a fetch has until the wait for
/// it: NaN, or zeros for integers. An operation that reads the result too early
/// gets this value.
static Tensor unknown(Type type) {
  Tensor value(type);
  if (isFloat(value.kind()))
    for (double &element : value.mutableFloats())
      element = std::numeric_limits<double>::quiet_NaN();
  return value;
}

LogicalResult ModelInterpreter::runCollective(Operation *op,
                                              const Tensor &input,
                                              Tensors &results) {
  Collective what = describe(op);
  what.wire = wireOf(op);
  if (!op->hasAttr("pending"))
    return exchange(op, what, input, results);
  FailureOr<int64_t> ticket = rank.start(op, what, input);
  if (failed(ticket))
    return failure();
  pending[op->getResult(0)] = *ticket;
  results.push_back(unknown(op->getResult(0).getType()));
  return success();
}

LogicalResult ModelInterpreter::runSlice(dist::SliceOp slice,
                                         const Tensor &input,
                                         Tensors &results) {
  plan::PartLayout layout =
      layoutOf(slice.getInput().getType(), slice.getDim(), segmentsOf(slice));
  int64_t ranks = rank.mesh().groupSize(planir::namesOf(slice.getAxes()));
  int64_t count = input.numElements();
  Tensor part(slice.getOutput().getType());
  if (!plan::splits(layout, count, ranks) ||
      part.numElements() * ranks != count)
    return slice.emitError("cannot be cut for ") << ranks << " ranks";
  for (auto [at, element] : llvm::enumerate(elementsOfPart(
           layout, count, ranks, rank.coordinate(slice.getAxes()))))
    part.copyFrom(input, element, at, 1);
  results.push_back(part);
  return success();
}

/// Returns the rows of a table that dist.fetch_rows reads from `flat`, an
/// offloaded bucket. An id that is not a row of the table gives NaN. If `first`
/// is given, the table is a shard, and ids of other shards give zeros.
static Tensor rowsOf(dist::FetchRowsOp fetch, const Tensor &flat,
                     const Tensor &ids, const Tensor *first) {
  Tensor chosen(fetch.getOutput().getType());
  int64_t columns = chosen.columns(), position = 0;
  for (int64_t id : ids.ints()) {
    int64_t row = id - (first ? first->ints().front() : 0);
    if (row >= 0 && row < static_cast<int64_t>(fetch.getRows()))
      chosen.copyFrom(flat, fetch.getElement() + row * columns, position,
                      columns);
    else
      std::fill_n(chosen.mutableFloats().begin() + position, columns,
                  first ? 0 : std::nan(""));
    position += columns;
  }
  return chosen;
}

LogicalResult ModelInterpreter::runCommunication(Operation *op,
                                                 ArrayRef<Tensor> args,
                                                 Tensors &results) {
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](dist::ReshardOp reshard) {
        return runReshard(reshard, args[0], results);
      })
      .Case([&](dist::StackOp stack) {
        results.push_back(stacked(stack, args[0]));
        return success();
      })
      .Case<dist::AllReduceOp, dist::ReduceScatterOp, dist::AllGatherOp,
            dist::AllToAllOp, dist::RotateOp>([&](Operation *collective) {
        return runCollective(collective, args[0], results);
      })
      .Case([&](dist::SliceOp slice) {
        return runSlice(slice, args[0], results);
      })
      .Case([&](dist::FetchOp fetch) {
        Tensor run(fetch.getOutput().getType());
        run.copyFrom(
            readState(fetch.getState(), fetch.getSlot() ? &args[0] : nullptr),
            fetch.getElement(), 0, run.numElements());
        if (fetch.getPending()) {
          fetched[fetch.getOutput()] = run;
          run = unknown(fetch.getOutput().getType());
        }
        results.push_back(run);
        return success();
      })
      .Case([&](dist::FetchRowsOp fetch) {
        Tensor rows = rowsOf(fetch, readState(fetch.getState(), nullptr),
                             args[0], fetch.getFirst() ? &args[1] : nullptr);
        if (fetch.getPending())
          fetched[fetch.getOutput()] = rows;
        results.push_back(
            fetch.getPending() ? unknown(fetch.getOutput().getType()) : rows);
        return success();
      })
      .Case([&](dist::MoveOp move) {
        if (move.getPending())
          fetched[move.getOutput()] = args[0];
        results.push_back(move.getPending() ? unknown(move.getType())
                                            : args[0]);
        return success();
      })
      .Case([&](dist::StoreOp store) {
        const Tensor *slot = store.getSlot() ? &args[1] : nullptr;
        Tensor whole = readState(store.getState(), slot);
        whole.copyFrom(args[0], 0, store.getElement(), args[0].numElements());
        writeState(store.getState(), whole, slot);
        return success();
      })
      // A wait for stores does nothing, because stores are executed
      // immediately.
      .Case<dist::FlushOp, dist::CarryOp, dist::SettleOp>(
          [&](Operation *) { return success(); })
      .Case([&](dist::WaitOp wait) -> LogicalResult {
        if (auto run = fetched.find(wait.getInput()); run != fetched.end()) {
          results.push_back(run->second);
          fetched.erase(run);
          return success();
        }
        auto ticket = pending.find(wait.getInput());
        if (ticket == pending.end())
          return wait.emitError("waits for what was not started");
        FailureOr<Tensor> value = rank.wait(ticket->second);
        pending.erase(ticket);
        if (failed(value))
          return failure();
        results.push_back(round(*value, wait.getOutput().getType()));
        return success();
      })
      .Case([&](dist::SendOp send) {
        rank.send(send, send.getAxis(), send.getDelta(), send.getChannel(),
                  [value = args[0]] { return value; });
        return success();
      })
      .Case([&](dist::RecvOp receive) -> LogicalResult {
        FailureOr<Tensor> value =
            rank.receive(receive, receive.getAxis(), receive.getDelta(),
                         receive.getChannel(),
                         cast<ShapedType>(receive.getValue().getType()));
        if (failed(value))
          return failure();
        results.push_back(*value);
        return success();
      })
      .Default([](Operation *other) {
        return other->emitError("the interpreter does not know '")
               << other->getName() << "'";
      });
}

} // namespace heddle::eval
