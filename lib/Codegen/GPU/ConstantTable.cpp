//===- ConstantTable.cpp - Constant numbers in global memory --------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Emits constant tables, loads of their entries, and binary searches.
//
//===----------------------------------------------------------------------===//

#include "ConstantTable.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;

namespace heddle::gpu {

ConstantTable::ConstantTable(KernelFrame &f, StringRef symbol,
                             ArrayRef<int32_t> numbers)
    : ConstantTable(f, symbol,
                    DenseElementsAttr(f.builder.getI32TensorAttr(numbers))) {}

ConstantTable::ConstantTable(KernelFrame &f, StringRef symbol,
                             ArrayRef<int64_t> numbers)
    : ConstantTable(f, symbol,
                    DenseElementsAttr(f.builder.getI64TensorAttr(numbers))) {}

ConstantTable::ConstantTable(KernelFrame &f, StringRef symbol,
                             DenseElementsAttr numbers)
    : f(f) {
  OpBuilder &b = f.builder;
  auto module = f.func->getParentOfType<mlir::gpu::GPUModuleOp>();
  auto space = mlir::gpu::AddressSpaceAttr::get(
      b.getContext(), mlir::gpu::AddressSpace::Global);
  auto type =
      MemRefType::get({numbers.getNumElements()}, numbers.getElementType(),
                      MemRefLayoutAttrInterface(), space);
  if (!module.lookupSymbol(symbol)) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(module.getBody());
    b.create<memref::GlobalOp>(f.loc, symbol, b.getStringAttr("private"), type,
                               numbers, /*constant=*/true,
                               /*alignment=*/IntegerAttr());
  }
  memory = b.create<memref::GetGlobalOp>(f.loc, type, symbol);
}

Value ConstantTable::at(Value index) const {
  return f.builder.create<memref::LoadOp>(f.loc, memory, ValueRange(index));
}

Value ConstantTable::search(int64_t last, Value key) const {
  OpBuilder &b = f.builder;
  Value found = f.constant(0), end = f.constant(last);
  for (auto step = static_cast<int64_t>(llvm::PowerOf2Ceil(last + 1) / 2); step;
       step /= 2) {
    Value next = f.add(found, step);
    Value entry = at(b.create<arith::MinUIOp>(f.loc, next, end));
    Value isBefore =
        b.create<arith::CmpIOp>(f.loc, arith::CmpIPredicate::sle, entry, key);
    Value exists =
        b.create<arith::CmpIOp>(f.loc, arith::CmpIPredicate::ule, next, end);
    found = b.create<arith::SelectOp>(
        f.loc, b.create<arith::AndIOp>(f.loc, isBefore, exists), next, found);
  }
  return found;
}

} // namespace heddle::gpu
