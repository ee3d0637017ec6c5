//===- PlanInterfaces.td - The contract of every command ------------------===//
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
    An operation that is one run-time command. `live` of plan.buffer counts the
    commands of a sequence, those in regions too, in the order of the text.

    A command belongs to a stream. What one stream does, it does in the order of
    the text; between streams only tokens and communication make an order.
  }];
  let methods = [
    InterfaceMethod<[{
        What the command does to the bytes of its operands. What the commands in
        its regions do, or in the sequence that it runs, they say themselves. A
        communication does it from here on, until it is waited for. `symbols`
        are those of the program.
      }],
      "::llvm::SmallVector<::heddle::planir::Access>", "getAccesses",
      (ins "const ::mlir::SymbolTable &":$symbols),
      /*methodBody=*/"", /*defaultImplementation=*/"return {};">,
    InterfaceMethod<[{
        The stream that does it. Calls, loops and schedules only say what comes
        next: the commands inside have streams of their own.
      }],
      "::heddle::planir::Stream", "getOwnStream", (ins),
      /*methodBody=*/"",
      /*defaultImplementation=*/"return ::heddle::planir::Stream::Compute;">,
    InterfaceMethod<[{
        The token of what its stream waits for before it goes on; null when the
        command waits for none.
      }],
      "::mlir::Value", "getAwaited", (ins),
      /*methodBody=*/"", /*defaultImplementation=*/"return {};">,
    InterfaceMethod<[{
        The token that says that it, and what its stream did before, is done;
        null when it gives none.
      }],
      "::mlir::Value", "getSignal", (ins),
      /*methodBody=*/"", /*defaultImplementation=*/"return {};">,
    InterfaceMethod<[{
        The channel that it sends on: its buffer is in use until a flush of that
        channel. Empty when it sends nothing.
      }],
      "::llvm::StringRef", "getSendingChannel", (ins),
      /*methodBody=*/"", /*defaultImplementation=*/"return {};">
  ];
}

#endif // HEDDLE_DIALECTS_PLAN_INTERFACES
