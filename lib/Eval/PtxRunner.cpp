//===- PtxRunner.cpp - Runs GPU kernels in the emulator -------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PtxRunner.h"

using namespace mlir;

namespace heddle::eval {

static emulator::Launch launchOf(planir::GridLaunchAttr attribute) {
  auto sizes = [](ArrayRef<int64_t> list) {
    return emulator::Dim3{list[0], list[1], list[2]};
  };
  emulator::Launch launch;
  launch.kernel = attribute.getSymbol().str();
  launch.grid = sizes(attribute.getGrid());
  launch.block = sizes(attribute.getBlock());
  if (!attribute.getCluster().empty())
    launch.cluster = sizes(attribute.getCluster());
  launch.sharedBytes = attribute.getShared();
  return launch;
}

/// The launches and argument sizes of a kernel, without its compiled module.
static PtxKernel kernelFrom(planir::KernelOp op) {
  PtxKernel kernel;
  for (auto launch : op.getLaunches()->getAsRange<planir::GridLaunchAttr>())
    kernel.launches.push_back(launchOf(launch));
  kernel.scratchBytes = op.getScratchBytes().value_or(0);
  size_t numScalars = 0;
  for (auto [operand, type] : llvm::enumerate(op.getLaunchTypes()))
    if (isa<RankedTensorType>(type))
      kernel.arguments.push_back(dist::byteSize(op.getBufferType(operand)));
    else
      ++numScalars;
  if (kernel.scratchBytes > 0)
    kernel.arguments.push_back(kernel.scratchBytes);
  kernel.arguments.resize(kernel.arguments.size() + numScalars);
  return kernel;
}

std::unique_ptr<PtxRunner> PtxRunner::create(Operation *symbolTable) {
  SymbolTable symbols(symbolTable);
  std::unique_ptr<PtxRunner> result(new PtxRunner());
  DenseMap<Operation *, std::shared_ptr<emulator::Module>> modules;
  for (auto op : symbolTable->getRegion(0).getOps<planir::KernelOp>()) {
    if (!op.getObject() || !op.getLaunches())
      continue;
    auto object = symbols.lookup<planir::ObjectOp>(*op.getObject());
    if (!object) {
      op.emitError("names the object @") << *op.getObject() << ", which is not "
                                         << "there";
      return nullptr;
    }
    std::shared_ptr<emulator::Module> &module = modules[object];
    std::string error;
    if (!module)
      module = emulator::Module::load(object.getData(), error);
    if (!module) {
      object.emitError("is no PTX that can be executed: ") << error;
      return nullptr;
    }
    PtxKernel kernel = kernelFrom(op);
    kernel.module = module;
    result->kernels[op.getSymName()] = std::move(kernel);
  }
  return result;
}

LogicalResult PtxRunner::launch(planir::KernelOp kernel, ArrayRef<void *> refs,
                                ArrayRef<int64_t> scalars, char *scratch,
                                int64_t) {
  auto found = kernels.find(kernel.getSymName());
  if (found == kernels.end())
    return kernel.emitError("is not compiled");
  std::string fault = found->second.run(refs, scalars, scratch);
  if (!fault.empty())
    return kernel.emitError("fails: ") << fault;
  return success();
}

} // namespace heddle::eval
