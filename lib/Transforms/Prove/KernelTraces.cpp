//===- KernelTraces.cpp - What traces need to know of kernels -------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelTraces.h"
#include "dialects/NN/NNDialect.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::prove;

/// Returns the arguments of a kernel from which a value of its body is
/// computed.
static std::vector<int16_t> sourcesOf(Value value) {
  std::vector<int16_t> sources;
  llvm::SetVector<Value> reached;
  reached.insert(value);
  for (size_t i = 0; i < reached.size(); ++i) {
    Operation *made = reached[i].getDefiningOp();
    if (made)
      reached.insert(made->operand_begin(), made->operand_end());
    else
      sources.push_back(
          static_cast<int16_t>(cast<BlockArgument>(reached[i]).getArgNumber()));
  }
  return sources;
}

/// Records which arguments of a kernel tell a cache operation at which
/// positions of the key-value cache it stores the tokens.
template <typename CacheOp>
static void describePlaces(CacheOp op, Kernel &kernel) {
  const std::pair<Value, plan::PortRole> places[] = {
      {op.getPages(), plan::PortRole::Pages},
      {op.getPositions(), plan::PortRole::Positions},
      {op.getLengths(), plan::PortRole::Lengths}};
  for (auto [value, role] : places)
    for (int16_t source : sourcesOf(value))
      kernel.places[source] = role;
}

Kernel heddle::prove::describe(planir::KernelOp kernel) {
  Kernel result;
  result.code = kernel.getHash().value_or(kernel.getSymName()).str();
  for (Operation &op : kernel.getBody().front())
    if (auto write = dyn_cast<nn::CacheWriteOp>(op))
      describePlaces(write, result);
    else if (auto attention = dyn_cast<nn::PagedAttentionOp>(op))
      describePlaces(attention, result);
  // The operands of a launch are the kernel's arguments, followed by the
  // results that are not computed in the memory of an argument.
  auto next = static_cast<int16_t>(kernel.getArgumentTypes().size());
  for (auto [value, tie] :
       llvm::zip(kernel.getBody().front().getTerminator()->getOperands(),
                 kernel.getTies())) {
    int16_t operand = tie < 0 ? next++ : static_cast<int16_t>(tie);
    result.sources[operand] = sourcesOf(value);
  }
  return result;
}
