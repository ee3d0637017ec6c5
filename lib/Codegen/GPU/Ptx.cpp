//===- Ptx.cpp - From nvvm to PTX text ------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Translates a kernel from the llvm dialect to PTX, by LLVM's NVPTX back end.
//
//===----------------------------------------------------------------------===//

#include "Ptxas.h"
#include "SourceLines.h"
#include "heddle/Codegen/Common/OptimizeModule.h"
#include "heddle/Codegen/GPU/Kernels.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include <mutex>

using namespace llvm;

extern "C" {
void LLVMInitializeNVPTXTargetInfo();
void LLVMInitializeNVPTXTarget();
void LLVMInitializeNVPTXTargetMC();
void LLVMInitializeNVPTXAsmPrinter();
}

namespace heddle::gpu {

namespace {
constexpr const char *triple = "nvptx64-nvidia-cuda";

/// LLVM's default pipeline, without most repetitions of passes and without
/// passes that kernels do not need: those for calls, for vectorization of loops
/// and for dead stores. Compared with the default pipeline, it takes three
/// quarters of the time; kernels have as many instructions and access fewer
/// sectors of memory.
constexpr const char *pipeline =
    "function(nvvm-intr-range,sroa,early-cse,simplifycfg,"
    "instcombine<no-verify-fixpoint>,reassociate,"
    "loop-mssa(licm,loop-rotate,licm),simplifycfg,"
    "loop(indvars,loop-deletion,loop-unroll-full),sroa,gvn,sccp,"
    "instcombine<no-verify-fixpoint>,correlated-propagation,loop-mssa(licm),"
    "simplifycfg<hoist-common-insts;sink-common-insts>,infer-alignment,"
    "loop-unroll<O2>,instcombine<no-verify-fixpoint>,simplifycfg)";
} // namespace

const Chip *findChip(StringRef name) {
  // An A100 and an H100.
  static constexpr Chip chips[] = {{"sm_80", 108, 164 << 10},
                                   {"sm_90", 132, 228 << 10}};
  const auto *found =
      llvm::find_if(chips, [&](const Chip &chip) { return chip.name == name; });
  return found == std::end(chips) ? nullptr : found;
}

static Expected<std::unique_ptr<TargetMachine>>
createTargetMachine(StringRef chip) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
  std::string message;
  const Target *target = TargetRegistry::lookupTarget(triple, message);
  if (!target)
    return createStringError(inconvertibleErrorCode(), message);
  TargetOptions options;
  options.AllowFPOpFusion = FPOpFusion::Fast;
  // The next higher optimization level, Aggressive, takes a sixth more time and
  // yields the same instructions.
  return std::unique_ptr<TargetMachine>(target->createTargetMachine(
      triple, chip, ("+ptx" + Twine(ptxVersion)).str(), options, std::nullopt,
      std::nullopt, CodeGenOptLevel::Default));
}

/// Replaces an access to four adjacent bf16 by an access to two 32-bit words.
/// The back end does so for other 16-bit types only, and would emit two
/// accesses for bf16.
static void joinAccesses(Function &function) {
  IRBuilder<> b(function.getContext());
  auto *four = FixedVectorType::get(b.getBFloatTy(), 4);
  auto *two = FixedVectorType::get(b.getBFloatTy(), 2);
  auto *words = FixedVectorType::get(b.getInt32Ty(), 2);
  for (Instruction &instruction :
       make_early_inc_range(instructions(function))) {
    b.SetInsertPoint(&instruction);
    if (auto *load = dyn_cast<LoadInst>(&instruction);
        load && load->getType() == four && load->getAlign() >= Align(8)) {
      Value *value =
          b.CreateAlignedLoad(words, load->getPointerOperand(), Align(8));
      Value *low =
          b.CreateBitCast(b.CreateExtractElement(value, uint64_t(0)), two);
      Value *high = b.CreateBitCast(b.CreateExtractElement(value, 1), two);
      load->replaceAllUsesWith(b.CreateShuffleVector(low, high, {0, 1, 2, 3}));
      load->eraseFromParent();
    } else if (auto *store = dyn_cast<StoreInst>(&instruction);
               store && store->getValueOperand()->getType() == four &&
               store->getAlign() >= Align(8)) {
      Value *value = PoisonValue::get(words);
      for (int half = 0; half < 2; ++half) {
        Value *pair = b.CreateShuffleVector(store->getValueOperand(),
                                            {2 * half, 2 * half + 1});
        value = b.CreateInsertElement(
            value, b.CreateBitCast(pair, b.getInt32Ty()), half);
      }
      b.CreateAlignedStore(value, store->getPointerOperand(), Align(8));
      store->eraseFromParent();
    }
  }
}

Expected<std::string> emitPtx(mlir::gpu::GPUModuleOp module, StringRef chip) {
  Expected<std::unique_ptr<TargetMachine>> machine = createTargetMachine(chip);
  if (!machine)
    return machine.takeError();
  addSourceLines(module);
  LLVMContext context;
  std::unique_ptr<Module> llvmModule =
      mlir::translateModuleToLLVMIR(module, context, module.getName());
  if (!llvmModule)
    return createStringError(inconvertibleErrorCode(),
                             "a GPU kernel cannot be translated to LLVM IR");
  llvmModule->setTargetTriple(triple);
  llvmModule->setDataLayout((*machine)->createDataLayout());
  llvm::for_each(*llvmModule, joinAccesses);
  codegen::optimizeModule(*llvmModule, **machine, pipeline);
  for (const Function &function : *llvmModule)
    if (function.isDeclaration() && !function.isIntrinsic())
      return createStringError(inconvertibleErrorCode(),
                               "a GPU kernel calls the undefined function " +
                                   function.getName());
  SmallString<0> text;
  raw_svector_ostream stream(text);
  legacy::PassManager codegen;
  if ((*machine)->addPassesToEmitFile(codegen, stream, nullptr,
                                      CodeGenFileType::AssemblyFile))
    return createStringError(inconvertibleErrorCode(), "LLVM cannot write PTX");
  codegen.run(*llvmModule);
  return text.str().str();
}

} // namespace heddle::gpu
