//===- CpuBackEnd.cpp - The back end for x86-64 ---------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Codegen/CPU/CpuBackEnd.h"
#include "heddle/Codegen/CPU/KernelCompiler.h"
#include "heddle/Codegen/CPU/Passes.h"
#include "heddle/Emit/LinkKernels.h"
#include "llvm/Object/ELFObjectFile.h"

using namespace mlir;
using namespace heddle;

FailureOr<cpu::CpuTarget> cpu::machineOf(Operation *root, StringRef march) {
  std::string name =
      march.empty() ? wordOf(codegen::strategyOf(root).march) : march.str();
  if (std::optional<cpu::CpuTarget> target = cpu::CpuTarget::parse(name))
    return *target;
  auto diagnostic = root->emitError("H0114: no code can be made for --march ")
                    << name << "; known are ";
  llvm::interleaveComma(cpu::CpuTarget::names(), diagnostic);
  return diagnostic;
}

bool cpu::runsKernel(planir::KernelOp kernel) {
  const dist::Strategy &strategy = codegen::strategyOf(kernel->getParentOp());
  return kernel.getOnHost() || factsOf(strategy.target).kernelsRunOnHost;
}

namespace {

/// For the pass kernels-verify: checks that each CPU kernel of a model or plan
/// names an object (compiled code) that exists and is for the target CPU.
class Checker {
public:
  LogicalResult checkAll(Operation *root) {
    FailureOr<cpu::CpuTarget> target = cpu::machineOf(root);
    if (failed(target))
      return failure();
    SymbolTable symbols(root);
    auto kernels = root->getRegion(0).getOps<planir::KernelOp>();
    if (!kernels.empty() && llvm::none_of(kernels, cpu::runsKernel))
      return root->emitError("H0397: has no kernel that a CPU runs");
    for (planir::KernelOp kernel : kernels)
      if (cpu::runsKernel(kernel) && failed(check(symbols, kernel, *target)))
        return failure();
    return success();
  }

private:
  LogicalResult check(const SymbolTable &symbols, planir::KernelOp kernel,
                      const cpu::CpuTarget &target) {
    if (!kernel.getObject() || !kernel.getSymbol() ||
        !kernel.getScratchBytes() || !kernel.getHash())
      return kernel.emitError("H0397: is not compiled");
    planir::ObjectOp object = codegen::objectOf(symbols, kernel);
    if (!object)
      return kernel.emitError("H0397: names the object @")
             << *kernel.getObject() << ", which is not there";
    if (failed(codegen::verifySource(kernel, cpu::describe(target))))
      return failure();
    // Most pipeline stages share their compiled kernels (objects); check each
    // object only once.
    auto what = std::make_tuple(object.getDataAttr(), object.getHashAttr(),
                                kernel.getSymbolAttr(), kernel.getHashAttr(),
                                kernel.getScratchBytesAttr());
    if (!checked.insert(what).second)
      return success();
    FailureOr<std::string> bytes = codegen::codeOf(object);
    if (failed(bytes))
      return failure();
    cpu::CompiledKernel code{kernel.getSymbol()->str(),
                             static_cast<int64_t>(*kernel.getScratchBytes()),
                             std::move(*bytes)};
    if (object.getHash() != cpu::sealOf(code, *kernel.getHash()))
      return object.emitError("H0397: @")
             << object.getSymName() << " is not the code that was compiled for "
             << "@" << kernel.getSymName() << ": its hash differs";
    auto file = llvm::object::ObjectFile::createELFObjectFile(
        {code.object, object.getSymName()});
    if (!file)
      return object.emitError("H0397: is no ELF object: ")
             << llvm::toString(file.takeError());
    return checkSymbols(kernel, **file);
  }

  LogicalResult checkSymbols(planir::KernelOp kernel,
                             const llvm::object::ObjectFile &file) {
    bool defined = false;
    for (const llvm::object::SymbolRef &symbol : file.symbols()) {
      llvm::Expected<StringRef> name = symbol.getName();
      llvm::Expected<uint32_t> flags = symbol.getFlags();
      if (!name || !flags) {
        llvm::consumeError(name.takeError());
        llvm::consumeError(flags.takeError());
        return kernel.emitError("H0397: its object has damaged symbols");
      }
      bool undefined = *flags & llvm::object::SymbolRef::SF_Undefined;
      // LLVM replaces loops that copy or fill by calls of these functions,
      // which the runtime provides.
      bool known = llvm::is_contained({"memcpy", "memmove", "memset"}, *name);
      if (undefined && !known && !name->empty())
        return kernel.emitError("H0397: its object calls ")
               << *name << ", which no kernel may";
      defined |= !undefined && *name == *kernel.getSymbol();
    }
    if (!defined)
      return kernel.emitError("H0397: its object does not define ")
             << *kernel.getSymbol();
    return success();
  }

  llvm::DenseSet<
      std::tuple<Attribute, Attribute, Attribute, Attribute, Attribute>>
      checked;
};

class BackEnd : public codegen::Target {
public:
  config::Target name() const override { return config::Target::X86_64; }
  bool supports(nn::Generator) const override { return true; }

  codegen::FusionRules fusionRules(const dist::Strategy &) const override {
    codegen::FusionRules rules;
    rules.joinsPackedProducts = true;
    rules.headsInPackedProducts = true;
    rules.columnsInRows = true;
    // A kernel of matrix products may also compute the rows of their left
    // operand, for example by a norm. Every thread then computes all of these
    // rows. For more than 16 rows this takes longer than a separate kernel. 16
    // is also the number of requests that are usually decoded together.
    rules.rowsOfPrologues = 16;
    return rules;
  }

  void registerDialects(DialectRegistry &registry) const override {
    registry.insert<planir::PlanDialect>();
  }

  void buildPipeline(OpPassManager &pm,
                     const codegen::TargetOptions &options) const override {
    CpuCompileKernelsOptions kernels;
    kernels.cache = options.cache;
    kernels.sizesOnly = options.sizesOnly;
    pm.addPass(createCpuCompileKernels(kernels));
  }

  LogicalResult verify(ArrayRef<Operation *> roots) const override {
    Checker checker;
    for (Operation *root : roots)
      if (failed(checker.checkAll(root)))
        return failure();
    return success();
  }

  FailureOr<plan::DeviceKind> deviceOf(planir::ProgramOp) const override {
    return plan::DeviceKind::Cpu;
  }

  FailureOr<std::string> imageOf(ArrayRef<planir::ObjectOp> objects,
                                 StringRef) const override {
    std::vector<std::string> files;
    for (planir::ObjectOp object : objects) {
      FailureOr<std::string> code = codegen::codeOf(object);
      if (failed(code))
        return failure();
      files.push_back(std::move(*code));
    }
    llvm::Expected<std::string> image = emit::linkKernels(files);
    if (!image) {
      planir::ObjectOp first = objects.front();
      return first.emitError("H0911: the kernels cannot be linked: ")
             << llvm::toString(image.takeError());
    }
    return *image;
  }

  FailureOr<std::vector<std::string>>
  requirementsOf(planir::ProgramOp program) const override {
    FailureOr<cpu::CpuTarget> machine = cpu::machineOf(program);
    if (failed(machine))
      return failure();
    return machine->required;
  }
};

} // namespace

std::unique_ptr<codegen::Target> cpu::createBackEnd() {
  return std::make_unique<BackEnd>();
}
