//===- LowerToLLVM.cpp - From kernels in upstream dialects to llvm -----------
//===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Codegen/CPU/CompileObject.h"
#include "mlir/Conversion/AffineToStandard/AffineToStandard.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVMPass.h"
#include "mlir/Conversion/IndexToLLVM/IndexToLLVM.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MemRefToLLVM/MemRefToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/UBToLLVM/UBToLLVM.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Index/IR/IndexDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

namespace heddle::cpu {

namespace {
/// Replaces exp, tanh, erf, log ... on vectors and scalars by polynomials, so
/// that no call to a math library remains.
struct ApproximateMathPass
    : public PassWrapper<ApproximateMathPass, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ApproximateMathPass)

  StringRef getArgument() const final { return "approximate-math"; }

  void getDependentDialects(DialectRegistry &registry) const final {
    registry.insert<arith::ArithDialect, math::MathDialect,
                    vector::VectorDialect>();
  }

  void runOnOperation() final {
    RewritePatternSet patterns(&getContext());
    populateMathPolynomialApproximationPatterns(patterns);
    if (failed(
            applyPatternsAndFoldGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};

/// The type `like`, a scalar or a vector, with the element type `element`.
static Type withElement(Type like, Type element) {
  auto shaped = dyn_cast<ShapedType>(like);
  return shaped ? Type(shaped.clone(element)) : element;
}

static Value constantOf(ImplicitLocOpBuilder &b, Type type, int64_t value) {
  TypedAttr attribute = b.getIntegerAttr(getElementTypeOrSelf(type), value);
  if (auto shaped = dyn_cast<ShapedType>(type))
    attribute = DenseElementsAttr::get(shaped, attribute);
  return b.create<arith::ConstantOp>(attribute);
}

/// Widens bf16 to f32 with integer operations. The operation `fpext` would be
/// slow, because LLVM handles bf16 vectors element by element. LLVM would also
/// move an absolute value from the f32 result to the bf16 operand, where it is
/// slow too.
struct WidenWithIntegers : OpRewritePattern<arith::ExtFOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(arith::ExtFOp op,
                                PatternRewriter &rewriter) const final {
    Value in = op.getIn();
    if (!getElementTypeOrSelf(in).isBF16() ||
        !getElementTypeOrSelf(op.getType()).isF32())
      return failure();
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    Type wide = withElement(op.getType(), b.getI32Type());
    Value bits = b.create<arith::ExtUIOp>(
        wide, b.create<arith::BitcastOp>(
                  withElement(op.getType(), b.getI16Type()), in));
    rewriter.replaceOpWithNewOp<arith::BitcastOp>(
        op, op.getType(),
        b.create<arith::ShLIOp>(bits, constantOf(b, wide, 16)));
    return success();
  }
};

/// Rounds f32 to bf16 with integer operations, to nearest, ties to even. A NaN
/// keeps its upper half and becomes quiet, as with vcvtneps2bf16. MLIR's own
/// expansion selects a constant for NaN instead. This pattern avoids that,
/// because LLVM selects bf16 values element by element.
struct RoundWithIntegers : OpRewritePattern<arith::TruncFOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(arith::TruncFOp op,
                                PatternRewriter &rewriter) const final {
    Value in = op.getIn();
    if (!getElementTypeOrSelf(in).isF32() ||
        !getElementTypeOrSelf(op.getType()).isBF16())
      return failure();
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    Type wide = withElement(op.getType(), b.getI32Type());
    auto constant = [&](int64_t value) { return constantOf(b, wide, value); };
    Value sixteen = constant(16);
    Value bits = b.create<arith::BitcastOp>(wide, in);
    Value odd = b.create<arith::AndIOp>(b.create<arith::ShRUIOp>(bits, sixteen),
                                        constant(1));
    Value rounded = b.create<arith::AddIOp>(
        b.create<arith::AddIOp>(bits, constant(0x7fff)), odd);
    Value isNumber = b.create<arith::CmpFOp>(arith::CmpFPredicate::ORD, in, in);
    Value quiet = b.create<arith::OrIOp>(bits, constant(0x400000));
    rounded = b.create<arith::SelectOp>(isNumber, rounded, quiet);
    Value upper =
        b.create<arith::TruncIOp>(withElement(op.getType(), b.getI16Type()),
                                  b.create<arith::ShRUIOp>(rounded, sixteen));
    rewriter.replaceOpWithNewOp<arith::BitcastOp>(op, op.getType(), upper);
    return success();
  }
};

/// Replaces conversions from bf16 to f32 by integer operations. If `rounds`,
/// also replaces conversions from f32 to bf16, for which the CPU then has no
/// instruction.
struct ExpandBf16Pass
    : public PassWrapper<ExpandBf16Pass, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ExpandBf16Pass)

  explicit ExpandBf16Pass(bool rounds) : rounds(rounds) {}

  StringRef getArgument() const final { return "expand-bf16"; }

  void runOnOperation() final {
    RewritePatternSet patterns(&getContext());
    patterns.add<WidenWithIntegers>(&getContext());
    if (rounds)
      patterns.add<RoundWithIntegers>(&getContext());
    if (failed(
            applyPatternsAndFoldGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }

  bool rounds;
};
} // namespace

void registerCpuCodegen(DialectRegistry &registry) {
  registry
      .insert<affine::AffineDialect, arith::ArithDialect,
              cf::ControlFlowDialect, func::FuncDialect, index::IndexDialect,
              LLVM::LLVMDialect, math::MathDialect, memref::MemRefDialect,
              scf::SCFDialect, ub::UBDialect, vector::VectorDialect>();
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
}

LogicalResult lowerToLLVM(ModuleOp module, const CpuTarget &target) {
  PassManager pm(module.getContext());
  // To save time, verify only the result of the last pass. The other passes are
  // unlikely to produce an invalid module: MLIR defines most of them, and the
  // two that this file defines are simple.
  pm.enableVerifier(false);
  pm.addNestedPass<func::FuncOp>(std::make_unique<ApproximateMathPass>());
  // Lower subviews to arithmetic on the base pointer, and the affine maps that
  // this creates to arith.
  pm.addPass(memref::createExpandStridedMetadataPass());
  pm.addPass(createLowerAffinePass());
  pm.addNestedPass<func::FuncOp>(
      std::make_unique<ExpandBf16Pass>(!target.hasBf16Dot));
  pm.addPass(createCSEPass());
  pm.addPass(createConvertSCFToCFPass());
  pm.addPass(createConvertVectorToLLVMPass());
  pm.addPass(createFinalizeMemRefToLLVMConversionPass());
  pm.addPass(createConvertMathToLLVMPass());
  pm.addPass(createArithToLLVMConversionPass());
  pm.addPass(createConvertIndexToLLVMPass());
  pm.addPass(createConvertControlFlowToLLVMPass());
  ConvertFuncToLLVMPassOptions func;
  func.useBarePtrCallConv = true;
  pm.addPass(createConvertFuncToLLVMPass(func));
  pm.addPass(createUBToLLVMConversionPass());
  pm.addPass(createReconcileUnrealizedCastsPass());
  return success(succeeded(pm.run(module)) && succeeded(verify(module)));
}

Value memrefFromPointer(OpBuilder &builder, Location loc, Value pointer,
                        MemRefType type) {
  int64_t offset;
  SmallVector<int64_t> strides;
  if (failed(getStridesAndOffset(type, strides, offset)))
    return {};
  auto i64 = builder.getI64Type();
  auto rank = static_cast<unsigned>(type.getRank());
  SmallVector<Type> fields = {pointer.getType(), pointer.getType(), i64};
  if (rank) {
    auto array = LLVM::LLVMArrayType::get(i64, rank);
    fields.append({array, array});
  }
  Value descriptor = builder.create<LLVM::UndefOp>(
      loc, LLVM::LLVMStructType::getLiteral(builder.getContext(), fields));
  auto insert = [&](Value value, ArrayRef<int64_t> at) {
    descriptor =
        builder.create<LLVM::InsertValueOp>(loc, descriptor, value, at);
  };
  auto constant = [&](int64_t value) {
    return builder.create<LLVM::ConstantOp>(loc, i64, value);
  };
  insert(pointer, 0);
  insert(pointer, 1);
  insert(constant(offset), 2);
  for (int64_t dim = 0; dim < rank; ++dim) {
    insert(constant(type.getDimSize(dim)), {3, dim});
    insert(constant(strides[dim]), {4, dim});
  }
  return builder
      .create<UnrealizedConversionCastOp>(loc, TypeRange(type), descriptor)
      .getResult(0);
}

} // namespace heddle::cpu
