//===- Target.cpp - The registry of targets -------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Codegen/Common/Target.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/Support/Base64.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::codegen;

namespace {
struct Registry {
  std::vector<std::unique_ptr<Target>> owned;
  std::vector<const Target *> inOrder;
};
} // namespace

static Registry &registry() {
  static Registry all;
  return all;
}

void codegen::registerTarget(std::unique_ptr<Target> target) {
  Registry &all = registry();
  all.owned.push_back(std::move(target));
  llvm::sort(all.owned, [](const auto &a, const auto &b) {
    return a->name() < b->name();
  });
  all.inOrder.clear();
  for (const std::unique_ptr<Target> &one : all.owned)
    all.inOrder.push_back(one.get());
}

ArrayRef<const Target *> codegen::allTargets() { return registry().inOrder; }

dist::Strategy codegen::strategyOf(Operation *root) {
  return root->getAttrOfType<dist::StrategyAttr>("strategy").getValue();
}

static FailureOr<const Target *> findTarget(Operation *root,
                                            config::Target name) {
  for (const Target *target : allTargets())
    if (target->name() == name)
      return target;
  auto diagnostic = root->emitError("H0245: this build has no back end for ")
                    << wordOf(name) << "; it has ";
  llvm::interleaveComma(allTargets(), diagnostic, [&](const Target *target) {
    diagnostic << wordOf(target->name());
  });
  return diagnostic;
}

FailureOr<const Target *> codegen::findTarget(Operation *root) {
  return ::findTarget(root, strategyOf(root).target);
}

FailureOr<const Target *> codegen::findHostTarget(Operation *root) {
  return ::findTarget(root, config::Target::X86_64);
}

bool codegen::hasKernelsOnHost(Operation *root) {
  return llvm::any_of(
      root->getRegion(0).getOps<planir::KernelOp>(),
      [](planir::KernelOp kernel) { return kernel.getOnHost(); });
}

std::string codegen::textOf(planir::KernelOp kernel) {
  OwningOpRef<planir::KernelOp> clone(kernel.clone());
  clone->setSymName("kernel");
  clone->removeObjectAttr();
  clone->removeSymbolAttr();
  clone->removeHashAttr();
  clone->removeScratchBytesAttr();
  clone->removeLaunchesAttr();
  clone->removeLibraryAttr();
  clone->removeOnHostAttr();
  clone->removeArgAttrsAttr();
  clone->removeResAttrsAttr();
  for (Operation &op : clone->getBody().front())
    op.removeAttr("shardings");
  std::string text;
  llvm::raw_string_ostream stream(text);
  OpPrintingFlags flags;
  flags.printGenericOpForm().useLocalScope();
  clone->getOperation()->print(stream, flags);
  return text;
}

planir::ObjectOp codegen::objectOf(const SymbolTable &symbols,
                                   planir::KernelOp kernel) {
  return kernel.getObject()
             ? symbols.lookup<planir::ObjectOp>(*kernel.getObject())
             : planir::ObjectOp();
}

FailureOr<std::string> codegen::codeOf(planir::ObjectOp object) {
  std::vector<char> bytes;
  if (llvm::Error error = llvm::decodeBase64(object.getData(), bytes))
    return object.emitError("H0397: is not base64: ")
           << llvm::toString(std::move(error));
  return std::string(bytes.begin(), bytes.end());
}
