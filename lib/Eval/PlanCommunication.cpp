//===- PlanCommunication.cpp - Communication of PlanInterpreter -----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Collectives and messages on bytes.
//
//===----------------------------------------------------------------------===//

#include "PlanInterpreter.h"

#include "llvm/ADT/TypeSwitch.h"
#include <cstring>

using namespace mlir;
using heddle::plan::CollectiveKind;

namespace heddle::eval {

static Collective describe(planir::CollectiveOp op) {
  plan::Collective planned = planir::collectiveOf(op);
  auto target = cast<ShapedType>(op.getTarget().getType());
  Collective what;
  what.kind = planned.kind;
  what.axes = planned.axes;
  what.shape = target.getShape().vec();
  what.wire = kindOf(op.getWire().value_or(target.getElementType()));
  bool exchanges = what.kind == CollectiveKind::AllToAll;
  (exchanges ? what.concat : what.layout) = {planned.outer, planned.segments};
  if (exchanges)
    what.layout = {planned.splitOuter, planned.splitSegments};
  return what;
}

LogicalResult PlanInterpreter::runCollective(planir::CollectiveOp collective,
                                             Environment &values) {
  // The source is read when the collective starts, because the plan must not
  // change it until the wait.
  Tensor input = readMemory(collective.getSource().getType(),
                            values.lookup(collective.getSource()).address);
  FailureOr<int64_t> ticket =
      rank.start(collective, describe(collective), input);
  if (failed(ticket))
    return failure();
  Type type = collective.getTarget().getType();
  char *target = values.lookup(collective.getTarget()).address;
  pending[*ticket] = {type, target};
  values[collective.getToken()] = Operand{nullptr, *ticket};
  if (options.poison)
    std::memset(target, poisonByte, dist::byteSize(type));
  return success();
}

LogicalResult PlanInterpreter::runWait(planir::WaitOp wait,
                                       const Environment &values) {
  auto started = pending.find(values.lookup(wait.getToken()).scalar);
  if (started == pending.end())
    return wait.emitError("waits for what was not started");
  auto [ticket, communication] = *started;
  pending.erase(started);
  FailureOr<Tensor> value = rank.wait(ticket);
  if (failed(value))
    return failure();
  StringRef bytes(communication.target, dist::byteSize(communication.type));
  bool isUntouched = llvm::all_of(
      bytes, [](char byte) { return byte == static_cast<char>(poisonByte); });
  if (options.poison && !isUntouched)
    return wait.emitError("finds its target written while it was under way");
  value->toBytes(communication.target);
  return success();
}

LogicalResult PlanInterpreter::runCommunication(Operation *op,
                                                Environment &values) {
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](planir::CollectiveOp collective) {
        return runCollective(collective, values);
      })
      .Case([&](planir::SendOp send) {
        // The buffer is read only when the message is received. A plan that
        // changes the buffer too early then gives a wrong result.
        Type type = send.getBuffer().getType();
        const char *memory = values.lookup(send.getBuffer()).address;
        rank.send(send, send.getAxis(), send.getDelta(), send.getChannel(),
                  [type, memory] { return readMemory(type, memory); });
        return success();
      })
      .Case([&](planir::RecvOp receive) -> LogicalResult {
        FailureOr<Tensor> value =
            rank.receive(receive, receive.getAxis(), receive.getDelta(),
                         receive.getChannel(),
                         cast<ShapedType>(receive.getBuffer().getType()));
        if (failed(value))
          return failure();
        value->toBytes(values.lookup(receive.getBuffer()).address);
        return success();
      })
      .Case([&](planir::FlushOp flush) {
        return rank.flush(flush, flush.getChannel(), flush.getLeft());
      });
}

} // namespace heddle::eval
