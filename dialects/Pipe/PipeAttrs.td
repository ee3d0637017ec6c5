//===- PipeAttrs.td - Pipeline schedules as attributes --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The attributes of the pipe dialect. They have a file of their own, because
// the plan dialect uses them without the operations of the pipe dialect.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_PIPE_ATTRS
#define HEDDLE_DIALECTS_PIPE_ATTRS

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"

def Pipe_Dialect : Dialect {
  let name = "pipe";
  let cppNamespace = "::heddle::pipe";
  let summary = "Pipeline parallelism: which stage runs which layers, and when.";
  let description = [{
    A training step is cut into fragments: the forward or the backward pass of
    one stage on one micro-batch, and the optimizer. A schedule is data: for
    every stage the order of its fragments.
  }];
  let useDefaultAttributePrinterParser = 1;
}

def Pipe_LineAttr : AttrDef<Pipe_Dialect, "Line"> {
  let mnemonic = "line";
  let summary = "The fragments of one stage, in the order in which they run.";
  let description = [{
    `F3` is the forward pass of micro-batch 3, `B3` its backward pass, `I3` and
    `W3` the halves of a backward pass (gradients of the input and of the
    weights), `O` the optimizer; `F3/1` is the forward pass of the stage's
    second chunk of layers.

    ```mlir
    "F0 F1 B0 B1 O"
    ```
  }];
  let parameters = (ins ArrayRefParameter<"::heddle::pipe::Action">:$actions,
                        ArrayRefParameter<"::heddle::pipe::Action">:$kinds);
  let skipDefaultBuilders = 1;
  let builders = [AttrBuilder<(ins
      "::llvm::ArrayRef<::heddle::pipe::Action>":$actions), [{
    return $_get($_ctxt, actions, ::heddle::pipe::kindsOf(actions));
  }]>];
  let extraClassDeclaration = [{
    /// The index in getKinds() of the kind of `action`: a forward pass, a
    /// backward pass, a half of a backward pass, or the optimizer, for one
    /// chunk of layers.
    size_t kindOf(const ::heddle::pipe::Action &action) const;
  }];
  let hasCustomAssemblyFormat = 1;
}

def Pipe_ScheduleAttr : AttrDef<Pipe_Dialect, "Schedule"> {
  let mnemonic = "schedule";
  let summary = "The order of fragments in a step, for each stage.";
  let description = [{
    ```mlir
    ["F0 F1 B0 B1 O", "F0 B0 F1 B1 O"]
    ```
  }];
  let parameters = (ins ArrayRefParameter<"::heddle::pipe::LineAttr">:$lines);
  let hasCustomAssemblyFormat = 1;
}

#endif // HEDDLE_DIALECTS_PIPE_ATTRS
