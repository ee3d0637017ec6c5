//===- Passes.td - Passes of lib/Transforms/Prove ----------*- tablegen -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TRANSFORMS_PROVE_PASSES
#define HEDDLE_TRANSFORMS_PROVE_PASSES

include "mlir/Pass/PassBase.td"

def ProveDataflow : Pass<"prove-dataflow", "::mlir::ModuleOp"> {
  let summary = "Proves that every read finds the value that it is meant to read.";
  let description = [{
    Executes every step program on memory that records for each byte which buffer it
    was written for. Calls are entered with the addresses of their arguments. Loops and
    fragments are executed until the records do not change any more. A read must find
    bytes that were last written for the same buffer; a read of a slot, bytes of the
    same micro-batch. The runtime writes inputs. Parameters and moments hold values of
    the step before, and only the optimizer writes them. Gradients must be written
    before they are read. Offloaded states, activations and gradients must be stored and
    fetched with the elements that they belong to.
  }];
  let statistics = [
    Statistic<"numCommands", "commands", "Commands that were executed">
  ];
}

def ProveCommunication : Pass<"prove-communication", "::mlir::ModuleOp"> {
  let summary = "Proves that ranks neither deadlock nor race.";
  let description = [{
    Unrolls the step programs of one rank of each pipeline stage: all ranks of a stage
    run the same commands, so their collectives match. These plans are refused:

    - The members of a group do not run the same collectives, in one order and shape.
    - A message is sent and not received, or received with another size, element type or
      micro-batch.
    - Ranks wait for each other in a cycle. A send is assumed to end no earlier than its
      receive, and on GPUs no earlier than the rank's sends before it.
    - A command touches memory that a communication in flight uses, or nothing waits for
      a communication.
    - Parameters, losses or norms could differ between ranks that hold the same ones.
    - A program that serves has a collective along `data`. The groups of ranks along
      `data` serve different requests, unless ZeRO 3 splits the weights along it.

    With `every-rank` each rank of the mesh is unrolled, and its dataflow is checked
    again.
  }];
  let options = [
    Option<"everyRank", "every-rank", "bool", "false",
           "Unroll the programs for every rank of the mesh.">
  ];
  let statistics = [
    Statistic<"numMessages", "communications",
              "Commands of the programs that communicate">
  ];
}

#endif // HEDDLE_TRANSFORMS_PROVE_PASSES
