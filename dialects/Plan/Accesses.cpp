//===- Accesses.cpp - Reads, writes and streams of commands ---------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Plan/PlanDialect.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::planir;

/// A read or write of all bytes of operand number `operand`.
static Access accessOf(Operation *op, unsigned operand, bool writes) {
  return {operand, writes, dist::byteSize(op->getOperand(operand).getType())};
}

SmallVector<Access> LaunchOp::getAccesses(const SymbolTable &symbols) {
  auto kernel = symbols.lookup<KernelOp>(getKernel());
  unsigned inputs = kernel.getArgumentTypes().size();
  SmallVector<Access> accesses;
  for (unsigned number = 0; number < getNumOperands(); ++number) {
    if (getOperand(number).getType().isIndex())
      continue;
    if (number < inputs)
      accesses.push_back(accessOf(*this, number, /*writes=*/false));
    if (number >= inputs || llvm::is_contained(kernel.getTies(), number))
      accesses.push_back(accessOf(*this, number, /*writes=*/true));
  }
  return accesses;
}

Stream LaunchOp::getOwnStream() { return getStream(); }

SmallVector<Access> CopyOp::getAccesses(const SymbolTable &) {
  return {accessOf(*this, 1, /*writes=*/false),
          accessOf(*this, 0, /*writes=*/true)};
}
Stream CopyOp::getOwnStream() { return getStream(); }

SmallVector<Access> CopyRowsOp::getAccesses(const SymbolTable &) {
  return {accessOf(*this, 2, /*writes=*/false),
          accessOf(*this, 1, /*writes=*/false),
          accessOf(*this, 0, /*writes=*/true)};
}
Stream CopyRowsOp::getOwnStream() { return getStream(); }

SmallVector<Access> FillOp::getAccesses(const SymbolTable &) {
  return {accessOf(*this, 0, /*writes=*/true)};
}
Stream FillOp::getOwnStream() { return getStream(); }

Stream RecordOp::getOwnStream() { return getStream(); }
Value RecordOp::getSignal() { return getToken(); }
Stream SettleOp::getOwnStream() { return getStream(); }

Stream WaitOp::getOwnStream() { return getStream(); }
Value WaitOp::getAwaited() { return getToken(); }

SmallVector<Access> CollectiveOp::getAccesses(const SymbolTable &) {
  return {accessOf(*this, 1, /*writes=*/false),
          accessOf(*this, 0, /*writes=*/true),
          accessOf(*this, 2, /*writes=*/true)};
}
Stream CollectiveOp::getOwnStream() { return Stream::Communication; }
Value CollectiveOp::getSignal() { return getToken(); }

SmallVector<Access> SendOp::getAccesses(const SymbolTable &) {
  return {accessOf(*this, 0, /*writes=*/false)};
}
Stream SendOp::getOwnStream() { return Stream::Communication; }
StringRef SendOp::getSendingChannel() { return getChannel(); }

SmallVector<Access> RecvOp::getAccesses(const SymbolTable &) {
  return {accessOf(*this, 0, /*writes=*/true)};
}
