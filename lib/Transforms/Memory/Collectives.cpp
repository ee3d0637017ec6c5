//===- Collectives.cpp - Collectives as the plan describes them -----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Collectives.h"
#include "dialects/Plan/PlanFormat.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::memory;

bool heddle::memory::isCollective(Operation *op) {
  return isa<dist::AllReduceOp, dist::ReduceScatterOp, dist::AllGatherOp,
             dist::AllToAllOp, dist::RotateOp>(op);
}

/// Describes which elements of a buffer belong to each rank. The buffer has the
/// type `type` and is split along dimension `dim`.
static plan::PartLayout layoutOf(RankedTensorType type, int64_t dim,
                                 std::optional<ArrayRef<int64_t>> segments) {
  plan::PartLayout layout;
  int64_t inner = 1;
  for (int64_t i = 0; i < type.getRank(); ++i)
    (i < dim ? layout.outer : inner) *= i == dim ? 1 : type.getDimSize(i);
  if (segments)
    for (int64_t extent : *segments)
      layout.segments.push_back(extent * inner);
  return layout;
}

plan::CollectiveShape heddle::memory::shapeOf(Operation *op,
                                              const SymbolTable &symbols) {
  auto in = cast<RankedTensorType>(op->getOperand(0).getType());
  auto out = cast<RankedTensorType>(op->getResult(0).getType());
  plan::CollectiveShape shape;
  shape.type = shape.wire = planir::dtypeOf(in.getElementType());
  if (auto wire = op->getAttrOfType<TypeAttr>("wire"))
    shape.wire = planir::dtypeOf(wire.getValue());
  auto mesh = symbols.lookup<dist::MeshOp>("mesh");
  for (auto axis :
       op->getAttrOfType<ArrayAttr>("axes").getAsRange<StringAttr>())
    shape.ranks *= mesh ? mesh.getAxisSize(axis) : 1;
  shape.count = std::max(in.getNumElements(), out.getNumElements());
  std::optional<ArrayRef<int64_t>> segments;
  if (auto list = op->getAttrOfType<DenseI64ArrayAttr>("segments"))
    segments = list.asArrayRef();
  if (auto scatter = dyn_cast<dist::ReduceScatterOp>(op)) {
    shape.kind = plan::CollectiveKind::ReduceScatter;
    shape.layout = layoutOf(in, scatter.getDim(), segments);
  } else if (auto gather = dyn_cast<dist::AllGatherOp>(op)) {
    shape.kind = plan::CollectiveKind::AllGather;
    shape.layout = layoutOf(out, gather.getDim(), segments);
  } else if (isa<dist::RotateOp>(op)) {
    shape.kind = plan::CollectiveKind::Rotate;
  } else if (auto exchange = dyn_cast<dist::AllToAllOp>(op)) {
    shape.kind = plan::CollectiveKind::AllToAll;
    // Segments (for example queries, keys and values) divide the features, the
    // last dimension. Either the input is split along this dimension
    // (`layout`), or the output is concatenated along it (`concat`).
    bool splitsLast =
        static_cast<int64_t>(exchange.getSplitDim()) == in.getRank() - 1;
    shape.layout = layoutOf(in, exchange.getSplitDim(),
                            splitsLast ? segments : std::nullopt);
    shape.concat = layoutOf(out, exchange.getConcatDim(),
                            splitsLast ? std::nullopt : segments);
  }
  return shape;
}
