//===- PlanEnums.td - Enumerations of commands and memory -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_PLAN_ENUMS
#define HEDDLE_DIALECTS_PLAN_ENUMS

include "mlir/IR/EnumAttr.td"

class Plan_Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::heddle::planir";
  let genSpecializedAttr = 0;
}

def Plan_CollectiveKind : Plan_Enum<"CollectiveKind", "the kind of a collective", [
    I32EnumAttrCase<"AllReduce", 0, "all_reduce">,
    I32EnumAttrCase<"ReduceScatter", 1, "reduce_scatter">,
    I32EnumAttrCase<"AllGather", 2, "all_gather">,
    I32EnumAttrCase<"AllToAll", 3, "all_to_all">,
    I32EnumAttrCase<"Rotate", 4, "rotate">]>;

def Plan_Stream : Plan_Enum<"Stream", "the stream of a command", [
    I32EnumAttrCase<"Compute", 0, "compute">,
    I32EnumAttrCase<"Communication", 1, "communication">,
    I32EnumAttrCase<"Copy", 2, "copy">,
    I32EnumAttrCase<"Store", 3, "store">,
    I32EnumAttrCase<"Host", 4, "host">]>;

def Plan_ProductEnd : Plan_Enum<"ProductEnd", "the epilogue of a matrix product", [
    I32EnumAttrCase<"Plain", 0, "plain">,
    I32EnumAttrCase<"GeluTanh", 1, "gelu_tanh">,
    I32EnumAttrCase<"GeluTanhGrad", 2, "gelu_tanh_grad">]>;

#endif // HEDDLE_DIALECTS_PLAN_ENUMS
