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
include "mlir/IR/BuiltinAttributes.td"
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
    backward pass, `O` the optimizer. The strategy says which generator made it.

    ```mlir
    pipe.schedule @schedule micro_batches 2
      ["F0 F1 B0 B1 O", "F0 B0 F1 B1 O"]
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, I64Attr:$micro_batches,
                       StrArrayAttr:$stages);
  let assemblyFormat = [{
    $sym_name `micro_batches` $micro_batches $stages attr-dict
  }];
  let hasVerifier = 1;
}

def Pipe_FragmentsOp : Pipe_Op<"fragments"> {
  let summary = "Runs one stage's fragments in the order of its schedule.";
  let description = [{
    `line` is the stage's line of the schedule, without the optimizer. Each region
    is one kind of fragment, named in `kinds` as the line writes it without its
    micro-batch: `F`, `B`, or `F/1` for the second chunk. Its arguments are the
    micro-batch and the slot, micro-batch mod `slots` of that kind. Nothing is
    carried from one fragment to another but states.

    ```mlir
    pipe.fragments "F0 F1 B0 B1" kinds ["F", "B"] slots [2, 2] {
    ^bb0(%micro_batch: index, %slot: index):
      nn.return
    }, {
    ^bb0(%micro_batch: index, %slot: index):
      nn.return
    }
    ```
  }];
  let arguments = (ins StrAttr:$line, StrArrayAttr:$kinds,
                       DenseI64ArrayAttr:$slots);
  let regions = (region VariadicRegion<SizedRegion<1>>:$bodies);
  let assemblyFormat = [{
    $line `kinds` $kinds `slots` $slots attr-dict-with-keyword $bodies
  }];
  let hasVerifier = 1;
}

#endif // HEDDLE_DIALECTS_PIPE_DIALECT
