//===- StateSources.cpp - Expressions over tensors in files ---------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Syntax and verifier of #nn.source, the expression by which a state is
// computed from tensors of weight files.
//
//===----------------------------------------------------------------------===//

#include "dialects/NN/StateSources.h"
#include "dialects/Dist/ComputeType.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::nn;
using weights::Source;
using Kind = Source::Kind;

/// The type that Safetensors files call `name`; null for types from which a
/// parameter cannot be read.
static Type elementTypeOf(MLIRContext *context, StringRef name) {
  for (const dist::ComputeType &type : dist::computeTypes())
    if (name == type.inFiles)
      return type.get(context);
  return name == "I32" ? IntegerType::get(context, 32) : Type();
}

/// The name of `type` in Safetensors files; "" if a parameter cannot be read
/// from it.
static std::string nameOfElement(Type type) {
  if (const dist::ComputeType *found = dist::findComputeType(type))
    return found->inFiles;
  return type.isSignlessInteger(32) ? "I32" : "";
}

static Source sourceFrom(Kind kind, StringAttr name, RankedTensorType type,
                         ArrayRef<int64_t> numbers,
                         ArrayRef<SourceAttr> parts) {
  Source source;
  source.kind = kind;
  source.numbers = numbers.vec();
  if (name)
    source.name = name.str();
  if (type) {
    source.numbers = type.getShape().vec();
    source.type = nameOfElement(type.getElementType());
  }
  for (SourceAttr part : parts)
    source.parts.push_back(part.toSource());
  return source;
}

Source SourceAttr::toSource() const {
  return sourceFrom(getKind(), getName(), getType(), getNumbers(), getParts());
}

weights::Layout SourceAttr::getLayout() const {
  weights::Layout layout;
  std::string error;
  bool fits = weights::layoutOf(toSource(), layout, error);
  assert(fits && "was verified");
  (void)fits;
  return layout;
}

SourceAttr SourceAttr::get(MLIRContext *context, const Source &source) {
  SmallVector<SourceAttr> parts;
  for (const Source &part : source.parts)
    parts.push_back(get(context, part));
  if (source.kind != Kind::Tensor)
    return get(context, source.kind, StringAttr(), RankedTensorType(),
               ArrayRef<int64_t>(source.numbers), ArrayRef<SourceAttr>(parts));
  auto type = RankedTensorType::get(source.numbers,
                                    elementTypeOf(context, source.type));
  return get(context, source.kind, StringAttr::get(context, source.name), type,
             ArrayRef<int64_t>(), ArrayRef<SourceAttr>());
}

LogicalResult SourceAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                 Kind kind, StringAttr name,
                                 RankedTensorType type,
                                 ArrayRef<int64_t> numbers,
                                 ArrayRef<SourceAttr> parts) {
  if (type &&
      (!type.hasStaticShape() || nameOfElement(type.getElementType()).empty()))
    return emitError() << "H0356: the tensor " << name << " has the type "
                       << type << "; f32, bf16, f16 and i32 can be read";
  weights::Layout layout;
  std::string error;
  if (weights::layoutOf(sourceFrom(kind, name, type, numbers, parts), layout,
                        error))
    return success();
  return emitError() << "H0356: the source does not fit: " << error;
}

//===----------------------------------------------------------------------===//
// Syntax
//===----------------------------------------------------------------------===//

static constexpr std::pair<StringLiteral, Kind> functions[] = {
    {"permute", Kind::Permute},
    {"reshape", Kind::Reshape},
    {"slice", Kind::Slice},
    {"concat", Kind::Concat},
    {"stack", Kind::Stack}};

static SourceAttr parseSource(AsmParser &parser);

/// Parses the arguments of the source function `function`, such as `slice`:
/// first its integers, then the expressions to which it is applied.
static SourceAttr parseArguments(AsmParser &parser, SMLoc place,
                                 StringRef function) {
  SmallVector<int64_t> numbers;
  std::optional<Kind> kind;
  for (auto [name, each] : functions)
    if (name == function)
      kind = each;
  bool turns = function == "transpose";
  if (!kind && !turns) {
    parser.emitError(place)
        << "unknown expression \"" << function
        << "\"; known are transpose, permute, reshape, slice, concat, stack";
    return {};
  }
  if (parser.parseLParen())
    return {};
  auto number = [&] { return parser.parseInteger(numbers.emplace_back()); };
  if (turns) {
    kind = Kind::Permute;
    numbers = {1, 0};
  } else if (*kind == Kind::Permute || *kind == Kind::Reshape) {
    if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, number) ||
        parser.parseComma())
      return {};
  } else {
    for (int i = *kind == Kind::Slice ? 3 : 1; i > 0; --i)
      if (number() || parser.parseComma())
        return {};
  }
  SmallVector<SourceAttr> parts;
  bool joins = *kind == Kind::Concat || *kind == Kind::Stack;
  do {
    parts.push_back(parseSource(parser));
    if (!parts.back())
      return {};
  } while (joins && succeeded(parser.parseOptionalComma()));
  if (parser.parseRParen())
    return {};
  return parser.getChecked<SourceAttr>(
      place, parser.getContext(), *kind, StringAttr(), RankedTensorType(),
      ArrayRef<int64_t>(numbers), ArrayRef<SourceAttr>(parts));
}

static SourceAttr parseSource(AsmParser &parser) {
  SMLoc place = parser.getCurrentLocation();
  std::string name;
  StringRef function;
  if (succeeded(parser.parseOptionalKeyword(&function)))
    return parseArguments(parser, place, function);
  RankedTensorType type;
  if (parser.parseString(&name) || parser.parseColon() ||
      parser.parseType(type))
    return {};
  return parser.getChecked<SourceAttr>(
      place, parser.getContext(), Kind::Tensor,
      StringAttr::get(parser.getContext(), name), type, ArrayRef<int64_t>(),
      ArrayRef<SourceAttr>());
}

static void printSource(AsmPrinter &printer, SourceAttr source) {
  ArrayRef<int64_t> numbers = source.getNumbers();
  Kind kind = source.getKind();
  if (kind == Kind::Tensor) {
    printer << source.getName() << " : " << source.getType();
    return;
  }
  if (kind == Kind::Permute && numbers == ArrayRef<int64_t>({1, 0})) {
    printer << "transpose(";
  } else {
    for (auto [name, each] : functions)
      if (each == kind)
        printer << name << "(";
    bool isList = kind == Kind::Permute || kind == Kind::Reshape;
    printer << (isList ? "[" : "");
    llvm::interleaveComma(numbers, printer);
    printer << (isList ? "], " : ", ");
  }
  llvm::interleaveComma(source.getParts(), printer,
                        [&](SourceAttr part) { printSource(printer, part); });
  printer << ")";
}

Attribute SourceAttr::parse(AsmParser &parser, Type) {
  if (parser.parseLess())
    return {};
  SourceAttr source = parseSource(parser);
  return !source || parser.parseGreater() ? SourceAttr() : source;
}

void SourceAttr::print(AsmPrinter &printer) const {
  printer << "<";
  printSource(printer, *this);
  printer << ">";
}

LogicalResult heddle::nn::verifyStored(Operation *state, Type type,
                                       SourceAttr source, TypeAttr whole,
                                       PackedAttr packed) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !tensor.hasStaticShape())
    return state->emitOpError("needs a static tensor type, got ") << type;
  if (!dist::isStorable(tensor.getElementType()))
    return state->emitOpError("has elements of type ")
           << tensor.getElementType()
           << "; known are f64, f32, bf16, f16, i8, i32 and i64";
  if (packed) {
    auto derived = packed.getStateType(Float16Type::get(type.getContext()));
    if (derived != tensor)
      return state->emitOpError("has type ")
             << tensor << ", and what it is made of gives " << derived;
    if (packed.toPlan().inputs() % packed.toPlan().groupLength() != 0)
      return state->emitOpError("cuts ")
             << packed.toPlan().inputs() << " inputs into groups of "
             << packed.getGroup();
    tensor = packed.getOf();
  }
  if (!source)
    return success();
  auto all = whole ? cast<RankedTensorType>(whole.getValue()) : tensor;
  std::vector<int64_t> shape = source.getLayout().shape;
  if (all.getShape() == ArrayRef<int64_t>(shape))
    return success();
  return state->emitError("H0356: its source has the shape [")
         << shape << "], its type is " << all;
}
