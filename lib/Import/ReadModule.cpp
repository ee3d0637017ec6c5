//===- ReadModule.cpp - An .mlir file that a user hands in ----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Import/ReadModule.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/AsmParser/AsmParserState.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;

/// The location with `place` in it; the first module path stays the first.
static Location withPlace(Location location, Location place) {
  if (auto name = dyn_cast<NameLoc>(location))
    return NameLoc::get(name.getName(), place);
  if (isa<FusedLoc>(location))
    return FusedLoc::get(place.getContext(), {location, place});
  return place;
}

OwningOpRef<ModuleOp> heddle::readModule(MLIRContext &context,
                                         llvm::StringRef file) {
  Location start = FileLineColLoc::get(&context, file, 1, 1);
  auto buffer = llvm::MemoryBuffer::getFile(file);
  if (std::error_code error = buffer.getError()) {
    emitError(start) << "cannot read " << file << ": " << error.message();
    return {};
  }
  llvm::SourceMgr sources;
  unsigned id = sources.AddNewSourceBuffer(std::move(*buffer), llvm::SMLoc());
  // Verified once the places are known.
  ParserConfig config(&context, /*verifyAfterParse=*/false);
  AsmParserState state;
  Block block;
  if (failed(parseAsmSourceFile(sources, &block, config, &state)))
    return {};
  for (const AsmParserState::OperationDefinition &definition :
       state.getOpDefs()) {
    auto [line, column] =
        sources.getLineAndColumn(definition.scopeLoc.Start, id);
    definition.op->setLoc(
        withPlace(definition.op->getLoc(),
                  FileLineColLoc::get(&context, file, line, column)));
  }
  OwningOpRef<ModuleOp> module =
      mlir::detail::constructContainerOpForParserIfNecessary<ModuleOp>(
          &block, &context, start);
  if (!module || failed(verify(*module)))
    return {};
  return module;
}
