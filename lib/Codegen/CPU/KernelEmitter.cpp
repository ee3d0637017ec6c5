//===- KernelEmitter.cpp - The function of one plan.kernel ----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelEmitter.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace heddle::cpu {

void KernelEmitter::bindArguments(Value refs, Value scalarArgs) {
  Type pointerType = refs.getType(), i64 = b.builder.getI64Type();
  int64_t refIndex = 0, scalarIndex = 0;
  auto nextRef = [&]() -> Value {
    Value slot = b.advance(refs, pointerType, refIndex++);
    return b.load(pointerType, slot, alignof(void *));
  };
  for (BlockArgument arg : kernel.getBody().getArguments()) {
    if (arg.getType().isIndex()) {
      Value slot = b.advance(scalarArgs, i64, scalarIndex++);
      evaluator.setScalar(arg, b.load(i64, slot, alignof(int64_t)));
      continue;
    }
    Value pointer = nextRef();
    pointers[arg] = pointer;
    evaluator.setMemory(arg, pointer);
  }
  for (int64_t tie : kernel.getTies())
    results.push_back(tie < 0 ? nextRef()
                              : pointerOf(kernel.getBody().getArgument(tie)));
}

Value KernelEmitter::resultPointer(Value value) {
  for (auto [yield, pointer] : llvm::zip(yields(), results))
    if (yield == value)
      return pointer;
  return {};
}

LogicalResult KernelEmitter::verifyYieldedOnce() {
  llvm::DenseSet<Value> seen;
  for (Value yield : yields())
    if (!seen.insert(yield).second)
      return kernel.emitError(
          "yields a value twice, which its generator "
          "writes once; yield it once, and use that result");
  return success();
}

Value KernelEmitter::reserve(int64_t bytes) {
  constexpr int64_t alignment = 64;
  int64_t offset = llvm::alignTo(scratchBytes, alignment);
  scratchBytes = offset + bytes;
  return b.advance(scratch, b.builder.getI8Type(), offset);
}

Value KernelEmitter::makeTable(ArrayRef<int64_t> values, StringRef name) {
  Operation *parent = b.builder.getInsertionBlock()->getParentOp();
  auto function = dyn_cast<func::FuncOp>(parent);
  if (!function)
    function = parent->getParentOfType<func::FuncOp>();
  OpBuilder builder(function->getParentOfType<ModuleOp>().getBodyRegion());
  std::string symbol = (function.getSymName() + "." + name).str();
  builder.create<LLVM::GlobalOp>(
      b.loc,
      LLVM::LLVMArrayType::get(builder.getI64Type(),
                               static_cast<unsigned>(values.size())),
      /*isConstant=*/true, LLVM::Linkage::Internal, symbol,
      builder.getI64TensorAttr(values));
  return b.create<LLVM::AddressOfOp>(
      LLVM::LLVMPointerType::get(builder.getContext()), symbol);
}

Value KernelEmitter::sumOfSquares(Value input, Value begin, Value end) {
  TensorEvaluator &ev = evaluator;
  VectorType wide = ev.vectorType(b.builder.getF64Type());
  constexpr unsigned sums = 4;
  SmallVector<Value> init(sums, b.zeros(wide));
  SmallVector<Value> carried =
      b.forLoop(begin, end, flatUnit, init, [&](Value at, ValueRange before) {
        TensorEvaluator::Scope scope(ev);
        SmallVector<Value> next(before);
        for (int64_t chunk = 0; chunk < flatUnit / ev.laneCount(); ++chunk) {
          Point point = {
              {b.add(at, chunk * ev.laneCount()), Coordinate::Consecutive}};
          Value x = b.create<arith::ExtFOp>(
              wide, b.widen(ev.evaluateVector(input, point)));
          Value &sum = next[chunk % sums];
          sum = b.create<arith::AddFOp>(sum, b.create<arith::MulFOp>(x, x));
        }
        return next;
      });
  Value total = carried[0];
  for (Value part : ArrayRef(carried).drop_front())
    total = b.create<arith::AddFOp>(total, part);
  return b.create<vector::ReductionOp>(vector::CombiningKind::ADD, total);
}

/// Returns `next` in the lanes of `mask`, and `previous` in the others.
static SmallVector<Value> keepMasked(LoopBuilder &b, Value mask,
                                     ValueRange next, ValueRange previous) {
  SmallVector<Value> kept;
  for (auto [n, p] : llvm::zip(next, previous))
    kept.push_back(b.select(mask, n, p));
  return kept;
}

SmallVector<Value> KernelEmitter::forColumns(int64_t extent, unsigned copies,
                                             ValueRange init, ColumnBody body) {
  int64_t lanes = evaluator.laneCount(), step = lanes * copies;
  size_t width = init.size();
  SmallVector<Value> carried;
  for (unsigned copy = 0; copy < copies; ++copy)
    carried.append(init.begin(), init.end());
  auto runCopy = [&](Value column, ValueRange all, unsigned copy) {
    TensorEvaluator::Scope scope(evaluator);
    return body(column, all.slice(copy * width, width), copy);
  };
  int64_t wide = extent / step * step, full = extent / lanes * lanes;
  if (wide)
    carried = b.forLoop(
        b.constant(0), b.constant(wide), step, carried,
        [&](Value column, ValueRange all) {
          SmallVector<Value> next;
          for (unsigned copy = 0; copy < copies; ++copy)
            next.append(runCopy(b.add(column, copy * lanes), all, copy));
          return next;
        });
  auto runFirst = [&](Value column, ValueRange all, Value mask) {
    SmallVector<Value> next = runCopy(column, all, 0);
    if (mask)
      next = keepMasked(b, mask, next, all.take_front(width));
    next.append(all.begin() + width, all.end());
    return next;
  };
  if (full > wide)
    carried = b.forLoop(b.constant(wide), b.constant(full), lanes, carried,
                        [&](Value column, ValueRange all) {
                          return runFirst(column, all, {});
                        });
  if (full < extent) {
    Value mask = b.mask(b.constant(extent - full), lanes);
    evaluator.setMask(mask);
    carried = runFirst(b.constant(full), carried, mask);
    evaluator.setMask({});
  }
  return carried;
}

LogicalResult KernelEmitter::finish() {
  const auto &failed = evaluator.failure();
  if (!failed)
    return success();
  return failed->op->emitError("x86-64 code generation: ") << failed->reason;
}

} // namespace heddle::cpu
