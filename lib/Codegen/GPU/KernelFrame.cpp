//===- KernelFrame.cpp - The gpu.func of one plan.kernel ------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Creates the gpu.func of a kernel with its arguments and buffers, and emits
// index arithmetic in it.
//
//===----------------------------------------------------------------------===//

#include "KernelFrame.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace heddle::gpu {

/// The type of the buffer of an operand of `kernel`.
static Type bufferType(planir::KernelOp kernel, unsigned operand, bool flat) {
  auto type = cast<MemRefType>(kernel.getBufferType(operand));
  if (flat && type.getRank() > 0)
    return MemRefType::get({type.getNumElements()}, type.getElementType());
  return type;
}

int64_t widestChunk(planir::KernelOp kernel, int64_t columns) {
  std::pair<int64_t, int64_t> largest; // The number of elements and the rank.
  int64_t bytes = 1;
  auto consider = [&](Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor)
      return;
    std::pair<int64_t, int64_t> size(tensor.getNumElements(), tensor.getRank());
    if (size > largest)
      bytes = 1;
    largest = std::max(largest, size);
    if (size == largest)
      bytes = std::max(bytes, dist::byteSize(tensor.getElementType()));
  };
  llvm::for_each(kernel.getArgumentTypes(), consider);
  llvm::for_each(kernel.getResultTypes(), consider);
  int64_t result = accessBytes / bytes;
  while (columns % result)
    result /= 2;
  return result;
}

KernelFrame::KernelFrame(planir::KernelOp kernel, mlir::gpu::GPUModuleOp module,
                         const FrameOptions &options)
    : loc(kernel.getLoc()), builder(OpBuilder::atBlockEnd(module.getBody())),
      emitter(builder, loc), kernel(kernel),
      yield(cast<planir::YieldOp>(kernel.getBody().back().back())) {
  SmallVector<Type> buffers, scalars;
  for (auto [operand, type] : llvm::enumerate(kernel.getLaunchTypes()))
    if (isa<RankedTensorType>(type))
      buffers.push_back(bufferType(kernel, operand, options.flat));
    else
      scalars.push_back(builder.getI64Type());
  if (options.scratchBytes > 0)
    buffers.push_back(
        MemRefType::get({options.scratchBytes}, builder.getI8Type()));
  SmallVector<Type> types(buffers);
  types.append(scalars);
  // The function is inserted before the terminator of the module's block, if
  // there is one, since a terminator must be last.
  if (module.getBody()->mightHaveTerminator())
    builder.setInsertionPoint(module.getBody()->getTerminator());
  func = builder.create<mlir::gpu::GPUFuncOp>(
      loc, (kernel.getSymName() + options.suffix).str(),
      builder.getFunctionType(types, {}));
  func->setAttr(mlir::gpu::GPUDialect::getKernelFuncAttrName(),
                builder.getUnitAttr());
  builder.setInsertionPointToStart(&func.getBody().front());
  // The code that this object emits is inserted before the return.
  builder.create<mlir::gpu::ReturnOp>(loc);
  builder.setInsertionPointToStart(&func.getBody().front());

  if (options.flat)
    emitter.setFlat();
  auto buffer = func.getArguments().begin();
  auto scalar = buffer + buffers.size();
  for (BlockArgument argument : kernel.getBody().getArguments()) {
    if (!isa<RankedTensorType>(argument.getType())) {
      scalarArguments[argument] = *scalar;
      emitter.bindScalar(argument, builder.create<arith::IndexCastOp>(
                                       loc, builder.getIndexType(), *scalar++));
      continue;
    }
    arguments[argument] = *buffer;
    emitter.bindBuffer(argument, *buffer++);
  }
  for (int64_t tie : kernel.getTies())
    outputs.push_back(tie < 0 ? *buffer++
                              : arguments[kernel.getBody().getArgument(tie)]);
  if (options.scratchBytes > 0)
    scratchBuffer = *buffer++;
}

Value KernelFrame::argumentBuffer(Value argument) const {
  return arguments.lookup(argument);
}

LogicalResult KernelFrame::emitScalars() {
  auto isScalar = [](Type type) { return type.isIntOrIndexOrFloat(); };
  for (Operation &op : kernel.getBody().front().without_terminator()) {
    if (op.getNumResults() == 0 || !llvm::all_of(op.getResultTypes(), isScalar))
      continue;
    if (failed(emitter.scalar(op)))
      return failure();
  }
  return success();
}

Value KernelFrame::addWorkgroup(ArrayRef<int64_t> shape, Type element) {
  auto space = mlir::gpu::AddressSpaceAttr::get(
      builder.getContext(), mlir::gpu::AddressSpace::Workgroup);
  auto type =
      MemRefType::get(shape, element, MemRefLayoutAttrInterface(), space);
  Value buffer = func.addWorkgroupAttribution(type, loc);
  func.setWorkgroupAttributionAttr(func.getNumWorkgroupAttributions() - 1,
                                   builder.getStringAttr("llvm.align"),
                                   builder.getI64IntegerAttr(accessBytes));
  return buffer;
}

Value KernelFrame::scratch(int64_t offset, ArrayRef<int64_t> shape,
                           Type element) {
  return builder.create<memref::ViewOp>(loc, MemRefType::get(shape, element),
                                        scratchBuffer, constant(offset),
                                        ValueRange());
}

void KernelFrame::finish(ArrayRef<int64_t> grid, int64_t threads,
                         int64_t sharedBytes) {
  SmallVector<int32_t> sizes(grid.begin(), grid.end());
  sizes.resize(3, 1);
  func.setKnownGridSizeAttr(builder.getDenseI32ArrayAttr(sizes));
  func.setKnownBlockSizeAttr(
      builder.getDenseI32ArrayAttr({static_cast<int32_t>(threads), 1, 1}));
  mapped = {func, sharedBytes, {}};
}

void KernelFrame::store(ArrayRef<Value> elements, Value buffer,
                        ArrayRef<Value> indices) {
  auto type = cast<MemRefType>(buffer.getType());
  ArrayRef<Value> at = type.getRank() ? indices : ArrayRef<Value>();
  Value value = elements[0];
  if (elements.size() > 1) {
    auto vectorType = VectorType::get({static_cast<int64_t>(elements.size())},
                                      type.getElementType());
    value = builder.create<vector::FromElementsOp>(loc, vectorType, elements);
  }
  if (isa<VectorType>(value.getType()))
    builder.create<vector::StoreOp>(loc, value, buffer, at);
  else
    builder.create<memref::StoreOp>(loc, value, buffer, at);
}

//===----------------------------------------------------------------------===//
// Index arithmetic
//===----------------------------------------------------------------------===//

Value KernelFrame::constant(int64_t value) {
  return builder.create<arith::ConstantIndexOp>(loc, value);
}

Value KernelFrame::threadId() {
  Value thread =
      builder.create<mlir::gpu::ThreadIdOp>(loc, mlir::gpu::Dimension::x);
  return teamThreads ? rem(thread, teamThreads) : thread;
}

Value KernelFrame::beginTeams(int64_t threads) {
  Value team = div(threadId(), threads);
  teamThreads = threads;
  return team;
}

Value KernelFrame::blockId(mlir::gpu::Dimension dimension) {
  return builder.create<mlir::gpu::BlockIdOp>(loc, dimension);
}

Value KernelFrame::compare(arith::CmpIPredicate predicate, Value a, int64_t b) {
  return builder.create<arith::CmpIOp>(loc, predicate, a, constant(b));
}

Value KernelFrame::add(Value a, Value b) {
  return builder.createOrFold<arith::AddIOp>(loc, a, b);
}

Value KernelFrame::add(Value a, int64_t b) {
  return b ? add(a, constant(b)) : a;
}

Value KernelFrame::mul(Value a, int64_t b) {
  return b == 1 ? a : builder.create<arith::MulIOp>(loc, a, constant(b));
}

Value KernelFrame::div(Value a, int64_t b) {
  return b == 1 ? a : builder.create<arith::DivUIOp>(loc, a, constant(b));
}

Value KernelFrame::rem(Value a, int64_t b) {
  return b == 1 ? constant(0)
                : builder.create<arith::RemUIOp>(loc, a, constant(b));
}

SmallVector<Value> KernelFrame::delinearize(Value linear,
                                            ArrayRef<int64_t> shape) {
  SmallVector<Value> indices(shape.size());
  for (int64_t dim = static_cast<int64_t>(shape.size()) - 1; dim >= 0; --dim) {
    indices[dim] = dim ? rem(linear, shape[dim]) : linear;
    if (dim)
      linear = div(linear, shape[dim]);
  }
  return indices;
}

Chunk KernelFrame::chunk(Value base, int64_t width) {
  Chunk result;
  result.base = base;
  for (int64_t i = 0; i < width; ++i)
    result.columns.push_back(i ? add(base, constant(i)) : base);
  return result;
}

LogicalResult addLaunch(MappedKernel &mapped, planir::KernelOp kernel,
                        mlir::gpu::GPUModuleOp module, FrameOptions options,
                        ArrayRef<int64_t> grid, int64_t threads,
                        llvm::function_ref<LogicalResult(KernelFrame &)> body) {
  options.scratchBytes = mapped.scratchBytes;
  KernelFrame frame(kernel, module, options);
  if (failed(frame.emitScalars()) || failed(body(frame))) {
    if (mapped.reason.empty())
      mapped.reason = frame.emitter.reason();
    return failure();
  }
  frame.finish(grid, threads);
  mapped.launches.push_back(frame.launch());
  return success();
}

} // namespace heddle::gpu
