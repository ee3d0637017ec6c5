//===- CompileObject.cpp - Compiles modules to x86-64 objects -------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Codegen/CPU/CompileObject.h"
#include "heddle/Codegen/Common/OptimizeModule.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/Analysis/TargetTransformInfo.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/SmallVectorMemoryBuffer.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include <mutex>

using namespace llvm;

namespace heddle::cpu {

namespace {
constexpr const char *triple = "x86_64-unknown-linux-gnu";

Expected<std::unique_ptr<TargetMachine>>
createTargetMachine(const CpuTarget &target) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
  });
  std::string message;
  const Target *registered = TargetRegistry::lookupTarget(triple, message);
  if (!registered)
    return createStringError(inconvertibleErrorCode(), message);
  TargetOptions options;
  options.AllowFPOpFusion = FPOpFusion::Fast;
  return std::unique_ptr<TargetMachine>(registered->createTargetMachine(
      triple, target.cpu, target.features, options, Reloc::PIC_,
      CodeModel::Small, CodeGenOptLevel::Default));
}

void setAttributes(Module &module, const CpuTarget &target) {
  for (Function &function : module) {
    if (function.isDeclaration())
      continue;
    function.addFnAttr("prefer-vector-width",
                       std::to_string(target.vectorBits));
    if (!target.tune.empty())
      function.addFnAttr("tune-cpu", target.tune);
    function.addFnAttr(Attribute::NoUnwind);
  }
}

/// The LLVM passes for kernels. The emitters vectorize and unroll themselves,
/// so only simplifications and loop-invariant code motion are needed. The
/// standard pipeline gives the same speed at five times the compile time.
constexpr const char *pipeline =
    "cgscc(inline),function(sroa,early-cse<memssa>,simplifycfg,"
    "instcombine<no-verify-fixpoint>,loop-simplify,"
    "loop-mssa(loop-rotate,licm),early-cse<memssa>,"
    "instcombine<no-verify-fixpoint>,simplifycfg)";

} // namespace

Expected<std::unique_ptr<MemoryBuffer>>
compileToObject(mlir::ModuleOp module, const CpuTarget &target) {
  if (failed(lowerToLLVM(module, target)))
    return createStringError(inconvertibleErrorCode(),
                             "a kernel cannot be lowered to LLVM");
  LLVMContext context;
  std::unique_ptr<Module> llvmModule =
      mlir::translateModuleToLLVMIR(module, context);
  if (!llvmModule)
    return createStringError(inconvertibleErrorCode(),
                             "a kernel cannot be translated to LLVM IR");
  Expected<std::unique_ptr<TargetMachine>> machine =
      createTargetMachine(target);
  if (!machine)
    return machine.takeError();
  llvmModule->setTargetTriple(triple);
  llvmModule->setDataLayout((*machine)->createDataLayout());
  setAttributes(*llvmModule, target);
  codegen::optimizeModule(*llvmModule, **machine, pipeline);

  SmallVector<char, 0> object;
  raw_svector_ostream stream(object);
  legacy::PassManager codegen;
  if ((*machine)->addPassesToEmitFile(codegen, stream, nullptr,
                                      CodeGenFileType::ObjectFile))
    return createStringError(inconvertibleErrorCode(),
                             "LLVM cannot write x86-64 objects");
  codegen.run(*llvmModule);
  return std::make_unique<SmallVectorMemoryBuffer>(
      std::move(object), llvmModule->getName(),
      /*RequiresNullTerminator=*/false);
}

} // namespace heddle::cpu
