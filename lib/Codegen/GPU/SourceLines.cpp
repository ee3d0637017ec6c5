//===- SourceLines.cpp - Where instructions come from ---------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SourceLines.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/BinaryFormat/Dwarf.h"

using namespace mlir;

namespace heddle::gpu {

/// The location for messages stays; that for PTX is beside it.
static void setPlace(Operation *op, FileLineColLoc place) {
  op->setLoc(FusedLoc::get({op->getLoc()}, place, op->getContext()));
}

/// What `setPlace` said, or null.
static FileLineColLoc placeOf(Location loc) {
  auto numbered = loc->findInstanceOf<FusedLocWith<FileLineColLoc>>();
  return numbered ? numbered.getMetadata() : FileLineColLoc();
}

void numberOperations(planir::KernelOp kernel) {
  unsigned number = 0;
  bool isNamed = false;
  for (Operation &op : kernel.getBody().front().without_terminator()) {
    auto place = FileLineColLoc::get(kernel.getContext(), nn::labelOf(&op),
                                     ++number, /*column=*/0);
    op.walk([&](Operation *inner) { setPlace(inner, place); });
    auto lowering = dyn_cast<nn::LinalgLoweringOpInterface>(op);
    if (isNamed || !lowering ||
        lowering.getGenerator() != kernel.getGenerator())
      continue;
    setPlace(kernel, place);
    isNamed = true;
  }
}

static LLVM::DIFileAttr fileOf(FileLineColLoc place) {
  return LLVM::DIFileAttr::get(place.getContext(), place.getFilename(), "");
}

static LLVM::DISubprogramAttr scopeOf(LLVM::LLVMFuncOp func,
                                      FileLineColLoc place) {
  MLIRContext *context = func.getContext();
  auto distinct = [&] {
    return DistinctAttr::create(UnitAttr::get(context));
  };
  LLVM::DIFileAttr file = fileOf(place);
  auto unit = LLVM::DICompileUnitAttr::get(
      distinct(), llvm::dwarf::DW_LANG_C, file,
      StringAttr::get(context, "heddle"), /*isOptimized=*/true,
      LLVM::DIEmissionKind::DebugDirectivesOnly);
  return LLVM::DISubprogramAttr::get(
      distinct(), unit, file, func.getName(), func.getName(), file,
      place.getLine(), place.getLine(),
      LLVM::DISubprogramFlags::Definition | LLVM::DISubprogramFlags::Optimized,
      LLVM::DISubroutineTypeAttr::get(context, /*types=*/{}));
}

void addSourceLines(mlir::gpu::GPUModuleOp module) {
  for (auto func : module.getOps<LLVM::LLVMFuncOp>()) {
    FileLineColLoc begin = placeOf(func.getLoc());
    if (func.isExternal() || !begin)
      continue;
    LLVM::DISubprogramAttr scope = scopeOf(func, begin);
    auto within = [&](Location old) -> Location {
      FileLineColLoc place = placeOf(old);
      if (!place)
        place = begin;
      return FusedLoc::get(
          {place},
          LLVM::DILexicalBlockFileAttr::get(scope, fileOf(place),
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
