//===- PlanInterfaces.td - The interface of all commands ------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_PLAN_INTERFACES
#define HEDDLE_DIALECTS_PLAN_INTERFACES

include "mlir/IR/OpBase.td"

def Plan_CommandOp : OpInterface<"CommandOpInterface"> {
  let cppNamespace = "::heddle::planir";
  let description = [{
    An operation that is one command at run time. `live` of plan.buffer counts
    the commands of a sequence, including those in regions, in the order of the
    text.

    Each command is on a stream. A stream runs its commands in the order of the
    text; between streams only tokens and communication give an order.
  }];
  let methods = [
    InterfaceMethod<[{
        The reads and writes of its operands' bytes, without those of commands
        in its regions or in the sequence that it runs. A communication accesses
        them until it is waited for. `symbols` are those of the program.
      }],
      "::llvm::SmallVector<::heddle::planir::Access>", "getAccesses",
      (ins "const ::mlir::SymbolTable &":$symbols),
      /*methodBody=*/"", /*defaultImplementation=*/"return {};">,
    InterfaceMethod<[{
        The stream that runs it. The commands in calls, loops and schedules have
        streams of their own.
      }],
      "::heddle::planir::Stream", "getOwnStream", (ins),
      /*methodBody=*/"",
      /*defaultImplementation=*/"return ::heddle::planir::Stream::Compute;">,
    InterfaceMethod<[{
        The token that its stream waits for; null if it waits for none.
      }],
      "::mlir::Value", "getAwaited", (ins),
      /*methodBody=*/"", /*defaultImplementation=*/"return {};">,
    InterfaceMethod<[{
        The token that is ready when this and all earlier commands of its stream
        are done; null if it has none.
      }],
      "::mlir::Value", "getSignal", (ins),
      /*methodBody=*/"", /*defaultImplementation=*/"return {};">,
    InterfaceMethod<[{
        The channel that it sends on. Its buffer is in use until a flush of that
        channel. Empty if it sends nothing.
      }],
      "::llvm::StringRef", "getSendingChannel", (ins),
      /*methodBody=*/"", /*defaultImplementation=*/"return {};">
  ];
}

#endif // HEDDLE_DIALECTS_PLAN_INTERFACES
