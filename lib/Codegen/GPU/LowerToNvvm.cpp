//===- LowerToNvvm.cpp - From gpu and nvgpu to nvvm -----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The pass gpu-lower-to-nvvm: upstream's conversions in one step, a lowering of
// mma.sync for bf16, and corrections of alignments and of asynchronous copies.
//
//===----------------------------------------------------------------------===//

#include "heddle/Codegen/GPU/Kernels.h"
#include "heddle/Codegen/GPU/Passes.h"
#include "mlir/Conversion/AffineToStandard/AffineToStandard.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/GPUCommon/GPUCommonPass.h"
#include "mlir/Conversion/GPUToNVVM/GPUToNVVMPass.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/LoweringOptions.h"
#include "mlir/Conversion/LLVMCommon/Pattern.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MemRefToLLVM/MemRefToLLVM.h"
#include "mlir/Conversion/NVGPUToNVVM/NVGPUToNVVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/UBToLLVM/UBToLLVM.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVM.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/NVGPU/IR/NVGPUDialect.h"
#include "mlir/Dialect/Vector/Transforms/LoweringPatterns.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include <limits>

using namespace mlir;

namespace heddle {

#define GEN_PASS_DEF_GPULOWERTONVVM
#include "include/heddle/Codegen/GPU/Passes.h.inc"

namespace {

/// Lowers mma.sync m16n8k16 of bf16 operands with f32 sums, for which upstream
/// has no lowering. Converts fragments from arrays of vectors, as nvgpu has
/// them, to single registers, as nvvm takes them.
struct LowerBf16Mma : ConvertOpToLLVMPattern<nvgpu::MmaSyncOp> {
  LowerBf16Mma(const LLVMTypeConverter &converter)
      : ConvertOpToLLVMPattern(converter, /*benefit=*/2) {}

  LogicalResult
  matchAndRewrite(nvgpu::MmaSyncOp op, OpAdaptor in,
                  ConversionPatternRewriter &rewriter) const override {
    auto operandType = cast<VectorType>(op.getMatrixA().getType());
    if (!operandType.getElementType().isBF16())
      return failure();
    Location loc = op.getLoc();
    SmallVector<Value> a = pairs(rewriter, loc, in.getMatrixA(), 4);
    SmallVector<Value> b = pairs(rewriter, loc, in.getMatrixB(), 2);
    SmallVector<Value> c = scalars(rewriter, loc, in.getMatrixC());
    Type f32 = rewriter.getF32Type();
    Type type = LLVM::LLVMStructType::getLiteral(rewriter.getContext(),
                                                 {f32, f32, f32, f32});
    SmallVector<Value> operands(a);
    operands.append(b);
    operands.append(c);
    // Calls the intrinsic, since the operation nvvm.mma.sync takes bf16 only as
    // vectors of f16, which do not match the intrinsic's types.
    Value sums =
        rewriter
            .create<LLVM::CallIntrinsicOp>(
                loc, type,
                rewriter.getStringAttr("llvm.nvvm.mma.m16n8k16.row.col.bf16"),
                operands)
            .getResult(0);
    rewriter.replaceOp(op,
                       asArray(rewriter, loc, sums, in.getMatrixC().getType()));
    return success();
  }

private:
  static SmallVector<Value> pairs(OpBuilder &b, Location loc, Value array,
                                  int64_t count) {
    SmallVector<Value> result;
    for (int64_t i = 0; i < count; ++i)
      result.push_back(b.create<LLVM::BitcastOp>(
          loc, b.getI32Type(),
          b.create<LLVM::ExtractValueOp>(loc, array, ArrayRef<int64_t>{i})));
    return result;
  }

  static Value constant(OpBuilder &b, Location loc, int64_t value) {
    return b.create<LLVM::ConstantOp>(loc, b.getI64Type(), value);
  }

  static SmallVector<Value> scalars(OpBuilder &b, Location loc, Value array) {
    SmallVector<Value> result;
    for (int64_t i = 0; i < 4; ++i) {
      Value row =
          b.create<LLVM::ExtractValueOp>(loc, array, ArrayRef<int64_t>{i / 2});
      result.push_back(
          b.create<LLVM::ExtractElementOp>(loc, row, constant(b, loc, i % 2)));
    }
    return result;
  }

  static Value asArray(OpBuilder &b, Location loc, Value sums, Type type) {
    Value array = b.create<LLVM::UndefOp>(loc, type);
    Type rowType = cast<LLVM::LLVMArrayType>(type).getElementType();
    for (int64_t row = 0; row < 2; ++row) {
      Value vector = b.create<LLVM::UndefOp>(loc, rowType);
      for (int64_t i = 0; i < 2; ++i) {
        Value sum = b.create<LLVM::ExtractValueOp>(
            loc, sums, ArrayRef<int64_t>{row * 2 + i});
        vector = b.create<LLVM::InsertElementOp>(loc, vector, sum,
                                                 constant(b, loc, i));
      }
      array = b.create<LLVM::InsertValueOp>(loc, array, vector,
                                            ArrayRef<int64_t>{row});
    }
    return array;
  }
};
} // namespace

/// Sets the alignment of each vector access to the size of the vector, or to
/// the size of the widest access if the vector is larger. Upstream's lowering
/// only assumes the alignment of an element, so that the back end would split
/// the access.
static void alignVectors(Operation *root) {
  auto alignment = [](Type type) -> std::optional<uint64_t> {
    auto vector = dyn_cast<VectorType>(type);
    if (!vector)
      return std::nullopt;
    int64_t bytes = dist::byteSize(vector);
    return std::min<int64_t>(bytes, 16);
  };
  root->walk([&](Operation *op) {
    if (auto load = dyn_cast<LLVM::LoadOp>(op)) {
      if (auto bytes = alignment(load.getType()))
        load.setAlignment(bytes);
    } else if (auto store = dyn_cast<LLVM::StoreOp>(op)) {
      if (auto bytes = alignment(store.getValue().getType()))
        store.setAlignment(bytes);
    }
  });
}

/// Replaces asynchronous copies whose source may be shorter than their target
/// by calls of intrinsics. Such a copy fills the rest of the target with zeros.
/// The translation of nvvm.cp.async to LLVM would drop the number of source
/// bytes.
static void keepSourceSizes(Operation *root) {
  root->walk([](NVVM::CpAsyncOp op) {
    if (!op.getCpSize())
      return;
    OpBuilder builder(op);
    StringRef cache = stringifyEnum(op.getModifier());
    std::string name = ("llvm.nvvm.cp.async." + cache + ".shared.global." +
                        Twine(op.getSize()) + ".s")
                           .str();
    builder.create<LLVM::CallIntrinsicOp>(
        op.getLoc(), TypeRange(), builder.getStringAttr(name),
        ValueRange{op.getDst(), op.getSrc(), op.getCpSize()});
    op.erase();
  });
}

/// Makes dynamic shared memory an external symbol of size 0. Upstream's
/// lowering emits a definition, to which ptxas would give one byte of static
/// memory.
static void declareDynamicMemory(Operation *root) {
  root->walk([](LLVM::GlobalOp global) {
    auto type = dyn_cast<LLVM::LLVMArrayType>(global.getType());
    if (type && type.getNumElements() == 0 &&
        global.getAddrSpace() == NVVM::kSharedMemorySpace) {
      global.setLinkage(LLVM::Linkage::External);
      // The alignment is 128 bytes, which cover all banks of shared memory
      // once, since mappings permute addresses within such a range to avoid
      // bank conflicts.
      global.setAlignment(128);
    }
  });
}

/// Returns the width in bits of an index. It is 32 if two conditions hold.
/// First, the index of every element fits, and also the index that a loop
/// reaches when it steps past the last element. Second, no address is used as
/// an index. Otherwise it is 64.
static unsigned indexBits(mlir::gpu::GPUModuleOp module) {
  constexpr int64_t beyond = int64_t(1) << 26;
  constexpr int64_t most = std::numeric_limits<int32_t>::max() - beyond;
  bool fits = !module
                   .walk([](memref::ExtractAlignedPointerAsIndexOp) {
                     return WalkResult::interrupt();
                   })
                   .wasInterrupted();
  module.walk([&](mlir::gpu::GPUFuncOp func) {
    for (Type type : func.getArgumentTypes())
      if (auto buffer = dyn_cast<MemRefType>(type))
        fits &= dist::byteSize(buffer) <=
                most * dist::byteSize(buffer.getElementType());
  });
  return fits ? 32 : 64;
}

/// Converts all dialects at once, so that no type is converted twice.
static LogicalResult convert(mlir::gpu::GPUModuleOp module) {
  MLIRContext *context = module.getContext();
  LowerToLLVMOptions options(context);
  options.useBarePtrCallConv = true;
  options.overrideIndexBitwidth(indexBits(module));
  LLVMTypeConverter converter(context, options);
  populateGpuMemorySpaceAttributeConversions(
      converter, [](mlir::gpu::AddressSpace space) -> unsigned {
        switch (space) {
        case mlir::gpu::AddressSpace::Global:
          return NVVM::kGlobalMemorySpace;
        case mlir::gpu::AddressSpace::Workgroup:
          return NVVM::kSharedMemorySpace;
        case mlir::gpu::AddressSpace::Private:
          return 0;
        }
        llvm_unreachable("all spaces handled");
      });
  converter.addConversion([](nvgpu::DeviceAsyncTokenType type) -> Type {
    return IntegerType::get(type.getContext(), 32);
  });
  RewritePatternSet patterns(context);
  patterns.add<LowerBf16Mma>(converter);
  arith::populateArithToLLVMConversionPatterns(converter, patterns);
  cf::populateControlFlowToLLVMConversionPatterns(converter, patterns);
  populateFinalizeMemRefToLLVMConversionPatterns(converter, patterns);
  vector::populateVectorBroadcastLoweringPatterns(patterns);
  populateVectorToLLVMConversionPatterns(converter, patterns);
  ub::populateUBToLLVMConversionPatterns(converter, patterns);
  populateNVGPUToNVVMConversionPatterns(converter, patterns);
  populateGpuToNVVMConversionPatterns(converter, patterns);

  LLVMConversionTarget target(*context);
  target.addLegalDialect<NVVM::NVVMDialect>();
  target.addLegalOp<mlir::gpu::GPUModuleOp, mlir::gpu::ModuleEndOp>();
  return applyFullConversion(module, target, std::move(patterns));
}

namespace {
struct GpuLowerToNvvm : impl::GpuLowerToNvvmBase<GpuLowerToNvvm> {
  void runOnOperation() override {
    mlir::gpu::GPUModuleOp module = getOperation();
    OpPassManager first(mlir::gpu::GPUModuleOp::getOperationName());
    first.addPass(createConvertSCFToCFPass());
    first.addPass(createLowerAffinePass());
    // This pass runs before the patterns of the gpu dialect, which would turn
    // square roots into calls of libdevice.
    first.addPass(createConvertMathToLLVMPass());
    OpPassManager last(mlir::gpu::GPUModuleOp::getOperationName());
    last.addPass(createReconcileUnrealizedCastsPass());
    last.addPass(createCanonicalizerPass());
    last.addPass(createCSEPass());
    if (failed(runPipeline(first, module)) || failed(convert(module)) ||
        failed(runPipeline(last, module)))
      return signalPassFailure();
    alignVectors(module);
    keepSourceSizes(module);
    declareDynamicMemory(module);
  }
};
} // namespace

LogicalResult gpu::lowerToNvvm(mlir::gpu::GPUModuleOp module) {
  PassManager pm(module.getContext(),
                 mlir::gpu::GPUModuleOp::getOperationName());
  pm.enableVerifier(false); // Only the final result is verified.
  pm.addPass(createGpuLowerToNvvm());
  return success(succeeded(pm.run(module)) && succeeded(verify(module)));
}

} // namespace heddle
