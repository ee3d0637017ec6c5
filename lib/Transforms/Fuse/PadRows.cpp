//===- PadRows.cpp - Pads rows to aligned addresses -----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements the pass `fuse-pad-rows` (see Passes.td), and the part of
// `fuse-verify` that checks leading dimensions.
//
//===----------------------------------------------------------------------===//

#include "Groups.h"
#include "dialects/Dist/ByteSize.h"
#include "heddle/Transforms/Common/VerifyPass.h"
#include "heddle/Transforms/Fuse/Passes.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/IntEqClasses.h"

using namespace mlir;
using namespace heddle;

namespace heddle {
#define GEN_PASS_DEF_FUSEPADROWS
#include "include/heddle/Transforms/Fuse/Passes.h.inc"
} // namespace heddle

namespace {

/// Returns the tensors that a launch reads and writes, each with its operand
/// number in the kernel.
SmallVector<std::pair<Value, unsigned>> tensorsOf(planir::LaunchOp launch,
                                                  planir::KernelOp kernel) {
  SmallVector<std::pair<Value, unsigned>> tensors;
  for (OpOperand &operand : launch->getOpOperands())
    if (isa<RankedTensorType>(operand.get().getType()))
      tensors.push_back({operand.get(), operand.getOperandNumber()});
  for (OpResult result : launch->getResults())
    tensors.push_back(
        {result, kernel.getLaunchOperandOf(result.getResultNumber())});
  return tensors;
}

/// Returns pairs of operands with the same shape: for each tensor operand of a
/// kernel, the first operand of the same shape, and the operand itself.
SmallVector<std::pair<unsigned, unsigned>>
pairsOfOneShape(planir::KernelOp kernel) {
  SmallVector<std::pair<unsigned, unsigned>> pairs;
  SmallVector<Type> types = kernel.getLaunchTypes();
  for (auto [number, type] : llvm::enumerate(types)) {
    auto shaped = dyn_cast<RankedTensorType>(type);
    if (!shaped)
      continue;
    auto *first = llvm::find_if(types, [&](Type other) {
      auto tensor = dyn_cast<RankedTensorType>(other);
      return tensor && tensor.getShape() == shaped.getShape();
    });
    pairs.push_back({static_cast<unsigned>(first - types.begin()), number});
  }
  return pairs;
}

/// Whether only kernels compute and read the value.
bool isOfKernels(Value value) {
  return value.getDefiningOp<planir::LaunchOp>() &&
         llvm::all_of(value.getUsers(), llvm::IsaPred<planir::LaunchOp>);
}

/// Whether the code generator of a kernel supports padded rows. A row-wise
/// kernel supports them if no operation reshapes, slices or concatenates
/// tensors, because then all tensors have the same rows.
bool takesPadding(planir::KernelOp kernel) {
  switch (kernel.getGenerator()) {
  case nn::Generator::Gemm:
    return true;
  case nn::Generator::Rows:
  case nn::Generator::Columns:
    return llvm::none_of(
        kernel.getBody().front(),
        llvm::IsaPred<nn::ReshapeOp, nn::SliceOp, nn::ConcatOp>);
  default:
    return false;
  }
}

/// Chooses the values of one model whose rows are padded. Values are grouped
/// into equivalence classes, and either all values of a class are padded or
/// none. Two values are in one class in two cases. The first case: launches
/// pass them to a kernel as the same operand, or they are tied to each other,
/// so that they need the same leading dimension. The second case: they are
/// operands of the same kernel and have the same shape, because the kernel's
/// threads access the same columns of both values.
class RowPadder {
public:
  RowPadder(nn::ModelOp model, int64_t alignment)
      : model(model), symbols(model), alignment(alignment) {}

  /// Sets the leading dimensions of kernels' operands. Returns the number of
  /// operands that got one.
  unsigned run() {
    collect();
    llvm::BitVector areDense(members.size()), areMultiplied(members.size());
    for (auto [number, member] : llvm::enumerate(members)) {
      unsigned ofClass = classes.findLeader(number);
      if (!member.mayBePadded)
        areDense.set(ofClass);
      if (member.kernel && member.kernel.getGenerator() == nn::Generator::Gemm)
        areMultiplied.set(ofClass);
    }
    unsigned count = 0;
    for (auto [number, member] : llvm::enumerate(members)) {
      unsigned ofClass = classes.findLeader(number);
      if (!member.kernel || areDense[ofClass] || !areMultiplied[ofClass])
        continue;
      setLeadingDimension(member.kernel, member.operand);
      ++count;
    }
    return count;
  }

private:
  /// A member of an equivalence class (see RowPadder). It is either an operand
  /// of a kernel, or a value that launches read or compute.
  struct Member {
    /// The kernel that has the operand, and the operand's number. `kernel` is
    /// null if the member is a value instead.
    planir::KernelOp kernel;
    unsigned operand;
    bool mayBePadded;
  };

  void collect() {
    model.walk([&](planir::LaunchOp launch) {
      auto kernel = symbols.lookup<planir::KernelOp>(launch.getKernel());
      for (auto [value, operand] : tensorsOf(launch, kernel)) {
        auto [ofValue, isNewValue] =
            values.try_emplace(value, static_cast<unsigned>(members.size()));
        if (isNewValue)
          members.push_back(
              {{}, 0, isOfKernels(value) && leadingDimensionOf(value)});
        auto [ofOperand, isNewOperand] = operands.try_emplace(
            {kernel, operand}, static_cast<unsigned>(members.size()));
        if (isNewOperand)
          members.push_back({kernel, operand, takesPadding(kernel)});
        joined.push_back({ofValue->second, ofOperand->second});
      }
      for (auto [a, b] : pairsOfOneShape(kernel))
        joined.push_back(
            {operands.lookup({kernel, a}), operands.lookup({kernel, b})});
    });
    classes.grow(members.size());
    for (auto [a, b] : joined)
      classes.join(a, b);
  }

  /// The leading dimension with which all rows of a value are aligned. 0 if
  /// they are aligned without padding.
  int64_t leadingDimensionOf(Value value) const {
    auto type = cast<RankedTensorType>(value.getType());
    if (type.getRank() < 2 || !isa<FloatType>(type.getElementType()))
      return 0;
    int64_t columns = type.getShape().back();
    int64_t width = dist::byteSize(type.getElementType());
    if (type.getNumElements() <= columns || columns * width % alignment == 0)
      return 0;
    return llvm::alignTo(columns * width, alignment) / width;
  }

  void setLeadingDimension(planir::KernelOp kernel, unsigned operand) {
    SmallVector<Type> types = kernel.getLaunchTypes();
    SmallVector<int64_t> leading(types.size(), 0);
    if (kernel.getLeadingDimensions())
      leading.assign(kernel.getLeadingDimensions()->begin(),
                     kernel.getLeadingDimensions()->end());
    auto type = cast<RankedTensorType>(types[operand]);
    int64_t width = dist::byteSize(type.getElementType());
    leading[operand] =
        llvm::alignTo(type.getShape().back() * width, alignment) / width;
    kernel.setLeadingDimensions(leading);
  }

  nn::ModelOp model;
  SymbolTable symbols;
  int64_t alignment;
  SmallVector<Member> members;
  DenseMap<Value, unsigned> values;
  DenseMap<std::pair<Operation *, unsigned>, unsigned> operands;
  SmallVector<std::pair<unsigned, unsigned>> joined;
  llvm::IntEqClasses classes;
};

struct PadRows : heddle::impl::FusePadRowsBase<PadRows> {
  using Base::Base;

  void runOnOperation() override {
    nn::ModelOp model = getOperation();
    FailureOr<codegen::FusionRules> rules = fuse::rulesOf(model);
    if (failed(rules))
      return signalPassFailure();
    if (rules->rowAlignment > 0)
      numPadded += RowPadder(model, rules->rowAlignment).run();
  }
};

} // namespace

LogicalResult fuse::verifyLeadingDimensions(nn::ModelOp model,
                                            const codegen::FusionRules &rules) {
  SymbolTable symbols(model);
  for (auto kernel : model.getOps<planir::KernelOp>()) {
    if (!kernel.getLeadingDimensions())
      continue;
    if (rules.rowAlignment == 0 || !takesPadding(kernel))
      return kernel.emitError("H0907: has padding between rows, which its "
                              "generator has no code for");
    for (auto [a, b] : pairsOfOneShape(kernel))
      if ((kernel.getLeadingDimension(a) == 0) !=
          (kernel.getLeadingDimension(b) == 0))
        return kernel.emitError("H0907: has padding between rows of operand ")
               << a << " or of operand " << b << ", but not of both";
  }
  DenseMap<Value, int64_t> leadingOf;
  auto verifyOne = [&](planir::LaunchOp launch) -> LogicalResult {
    auto kernel = symbols.lookup<planir::KernelOp>(launch.getKernel());
    for (auto [value, operand] : tensorsOf(launch, kernel)) {
      int64_t leading = kernel.getLeadingDimension(operand);
      auto [known, isFirst] = leadingOf.try_emplace(value, leading);
      if (known->second != leading)
        return launch.emitError("H0907: has rows ")
               << leading << " elements apart as operand " << operand
               << ", and "
               << "another launch " << known->second << " (0: without padding)";
      if (leading != 0 && !isOfKernels(value))
        return launch.emitError(
                   "H0907: has padding between the rows of operand ")
               << operand << ", which not only kernels make and read";
    }
    return success();
  };
  return verifyEach<planir::LaunchOp>(model, verifyOne);
}
