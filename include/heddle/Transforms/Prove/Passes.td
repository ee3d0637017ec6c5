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
  let summary = "Proves that nothing is read before it is written, or after it is lost.";
  let description = [{
    Runs every step program on bytes that remember who wrote them: sequences are
    entered with the addresses of their arguments; loops and fragments run until
    they meet nothing new. Every read must find the bytes of its buffer as that
    buffer's own last writer left them; a slot, what its own micro-batch left.
    Parameters and moments hold what earlier steps left, and the optimizer alone
    writes them; gradients and sums are written before they are read. Inputs are
    written by the runtime.
  }];
  let statistics = [
    Statistic<"numCommands", "commands", "Commands that were executed">
  ];
}

def ProveCommunication : Pass<"prove-communication", "::mlir::ModuleOp"> {
  let summary = "Proves that ranks do not wait for each other for ever, and meet no race.";
  let description = [{
    Unrolls the step programs of all stages for one rank of each; what ranks of
    one stage do together fits by construction. Refused are: collectives that the
    members of a group do not all run, in one order and shape; messages that are
    sent and not received, or received in another size, type or micro-batch;
    circles of ranks that wait for each other, when a send is done no earlier than
    its receive, and on GPUs no earlier than the rank's sends before it; commands
    that touch what a communication under way uses; and communications that nobody
    waits for; parameters, losses and norms that could differ between ranks which
    hold the same ones; and, in programs that serve, collectives along `data`: the
    groups of ranks there run them each for its own texts, unless ZeRO 3 splits the
    weights along it. The dataflow is checked again,
    rank by rank, with `every-rank`.
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
