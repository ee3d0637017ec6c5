//===- SourceLines.cpp - Source lines of instructions ---------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Gives a kernel's operations locations for profilers, and makes `.file` and
// `.loc` lines of PTX from them.
//
//===----------------------------------------------------------------------===//

#include "SourceLines.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/BinaryFormat/Dwarf.h"

using namespace mlir;

namespace heddle::gpu {

/// Adds to an operation the location that PTX will name. The operation keeps
/// the location that error messages name.
static void setSourceLine(Operation *op, FileLineColLoc line) {
  op->setLoc(FusedLoc::get({op->getLoc()}, line, op->getContext()));
}

/// The location that `setSourceLine` has set, or null.
static FileLineColLoc sourceLineOf(Location loc) {
  auto numbered = loc->findInstanceOf<FusedLocWith<FileLineColLoc>>();
  return numbered ? numbered.getMetadata() : FileLineColLoc();
}

void numberOperations(planir::KernelOp kernel) {
  unsigned number = 0;
  bool isNamed = false;
  for (Operation &op : kernel.getBody().front().without_terminator()) {
    auto line = FileLineColLoc::get(kernel.getContext(), nn::labelOf(&op),
                                    ++number, /*column=*/0);
    op.walk([&](Operation *inner) { setSourceLine(inner, line); });
    auto lowering = dyn_cast<nn::LinalgLoweringOpInterface>(op);
    if (isNamed || !lowering ||
        lowering.getGenerator() != kernel.getGenerator())
      continue;
    setSourceLine(kernel, line);
    isNamed = true;
  }
}

static LLVM::DIFileAttr fileOf(FileLineColLoc line) {
  return LLVM::DIFileAttr::get(line.getContext(), line.getFilename(), "");
}

static LLVM::DISubprogramAttr scopeOf(LLVM::LLVMFuncOp func,
                                      FileLineColLoc line) {
  MLIRContext *context = func.getContext();
  auto distinct = [&] { return DistinctAttr::create(UnitAttr::get(context)); };
  LLVM::DIFileAttr file = fileOf(line);
  auto unit = LLVM::DICompileUnitAttr::get(
      distinct(), llvm::dwarf::DW_LANG_C, file,
      StringAttr::get(context, "heddle"), /*isOptimized=*/true,
      LLVM::DIEmissionKind::DebugDirectivesOnly);
  return LLVM::DISubprogramAttr::get(
      distinct(), unit, file, func.getName(), func.getName(), file,
      line.getLine(), line.getLine(),
      LLVM::DISubprogramFlags::Definition | LLVM::DISubprogramFlags::Optimized,
      LLVM::DISubroutineTypeAttr::get(context, /*types=*/{}));
}

void addSourceLines(mlir::gpu::GPUModuleOp module) {
  for (auto func : module.getOps<LLVM::LLVMFuncOp>()) {
    FileLineColLoc begin = sourceLineOf(func.getLoc());
    if (func.isExternal() || !begin)
      continue;
    LLVM::DISubprogramAttr scope = scopeOf(func, begin);
    auto within = [&](Location old) -> Location {
      FileLineColLoc line = sourceLineOf(old);
      if (!line)
        line = begin;
      return FusedLoc::get(
          {line},
          LLVM::DILexicalBlockFileAttr::get(scope, fileOf(line),
                                            /*discriminator=*/0),
          func.getContext());
    };
    func.getBody().walk(
        [&](Operation *inner) { inner->setLoc(within(inner->getLoc())); });
    func->setLoc(FusedLoc::get({begin}, scope, func.getContext()));
  }
}

std::string withoutSourceLines(StringRef ptx) {
  std::string result;
  for (StringRef line : llvm::split(ptx, '\n')) {
    StringRef word = line.ltrim();
    if (!word.starts_with(".loc\t") && !word.starts_with(".file\t"))
      result += (line + "\n").str();
  }
  return result;
}

} // namespace heddle::gpu
