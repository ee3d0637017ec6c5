//===- LowerToEmulation.cpp - From gpu.func to one fiber's function -------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Codegen/CPU/CompileObject.h"
#include "heddle/Codegen/GPU/Emulation.h"
#include "heddle/Codegen/GPU/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/NVGPU/IR/NVGPUDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace heddle {

#define GEN_PASS_DEF_GPULOWERTOEMULATION
#include "include/heddle/Codegen/GPU/Passes.h.inc"

namespace {
/// What the fragments of a warp operation pass through, on the thread's stack.
constexpr int64_t fragmentBytes = 32;
constexpr unsigned numFragments = 4;

class EmulationLowering {
public:
  EmulationLowering(mlir::gpu::GPUFuncOp source, ModuleOp target)
      : source(source), target(target), builder(source.getContext()) {}

  FailureOr<gpu::EmulatedFunc> run();

private:
  void createFunction();
  void bindArguments(IRMapping &mapping);
  LogicalResult lower(Operation *op);
  LogicalResult expandBf16();
  void replaceTypes();

  void lowerQuery(Operation *op, int64_t group, mlir::gpu::Dimension dim);
  void lowerShuffle(mlir::gpu::ShuffleOp op);
  void lowerLoadMatrix(nvgpu::LdMatrixOp op);
  void lowerMma(nvgpu::MmaSyncOp op);
  void lowerAsyncCopy(nvgpu::DeviceAsyncCopyOp op);
  void announce(Operation *op, Value buffer, ValueRange indices, Type accessed,
                bool isWrite);

  Value call(StringRef name, ValueRange operands, Type result = {});
  Value i64(int64_t value);
  Value toI64(Value index);
  Value site(Operation *op);
  Value address(Value buffer, ValueRange indices);
  Value fragment(unsigned number);
  Value spill(Value vector, unsigned number);
  Value reload(Type type, unsigned number);
  Value asMemory(unsigned number, VectorType type, VectorType &flat);

  mlir::gpu::GPUFuncOp source;
  ModuleOp target;
  OpBuilder builder;
  Location loc = source.getLoc();
  gpu::EmulatedFunc result;
  Value fragments[numFragments];
};
} // namespace

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

Value EmulationLowering::i64(int64_t value) {
  return builder.create<arith::ConstantIntOp>(loc, value, 64);
}

Value EmulationLowering::toI64(Value index) {
  return builder.create<arith::IndexCastOp>(loc, builder.getI64Type(), index);
}

/// A call of a support function, declared when it is first used.
Value EmulationLowering::call(StringRef name, ValueRange operands,
                              Type resultType) {
  auto type = builder.getFunctionType(
      operands.getTypes(), resultType ? TypeRange(resultType) : TypeRange());
  if (!target.lookupSymbol(name)) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(target.getBody());
    auto declaration = builder.create<func::FuncOp>(loc, name, type);
    declaration.setPrivate();
  }
  auto call =
      builder.create<func::CallOp>(loc, name, type.getResults(), operands);
  return resultType ? call.getResult(0) : Value();
}

/// The number of the place where `op` stands.
Value EmulationLowering::site(Operation *op) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << op->getName() << " #" << result.sites.size() << " of "
         << source.getName();
  if (!isa<UnknownLoc>(op->getLoc()))
    stream << " (" << op->getLoc() << ")";
  result.sites.push_back(stream.str());
  return i64(static_cast<int64_t>(result.sites.size()) - 1);
}

/// The address of an element as i64.
Value EmulationLowering::address(Value buffer, ValueRange indices) {
  auto type = cast<MemRefType>(buffer.getType());
  int64_t offset;
  SmallVector<int64_t> strides;
  if (failed(getStridesAndOffset(type, strides, offset)))
    llvm_unreachable("buffers of mapped kernels are strided");
  Value linear = i64(offset);
  for (auto [index, stride] : llvm::zip(indices, strides))
    linear = builder.create<arith::AddIOp>(
        loc, linear,
        builder.create<arith::MulIOp>(loc, toI64(index), i64(stride)));
  Value base = toI64(
      builder.create<memref::ExtractAlignedPointerAsIndexOp>(loc, buffer));
  int64_t bytes = dist::byteSize(type.getElementType());
  return builder.create<arith::AddIOp>(
      loc, base, builder.create<arith::MulIOp>(loc, linear, i64(bytes)));
}

/// Stack memory that is used again by every operation: what is in it is read
/// before the next one.
Value EmulationLowering::fragment(unsigned number) {
  if (!fragments[number]) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(&result.func.getBody().front());
    fragments[number] = builder.create<LLVM::AllocaOp>(
        loc, LLVM::LLVMPointerType::get(builder.getContext()),
        builder.getI8Type(),
        builder.create<LLVM::ConstantOp>(loc, builder.getI64Type(),
                                         fragmentBytes),
        /*alignment=*/fragmentBytes);
  }
  return fragments[number];
}

Value EmulationLowering::asMemory(unsigned number, VectorType type,
                                  VectorType &flat) {
  flat = VectorType::get({type.getNumElements()}, type.getElementType());
  return cpu::memrefFromPointer(
      builder, loc, fragment(number),
      MemRefType::get(flat.getShape(), type.getElementType()));
}

/// Writes a fragment to memory and returns its address.
Value EmulationLowering::spill(Value vector, unsigned number) {
  VectorType flat;
  Value memory = asMemory(number, cast<VectorType>(vector.getType()), flat);
  Value cast = builder.create<vector::ShapeCastOp>(loc, flat, vector);
  builder.create<vector::StoreOp>(
      loc, cast, memory,
      builder.create<arith::ConstantIndexOp>(loc, 0).getResult());
  return fragment(number);
}

Value EmulationLowering::reload(Type type, unsigned number) {
  VectorType flat;
  Value memory = asMemory(number, cast<VectorType>(type), flat);
  Value loaded = builder.create<vector::LoadOp>(
      loc, flat, memory,
      builder.create<arith::ConstantIndexOp>(loc, 0).getResult());
  return builder.create<vector::ShapeCastOp>(loc, type, loaded);
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

void EmulationLowering::lowerQuery(Operation *op, int64_t group,
                                   mlir::gpu::Dimension dim) {
  Value query = i64(group * 3 + static_cast<int64_t>(dim));
  Value value = call("heddle_emu_index", query, builder.getI64Type());
  op->getResult(0).replaceAllUsesWith(
      builder.create<arith::IndexCastOp>(loc, builder.getIndexType(), value));
  op->erase();
}

void EmulationLowering::lowerShuffle(mlir::gpu::ShuffleOp op) {
  // The order of modes is that of runtime/devices/emulator/WarpOps.cpp.
  auto mode = [&]() -> int64_t {
    switch (op.getMode()) {
    case mlir::gpu::ShuffleMode::XOR:
      return 0;
    case mlir::gpu::ShuffleMode::UP:
      return 1;
    case mlir::gpu::ShuffleMode::DOWN:
      return 2;
    case mlir::gpu::ShuffleMode::IDX:
      return 3;
    }
    llvm_unreachable("all modes handled");
  }();
  Type i32 = builder.getI32Type();
  Type type = op.getValue().getType();
  Value bits = op.getValue();
  if (type != i32)
    bits = builder.create<arith::BitcastOp>(loc, i32, bits);
  Value both = call("heddle_emu_shuffle",
                    {i64(mode), bits, op.getOffset(), op.getWidth(), site(op)},
                    builder.getI64Type());
  Value value = builder.create<arith::TruncIOp>(loc, i32, both);
  if (type != i32)
    value = builder.create<arith::BitcastOp>(loc, type, value);
  Value valid = builder.create<arith::TruncIOp>(
      loc, builder.getI1Type(),
      builder.create<arith::ShRUIOp>(loc, both, i64(32)));
  op.replaceAllUsesWith(ValueRange{value, valid});
  op.erase();
}

void EmulationLowering::lowerLoadMatrix(nvgpu::LdMatrixOp op) {
  Value row = address(op.getSrcMemref(), op.getIndices());
  call("heddle_emu_load_matrix",
       {row, i64(op.getNumTiles()), i64(op.getTranspose()), fragment(0),
        site(op)});
  op.replaceAllUsesWith(reload(op.getType(), 0));
  op.erase();
}

void EmulationLowering::lowerMma(nvgpu::MmaSyncOp op) {
  Value a = spill(op.getMatrixA(), 0), b = spill(op.getMatrixB(), 1),
        c = spill(op.getMatrixC(), 2);
  call("heddle_emu_mma", {a, b, c, fragment(3), site(op)});
  op.replaceAllUsesWith(reload(op.getType(), 3));
  op.erase();
}

void EmulationLowering::lowerAsyncCopy(nvgpu::DeviceAsyncCopyOp op) {
  int64_t bytes = dist::byteSize(getElementTypeOrSelf(op.getDst()));
  int64_t elements = op.getDstElements().getSExtValue();
  Value copied = i64(elements * bytes);
  if (op.getSrcElements())
    copied = builder.create<arith::MulIOp>(loc, toI64(op.getSrcElements()),
                                           i64(bytes));
  call("heddle_emu_async_copy", {address(op.getDst(), op.getDstIndices()),
                                 address(op.getSrc(), op.getSrcIndices()),
                                 i64(elements * bytes), copied, site(op)});
  // The token is only there for the order of operations.
  op.replaceAllUsesWith(
      builder.create<arith::ConstantIntOp>(loc, 0, 32).getResult());
  op.erase();
}

/// Tells the emulator of an access: of workgroup memory, or by a vector.
void EmulationLowering::announce(Operation *op, Value buffer,
                                 ValueRange indices, Type accessed,
                                 bool isWrite) {
  auto type = cast<MemRefType>(buffer.getType());
  bool isVector = isa<VectorType>(accessed);
  if (!isVector && !type.getMemorySpace())
    return;
  int64_t bytes = dist::byteSize(type.getElementType());
  if (isVector)
    bytes *= cast<VectorType>(accessed).getNumElements();
  constexpr int64_t widest = 16;
  // The flags are those of runtime/devices/emulator/Support.cpp.
  int64_t flags = isWrite + (type.getMemorySpace() ? 2 : 0);
  call("heddle_emu_access",
       {address(buffer, indices), i64(bytes), i64(std::min(bytes, widest)),
        i64(flags), site(op)});
}

LogicalResult EmulationLowering::lower(Operation *op) {
  builder.setInsertionPoint(op);
  loc = op->getLoc();
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](mlir::gpu::ThreadIdOp op) {
        lowerQuery(op, 0, op.getDimension());
      })
      .Case([&](mlir::gpu::BlockIdOp op) {
        lowerQuery(op, 1, op.getDimension());
      })
      .Case([&](mlir::gpu::BlockDimOp op) {
        lowerQuery(op, 2, op.getDimension());
      })
      .Case([&](mlir::gpu::GridDimOp op) {
        lowerQuery(op, 3, op.getDimension());
      })
      .Case([&](mlir::gpu::BarrierOp op) {
        call("heddle_emu_barrier", site(op));
        op.erase();
      })
      .Case([&](mlir::gpu::ShuffleOp op) { lowerShuffle(op); })
      .Case([&](nvgpu::LdMatrixOp op) { lowerLoadMatrix(op); })
      .Case([&](nvgpu::MmaSyncOp op) { lowerMma(op); })
      .Case([&](nvgpu::DeviceAsyncCopyOp op) { lowerAsyncCopy(op); })
      .Case([&](nvgpu::DeviceAsyncCreateGroupOp op) {
        call("heddle_emu_async_commit", {});
        op.replaceAllUsesWith(
            builder.create<arith::ConstantIntOp>(loc, 0, 32).getResult());
        op.erase();
      })
      .Case([&](nvgpu::DeviceAsyncWaitOp op) {
        call("heddle_emu_async_wait", i64(op.getNumGroups().value_or(0)));
        op.erase();
      })
      .Case([&](memref::LoadOp op) {
        announce(op, op.getMemRef(), op.getIndices(), op.getType(), false);
      })
      .Case([&](memref::StoreOp op) {
        announce(op, op.getMemRef(), op.getIndices(), op.getValue().getType(),
                 true);
      })
      .Case([&](vector::LoadOp op) {
        announce(op, op.getBase(), op.getIndices(), op.getType(), false);
      })
      .Case([&](vector::StoreOp op) {
        announce(op, op.getBase(), op.getIndices(),
                 op.getValueToStore().getType(), true);
      })
      .Case([&](mlir::gpu::ReturnOp op) {
        builder.create<func::ReturnOp>(loc);
        op.erase();
      });
  return success();
}

//===----------------------------------------------------------------------===//
// The function
//===----------------------------------------------------------------------===//

void EmulationLowering::createFunction() {
  auto pointer = LLVM::LLVMPointerType::get(builder.getContext());
  builder.setInsertionPointToEnd(target.getBody());
  result.func = builder.create<func::FuncOp>(
      loc, source.getName(), builder.getFunctionType({pointer, pointer}, {}));
  builder.setInsertionPointToStart(result.func.addEntryBlock());
}

/// Buffers are loaded from `refs`, index arguments from `scalars`, workgroup
/// memory comes from the emulator.
void EmulationLowering::bindArguments(IRMapping &mapping) {
  auto pointer = LLVM::LLVMPointerType::get(builder.getContext());
  int32_t buffers = 0, scalars = 0;
  for (BlockArgument argument : source.getArguments()) {
    bool isBuffer = isa<MemRefType>(argument.getType());
    Type type = isBuffer ? Type(pointer) : builder.getI64Type();
    Value place = builder.create<LLVM::GEPOp>(
        loc, pointer, type, result.func.getArgument(isBuffer ? 0 : 1),
        ArrayRef<LLVM::GEPArg>{isBuffer ? buffers++ : scalars++});
    Value loaded = builder.create<LLVM::LoadOp>(loc, type, place);
    mapping.map(argument, isBuffer ? cpu::memrefFromPointer(
                                         builder, loc, loaded,
                                         cast<MemRefType>(argument.getType()))
                                   : builder.create<arith::IndexCastOp>(
                                         loc, builder.getIndexType(), loaded));
  }
  for (BlockArgument buffer : source.getWorkgroupAttributions()) {
    auto type = cast<MemRefType>(buffer.getType());
    Value memory =
        call("heddle_emu_workgroup", i64(result.workgroupBytes), pointer);
    mapping.map(buffer, cpu::memrefFromPointer(builder, loc, memory, type));
    result.workgroupBytes += llvm::alignTo(dist::byteSize(type), 16);
  }
}

/// Conversions from and to bf16 become integer arithmetic, constants their
/// bits: x86-64 below AVX512-BF16 has no bf16, and LLVM would call a library.
LogicalResult EmulationLowering::expandBf16() {
  RewritePatternSet patterns(builder.getContext());
  arith::populateExpandBFloat16Patterns(patterns);
  if (failed(applyPatternsAndFoldGreedily(result.func, std::move(patterns))))
    return failure();
  Type i16 = builder.getI16Type();
  result.func.walk([&](arith::ConstantOp constant) {
    Attribute value = constant.getValue();
    if (auto scalar = dyn_cast<FloatAttr>(value);
        scalar && scalar.getType().isBF16())
      constant.setValueAttr(
          IntegerAttr::get(i16, scalar.getValue().bitcastToAPInt()));
    if (auto dense = dyn_cast<DenseElementsAttr>(value);
        dense && dense.getElementType().isBF16())
      constant.setValueAttr(dense.bitcast(i16));
  });
  return success();
}

/// One address space; bf16 as its bits; tokens of asynchronous copies are i32.
void EmulationLowering::replaceTypes() {
  AttrTypeReplacer replacer;
  replacer.addReplacement(
      [&](MemRefType type) -> std::optional<std::pair<Type, WalkResult>> {
        Type element = replacer.replace(type.getElementType());
        return std::pair(
            MemRefType::get(type.getShape(), element, type.getLayout()),
            WalkResult::skip());
      });
  replacer.addReplacement([](BFloat16Type type) -> Type {
    return IntegerType::get(type.getContext(), 16);
  });
  replacer.addReplacement([](nvgpu::DeviceAsyncTokenType type) -> Type {
    return IntegerType::get(type.getContext(), 32);
  });
  replacer.recursivelyReplaceElementsIn(result.func, /*replaceAttrs=*/false,
                                        /*replaceLocs=*/false,
                                        /*replaceTypes=*/true);
}

FailureOr<gpu::EmulatedFunc> EmulationLowering::run() {
  if (!source.getBody().hasOneBlock())
    return source.emitError("has control flow that is not structured");
  createFunction();
  IRMapping mapping;
  bindArguments(mapping);
  for (Operation &op : source.getBody().front())
    builder.clone(op, mapping);
  if (failed(expandBf16()))
    return failure();
  SmallVector<Operation *> operations;
  result.func.walk([&](Operation *op) { operations.push_back(op); });
  for (Operation *op : operations)
    if (failed(lower(op)))
      return failure();
  replaceTypes();
  return result;
}

FailureOr<gpu::EmulatedFunc> gpu::lowerToEmulation(mlir::gpu::GPUFuncOp source,
                                                   ModuleOp target) {
  return EmulationLowering(source, target).run();
}

namespace {
struct GpuLowerToEmulation
    : impl::GpuLowerToEmulationBase<GpuLowerToEmulation> {
  void runOnOperation() override {
    SmallVector<mlir::gpu::GPUModuleOp> modules(
        getOperation().getOps<mlir::gpu::GPUModuleOp>());
    for (mlir::gpu::GPUModuleOp module : modules) {
      for (auto func : module.getOps<mlir::gpu::GPUFuncOp>())
        if (failed(gpu::lowerToEmulation(func, getOperation())))
          return signalPassFailure();
      module.erase();
    }
  }
};
} // namespace
} // namespace heddle
