//===- PipeDialect.td - Which part runs where, in what order --------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_PIPE_DIALECT
#define HEDDLE_DIALECTS_PIPE_DIALECT

include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"

def Pipe_Dialect : Dialect {
  let name = "pipe";
  let cppNamespace = "::heddle::pipe";
  let summary = "Which part of the step runs where, in what order.";
  let description = [{
    A training step is fragments: the forward and the backward pass of one stage
    on one micro-batch, and the optimizer. The schedule is data: for every stage
    the order of its fragments.
  }];
}

class Pipe_Op<string mnemonic, list<Trait> traits = []>
    : Op<Pipe_Dialect, mnemonic, traits>;

def Pipe_StageOp : Pipe_Op<"stage", [Symbol]> {
  let summary = "A part of the model that one group of ranks runs.";
  let description = [{
    `calls` are the module paths of the layers whose instances it runs, in order.

    ```mlir
    pipe.stage @stage0 index 0 calls ["h.0", "h.1"]
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, I64Attr:$index,
                       StrArrayAttr:$calls);
  let assemblyFormat = "$sym_name `index` $index `calls` $calls attr-dict";
}

def Pipe_ScheduleOp : Pipe_Op<"schedule", [Symbol]> {
  let summary = "The order of every stage's fragments in one training step.";
  let description = [{
    One line for each stage: `F3` is the forward pass of micro-batch 3, `B3` its
    backward pass, `O` the optimizer.

    ```mlir
    pipe.schedule @schedule kind "1f1b" micro_batches 2
      ["F0 F1 B0 B1 O", "F0 B0 F1 B1 O"]
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrAttr:$kind,
                       I64Attr:$micro_batches, StrArrayAttr:$stages);
  let assemblyFormat = [{
    $sym_name `kind` $kind `micro_batches` $micro_batches $stages attr-dict
  }];
  let hasVerifier = 1;
}

#endif // HEDDLE_DIALECTS_PIPE_DIALECT
