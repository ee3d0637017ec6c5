//===- ReadModule.cpp - Reads an .mlir file of a user ---------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads an .mlir file. Checks what MLIR's parser does not check, so that no
// file can crash the compiler. Records the position of each operation for error
// messages.
//
//===----------------------------------------------------------------------===//

#include "heddle/Import/ReadModule.h"
#include "dialects/Dist/ByteSize.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/AsmParser/AsmParserState.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;
using namespace heddle;

/// Adds the position `place` in a file to the location of an operation. If the
/// location begins with a module path, the path remains first.
static Location withPlace(Location location, Location place) {
  if (auto name = dyn_cast<NameLoc>(location))
    return NameLoc::get(name.getName(), place);
  if (isa<FusedLoc>(location))
    return FusedLoc::get(place.getContext(), {location, place});
  return place;
}

/// Reports an error if the type of a tensor or buffer is not supported. The
/// shape must be static, and the element type one that Heddle knows. A tensor
/// may have at most 2^38 elements, so that sizes in bytes fit 64 bits.
class TypeCheck {
public:
  explicit TypeCheck(Operation *at) : at(at) {
    walker.addWalk([this](Type type) {
      if (auto shaped = dyn_cast<ShapedType>(type))
        check(shaped);
    });
  }
  /// Fails if `what`, which is a type or an attribute, contains a tensor or
  /// buffer type that is not supported.
  template <typename T> LogicalResult operator()(T what) {
    walker.walk(what);
    return success(!wrong);
  }
  LogicalResult operator()(Operation *op) {
    at = op;
    bool right = succeeded((*this)(op->getAttrDictionary()));
    for (Type type : op->getResultTypes())
      right = right && succeeded((*this)(type));
    for (Region &region : op->getRegions())
      for (Block &block : region)
        for (Type type : block.getArgumentTypes())
          right = right && succeeded((*this)(type));
    return success(right);
  }

private:
  void check(ShapedType type) {
    constexpr int64_t most = int64_t(1) << 38;
    Type element = type.getElementType();
    bool known =
        isa<RankedTensorType, MemRefType>(type) && dist::isStorable(element);
    SmallVector<int64_t> extents(known ? type.getShape() : ArrayRef<int64_t>());
    if (auto buffer = dyn_cast<MemRefType>(type)) {
      std::optional<int64_t> leading = dist::leadingDimension(buffer);
      known &= leading && !buffer.getMemorySpace();
      if (known && !extents.empty())
        extents.back() = *leading;
    }
    if (auto tensor = dyn_cast<RankedTensorType>(type))
      known &= !tensor.getEncoding();
    int64_t elements = 1;
    for (int64_t extent : extents)
      known = known && extent >= 0 && extent <= most &&
              (elements *= extent) <= most;
    if (known || wrong)
      return;
    wrong = true;
    at->emitError("H0396: has the type ")
        << type << "; possible are static shapes of at most " << most
        << " elements of type f64, f32, bf16, f16, i8, i32 or i64";
  }

  AttrTypeWalker walker;
  Operation *at;
  bool wrong = false;
};

/// Whether the value name at the index `place` of the text has a result number,
/// as in `%a#1`, with more digits than the parser can handle.
static bool isNumberedTooHigh(llvm::StringRef text, size_t place) {
  constexpr size_t mostDigits = 6;
  auto isInName = [](char c) {
    return llvm::isAlnum(c) || llvm::StringRef("_$.-").contains(c);
  };
  llvm::StringRef rest = text.substr(place + 1).drop_while(isInName);
  return rest.consume_front("#") &&
         rest.take_while(llvm::isDigit).size() > mostDigits;
}

std::optional<ParserHazard> heddle::findHazard(llvm::StringRef text) {
  constexpr int64_t mostDepth = 200;
  int64_t depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '"') {
      for (++i; i < text.size() && text[i] != '"' && text[i] != '\n'; ++i)
        i += text[i] == '\\';
    } else if (c == '/' && text.substr(i, 2) == "//") {
      i = std::min(text.find('\n', i), text.size());
    } else if (llvm::StringRef("([{<").contains(c)) {
      if (++depth > mostDepth)
        return ParserHazard{i, "nested more than 200 levels deep"};
    } else if (llvm::StringRef(")]}>").contains(c) && depth > 0) {
      depth -= !(c == '>' && text[i - 1] == '-');
    } else if (c == '%' && isNumberedTooHigh(text, i)) {
      return ParserHazard{i, "no operation has so many results"};
    }
  }
  return std::nullopt;
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
  llvm::StringRef text = sources.getMemoryBuffer(id)->getBuffer();
  if (std::optional<ParserHazard> hazard = findHazard(text)) {
    auto [line, column] = sources.getLineAndColumn(
        llvm::SMLoc::getFromPointer(text.data() + hazard->place), id);
    emitError(FileLineColLoc::get(&context, file, line, column))
        << "H0396: " << hazard->reason;
    return {};
  }
  // The module is verified only after operations have their positions, so that
  // the verifiers' errors name these positions.
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
  TypeCheck checkTypes(module ? module->getOperation() : nullptr);
  if (!module || module
                     ->walk([&](Operation *op) {
                       return failed(checkTypes(op)) ? WalkResult::interrupt()
                                                     : WalkResult::advance();
                     })
                     .wasInterrupted())
    return {};
  if (failed(verify(*module)))
    return {};
  return module;
}
