//===- DistDialect.cpp - Where it is computed -----------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Dist/DistDialect.h"
#include "heddle/PlanFormat/Mesh.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace heddle::dist;

#include "dialects/Dist/DistDialect.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/Dist/DistAttrs.cpp.inc"

#define GET_OP_CLASSES
#include "dialects/Dist/DistOps.cpp.inc"

void DistDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/Dist/DistAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/Dist/DistOps.cpp.inc"
      >();
}

LogicalResult
TensorShardingAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                           ArrayAttr dims, ArrayAttr unreduced) {
  llvm::StringSet<> seen;
  auto check = [&](ArrayAttr axes) -> LogicalResult {
    for (Attribute axis : axes) {
      auto name = llvm::dyn_cast<StringAttr>(axis);
      if (!name)
        return emitError() << "expected the name of a mesh axis, got " << axis;
      if (!seen.insert(name.getValue()).second)
        return emitError() << "axis \"" << name.getValue()
                           << "\" is used twice in one sharding";
    }
    return success();
  };
  for (Attribute dim : dims) {
    auto axes = llvm::dyn_cast<ArrayAttr>(dim);
    if (!axes)
      return emitError() << "expected a list of axes per dimension, got "
                         << dim;
    if (failed(check(axes)))
      return failure();
  }
  return check(unreduced);
}

LogicalResult heddle::dist::verifyAxis(Operation *op, llvm::StringRef axis) {
  if (roleOf(axis))
    return success();
  auto error = op->emitOpError("names the axis \"")
               << axis << "\", which the mesh does not have; axes are ";
  llvm::interleaveComma(meshAxes(), error);
  return error;
}

LogicalResult heddle::dist::verifyAxes(Operation *op, ArrayAttr axes) {
  llvm::StringSet<> seen;
  for (llvm::StringRef axis : axes.getAsValueRange<StringAttr>()) {
    if (failed(verifyAxis(op, axis)))
      return failure();
    if (!seen.insert(axis).second)
      return op->emitOpError("names the axis \"") << axis << "\" twice";
  }
  return success();
}

/// Converts the mesh to a plan::Mesh, with which the compiler computes groups
/// of ranks. The runtime uses the same class, so the groups are the same.
static heddle::plan::Mesh listOf(MeshOp mesh) {
  heddle::plan::Mesh list;
  for (auto axis : mesh.getAxes().getAsRange<MeshAxisAttr>())
    list.axes.push_back({axis.getName().str(), axis.getSize(),
                         roleOf(axis.getName()).value_or(AxisRole::Data),
                         axis.getWhole() ? axis.getWhole().str() : ""});
  return list;
}

LogicalResult MeshOp::verify() {
  llvm::StringSet<> seen;
  for (Attribute attribute : getAxes()) {
    auto axis = llvm::dyn_cast<MeshAxisAttr>(attribute);
    if (!axis)
      return emitOpError("expected #dist.axis, got ") << attribute;
    if (axis.getSize() < 1)
      return emitOpError("axis \"")
             << axis.getName() << "\" has size " << axis.getSize()
             << "; a size is at least 1";
    if (!seen.insert(axis.getName()).second)
      return emitOpError("axis \"") << axis.getName() << "\" is named twice";
  }
  std::string problem = listOf(*this).problem();
  return problem.empty() ? success() : emitOpError("is none: ") << problem;
}

int64_t MeshOp::getNumRanks() { return listOf(*this).ranks(); }

int64_t MeshOp::getAxisSize(llvm::StringRef name) {
  plan::Mesh list = listOf(*this);
  return list.roleOf(name.str()) ? list.size(name.str()) : 0;
}

int64_t MeshOp::getSize(ArrayRef<Attribute> axes) {
  heddle::plan::AxisNames names;
  for (Attribute axis : axes)
    names.push_back(llvm::cast<StringAttr>(axis).str());
  return listOf(*this).groupSize(names);
}

int64_t MeshOp::getSize(AxisRole role) { return listOf(*this).size(role); }

SmallVector<Attribute>
MeshOp::getAxesWhere(llvm::function_ref<bool(AxisRole)> wanted) {
  auto isWanted = [&](llvm::StringRef axis) {
    std::optional<AxisRole> role = roleOf(axis);
    return role && wanted(*role);
  };
  SmallVector<Attribute> names;
  for (auto axis : getAxes().getAsRange<MeshAxisAttr>()) {
    // An axis may be a factor of another axis, as `expert` is of `data`. If
    // `wanted` accepts the other axis too, return only the other axis, because
    // it includes its factors.
    bool isInWhole = axis.getWhole() && isWanted(axis.getWhole());
    if (axis.getSize() > 1 && isWanted(axis.getName()) && !isInWhole)
      names.push_back(StringAttr::get(getContext(), axis.getName()));
  }
  return names;
}

SmallVector<Attribute> MeshOp::getAxesOf(AxisRole role) {
  return getAxesWhere([&](AxisRole other) { return other == role; });
}

OpFoldResult ReshardOp::fold(FoldAdaptor) {
  return getFrom() == getTo() ? getInput() : OpFoldResult();
}

LogicalResult StackOp::verify() {
  auto in = llvm::cast<RankedTensorType>(getInput().getType());
  auto out = llvm::cast<RankedTensorType>(getOutput().getType());
  bool isFlat = in.getRank() == 1 && out.getRank() == 1 &&
                in.getElementType() == out.getElementType();
  if (!isFlat || in.getDimSize(0) == 0 ||
      out.getDimSize(0) % in.getDimSize(0) != 0)
    return emitOpError("stacks ") << in << " to " << out;
  if (!getTo().getUnreduced().empty())
    return emitOpError("gives a partial sum");
  return success();
}

//===----------------------------------------------------------------------===//
// Local shapes
//===----------------------------------------------------------------------===//

LogicalResult heddle::dist::verifyPending(Operation *op) {
  for (Operation *user : op->getResult(0).getUsers())
    if (!llvm::isa<WaitOp>(user))
      return op->emitOpError("is pending, but used by ") << user->getName();
  return success();
}

/// Checks the rules that all collectives share. The element type must stay the
/// same. The sizes of the dimensions `dims` may change by integer factors,
/// other sizes must not change. If the collective is pending, only dist.wait
/// may use its result.
static LogicalResult verifyCollective(Operation *op, ArrayAttr axes,
                                      bool pending, ArrayRef<int64_t> dims) {
  if (axes.empty())
    return op->emitOpError("names no axis");
  if (failed(verifyAxes(op, axes)))
    return failure();
  auto in = llvm::cast<RankedTensorType>(op->getOperand(0).getType());
  auto out = llvm::cast<RankedTensorType>(op->getResult(0).getType());
  bool fits = in.getElementType() == out.getElementType() &&
              in.getRank() == out.getRank();
  for (int64_t dim = 0; fits && dim < in.getRank(); ++dim) {
    int64_t from = in.getDimSize(dim), to = out.getDimSize(dim);
    fits = llvm::is_contained(dims, dim)
               ? from > 0 && to > 0 && (from % to == 0 || to % from == 0)
               : from == to;
  }
  for (int64_t dim : dims)
    fits &= dim >= 0 && dim < in.getRank();
  if (!fits)
    return op->emitOpError("gives ") << out << " from " << in;
  return pending ? verifyPending(op) : success();
}

LogicalResult RankOp::verify() { return verifyAxes(*this, getAxes()); }
LogicalResult SendOp::verify() { return verifyAxis(*this, getAxis()); }
LogicalResult RecvOp::verify() { return verifyAxis(*this, getAxis()); }
LogicalResult AllReduceOp::verify() {
  return verifyCollective(*this, getAxes(), getPending(), {});
}
LogicalResult ReduceScatterOp::verify() {
  return verifyCollective(*this, getAxes(), getPending(),
                          {static_cast<int64_t>(getDim())});
}
LogicalResult AllGatherOp::verify() {
  return verifyCollective(*this, getAxes(), getPending(),
                          {static_cast<int64_t>(getDim())});
}
LogicalResult AllToAllOp::verify() {
  return verifyCollective(*this, getAxes(), getPending(),
                          {static_cast<int64_t>(getSplitDim()),
                           static_cast<int64_t>(getConcatDim())});
}
LogicalResult RotateOp::verify() {
  return verifyCollective(*this, getAxes(), getPending(), {});
}
LogicalResult SliceOp::verify() {
  return verifyCollective(*this, getAxes(), getPending(),
                          {static_cast<int64_t>(getDim())});
}
