//===- PipeDialect.td - Stages, schedules and fragments -------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_PIPE_DIALECT
#define HEDDLE_DIALECTS_PIPE_DIALECT

include "dialects/Pipe/PipeAttrs.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/SymbolInterfaces.td"

class Pipe_Op<string mnemonic, list<Trait> traits = []>
    : Op<Pipe_Dialect, mnemonic, traits>;

def Pipe_StageOp : Pipe_Op<"stage", [Symbol]> {
  let summary = "A pipeline stage: consecutive layers that one group of ranks runs.";
  let description = [{
    `calls` are the module paths of the stage's layers, in order.

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
    One line for each stage (see the attribute `line`). The strategy says which
    generator made it: gpipe, 1f1b, interleaved or zb-h1.

    ```mlir
    pipe.schedule @schedule micro_batches 2
      ["F0 F1 B0 B1 O", "F0 B0 F1 B1 O"]
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, I64Attr:$micro_batches,
                       Pipe_ScheduleAttr:$stages);
  let assemblyFormat = [{
    $sym_name `micro_batches` $micro_batches $stages attr-dict
  }];
  let hasVerifier = 1;
}

def Pipe_FragmentsOp : Pipe_Op<"fragments"> {
  let summary = "Runs one stage's fragments in the order of its schedule.";
  let description = [{
    `line` is the stage's line of the schedule, without the optimizer. There is
    one region for each kind of fragment in it, in this order: forward passes,
    backward passes, backward passes of inputs, of weights; among equal ones by
    chunk. A region's arguments are the micro-batch and the slot, which is the
    micro-batch modulo the kind's number in `slots`. Only states carry values
    from one fragment to another.

    ```mlir
    pipe.fragments "F0 F1 B0 B1" slots [2, 2] {
    ^bb0(%micro_batch: index, %slot: index):
      nn.return
    }, {
    ^bb0(%micro_batch: index, %slot: index):
      nn.return
    }
    ```
  }];
  let arguments = (ins Pipe_LineAttr:$line, DenseI64ArrayAttr:$slots);
  let regions = (region VariadicRegion<SizedRegion<1>>:$bodies);
  let assemblyFormat = [{
    $line `slots` $slots attr-dict-with-keyword $bodies
  }];
  let hasVerifier = 1;
}

#endif // HEDDLE_DIALECTS_PIPE_DIALECT
