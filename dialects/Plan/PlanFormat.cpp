//===- PlanFormat.cpp - The plan dialect in the plan format's terms -------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Plan/PlanFormat.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace heddle;

plan::DType heddle::planir::dtypeOf(Type element) {
  return element.isBF16()        ? plan::DType::BF16
         : element.isF16()       ? plan::DType::F16
         : element.isInteger(8)  ? plan::DType::U8
         : element.isInteger(32) ? plan::DType::I32
         : element.isInteger(64) ? plan::DType::I64
                                 : plan::DType::F32;
}

std::vector<std::string> heddle::planir::namesOf(ArrayAttr names) {
  std::vector<std::string> list;
  for (auto name : names.getAsRange<StringAttr>())
    list.push_back(name.str());
  return list;
}

plan::Collective heddle::planir::collectiveOf(CollectiveOp op) {
  using Kind = plan::Collective::Kind;
  plan::Collective what;
  what.kind = llvm::StringSwitch<Kind>(op.getKind())
                  .Case("reduce_scatter", Kind::ReduceScatter)
                  .Case("all_gather", Kind::AllGather)
                  .Case("all_to_all", Kind::AllToAll)
                  .Case("rotate", Kind::Rotate)
                  .Default(Kind::AllReduce);
  what.axes = namesOf(op.getAxes());
  Type element = cast<MemRefType>(op.getSource().getType()).getElementType();
  what.type = dtypeOf(element);
  what.wire = dtypeOf(op.getWire().value_or(element));
  what.outer = op.getOuter();
  what.splitOuter = op.getSplitOuter().value_or(1);
  if (auto segments = op.getSegments())
    what.segments = segments->vec();
  if (auto segments = op.getSplitSegments())
    what.splitSegments = segments->vec();
  return what;
}
