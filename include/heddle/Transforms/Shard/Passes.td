//===- Passes.td - Passes of lib/Transforms/Shard ----------*- tablegen -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TRANSFORMS_SHARD_PASSES
#define HEDDLE_TRANSFORMS_SHARD_PASSES

include "mlir/Pass/PassBase.td"

def ShardPropagate : Pass<"shard-propagate", "::mlir::ModuleOp"> {
  let summary = "Gives every value one closed sharding.";
  let description = [{
    Makes the mesh of the strategy. The rows of a step's inputs are split over its
    `data` axis; from there shardings follow each operation's rule: results take
    the axes of their factors, and are partial sums over the axes of factors that
    are summed. Where an operand comes otherwise than a rule can take it, a
    `dist.reshard` is put in, with the operation that asked for it. An axis of
    size 1 splits nothing and is named by no sharding.

    ```mlir
    %y = nn.linear %x, %w {shardings = [#dist.sharding<[["data"], [], []], unreduced []>]}
    ```
  }];
  let dependentDialects = ["::heddle::dist::DistDialect"];
  let statistics = [
    Statistic<"numReshards", "reshards", "Reshards that were put in">
  ];
}

def ShardVerify : Pass<"shard-verify", "::mlir::ModuleOp"> {
  let summary = "Checks what the shard phase promises.";
  let description = [{
    Every computation carries a sharding for each tensor result, with one list of
    axes per dimension and only axes of the mesh; what is written to a state or
    returned from a step is no partial sum.
  }];
}

#endif // HEDDLE_TRANSFORMS_SHARD_PASSES
