//===- Verify.cpp - Verifies the result of the fuse phase -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Groups.h"
#include "heddle/Transforms/Common/States.h"
#include "heddle/Transforms/Common/VerifyPass.h"
#include "heddle/Transforms/Fuse/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace heddle;

namespace heddle {
#define GEN_PASS_DEF_FUSEVERIFY
#include "include/heddle/Transforms/Fuse/Passes.h.inc"
} // namespace heddle

namespace {

/// Whether an operation declares that a result may be computed in the memory of
/// an argument.
bool mayTie(Operation *op, Value result, Value argument) {
  return llvm::any_of(cast<nn::PropertiesOpInterface>(op).getTies(),
                      [&](const nn::Tie &tie) {
                        return tie.result == result && tie.operand == argument;
                      });
}

/// Checks that the operations of a kernel may share a kernel, and that the
/// kernel names the code generator for these operations.
LogicalResult verifyKernel(planir::KernelOp kernel,
                           const codegen::FusionRules &rules) {
  Block &body = kernel.getBody().front();
  auto from = llvm::find_if(
      body, [&](Operation &op) { return !fuse::isOfColumns(&op, rules); });
  Operation &first = *from;
  if (!fuse::generatorOf(&first))
    return kernel.emitError("H0907: begins with ")
           << first.getName() << ", which makes no kernel";
  SmallVector<Operation *> members = {&first};
  SmallVector<Operation *> all = llvm::to_vector(
      llvm::map_range(llvm::make_range(from, std::prev(body.end())),
                      [](Operation &op) { return &op; }));
  // A product may also write what it computes to the cache.
  bool isCacheGroup = all.size() > 1 &&
                      isa<nn::PagedAttentionOp, nn::CacheWriteOp>(all.back()) &&
                      fuse::generatorOf(all) != nn::Generator::Gemm;
  std::string whyNot =
      isCacheGroup ? fuse::refusalOfCacheGroup(all, rules) : "";
  if (!whyNot.empty())
    return all.back()->emitError("H0907: cannot be in this kernel: ") << whyNot;
  for (Operation *op : ArrayRef(all).drop_front()) {
    std::string why = isCacheGroup ? "" : fuse::refusal(op, members, rules);
    if (!why.empty())
      return op->emitError("H0907: cannot be in this kernel: ") << why;
    members.push_back(op);
  }
  nn::Generator generator = fuse::generatorOf(members);
  if (generator != kernel.getGenerator())
    return kernel.emitError("H0907: has the generator \"")
           << stringifyGenerator(kernel.getGenerator())
           << "\", its body that begins with " << first.getName() << " has \""
           << stringifyGenerator(generator) << "\"";
  for (auto [value, tie] :
       llvm::zip(body.back().getOperands(), kernel.getTies())) {
    Operation *made = value.getDefiningOp();
    if (!made)
      return kernel.emitError("H0907: gives back an argument as it is");
    if (tie >= 0 && !mayTie(made, value, body.getArgument(tie)))
      return made->emitError("H0907: cannot take the place of argument ")
             << tie << " of the kernel";
  }
  return success();
}

struct Verify : VerifyPass<heddle::impl::FuseVerifyBase, Verify> {
  LogicalResult verify(nn::ModelOp model) {
    FailureOr<codegen::FusionRules> rules = fuse::rulesOf(model);
    if (failed(rules) || failed(verifyGradientsBegin(model, "H0907")))
      return failure();
    WalkResult walk = model.walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (auto kernel = dyn_cast<planir::KernelOp>(op))
        return failed(verifyKernel(kernel, *rules)) ? WalkResult::interrupt()
                                                    : WalkResult::skip();
      if (!isa<nn::CostOpInterface>(op))
        return WalkResult::advance();
      op->emitError("H0907: is in no kernel");
      return WalkResult::interrupt();
    });
    return failure(walk.wasInterrupted() || failed(fuse::verifyTies(model)) ||
                   failed(fuse::verifyLeadingDimensions(model, *rules)));
  }
};

} // namespace
