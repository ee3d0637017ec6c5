//===- PlanEnums.td - Kinds of commands ------------------*- tablegen -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_PLAN_ENUMS
#define HEDDLE_DIALECTS_PLAN_ENUMS

include "mlir/IR/EnumAttr.td"

def Plan_CollectiveKind : I32EnumAttr<"CollectiveKind", "what a collective does", [
    I32EnumAttrCase<"AllReduce", 0, "all_reduce">,
    I32EnumAttrCase<"ReduceScatter", 1, "reduce_scatter">,
    I32EnumAttrCase<"AllGather", 2, "all_gather">,
    I32EnumAttrCase<"AllToAll", 3, "all_to_all">,
    I32EnumAttrCase<"Rotate", 4, "rotate">]> {
  let cppNamespace = "::heddle::planir";
  let genSpecializedAttr = 0;
}

#endif // HEDDLE_DIALECTS_PLAN_ENUMS
