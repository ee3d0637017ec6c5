//===- FunctionSyntax.cpp - The syntax of functions in IR -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/NN/FunctionSyntax.h"

using namespace mlir;
using namespace heddle;

ParseResult nn::parseFunctionText(OpAsmParser &parser, OperationState &result,
                                  StringAttr typeName, StringAttr argAttrsName,
                                  StringAttr resAttrsName) {
  StringAttr name;
  SmallVector<OpAsmParser::Argument> arguments;
  SmallVector<Type> results;
  SmallVector<DictionaryAttr> resultAttrs;
  bool isVariadic = false;
  if (parser.parseSymbolName(name, SymbolTable::getSymbolAttrName(),
                             result.attributes) ||
      function_interface_impl::parseFunctionSignature(
          parser, /*allowVariadic=*/false, arguments, isVariadic, results,
          resultAttrs))
    return failure();
  SmallVector<Type> types;
  for (const OpAsmParser::Argument &argument : arguments)
    types.push_back(argument.type);
  Builder &builder = parser.getBuilder();
  result.addAttribute(typeName,
                      TypeAttr::get(builder.getFunctionType(types, results)));
  NamedAttrList attributes;
  SMLoc place = parser.getCurrentLocation();
  if (parser.parseOptionalAttrDictWithKeyword(attributes))
    return failure();
  for (StringRef given :
       {StringRef(SymbolTable::getSymbolAttrName()), typeName.getValue()})
    if (attributes.get(given))
      return parser.emitError(place)
             << "'" << given << "' is said before the attributes";
  // MLIR would silently ignore an attribute of the operation that has the wrong
  // type, so report it here.
  std::optional<RegisteredOperationName> operation =
      result.name.getRegisteredInfo();
  if (failed(operation->verifyInherentAttrs(
          attributes, [&] { return parser.emitError(place); })))
    return failure();
  result.attributes.append(attributes);
  function_interface_impl::addArgAndResultAttrs(
      builder, result, arguments, resultAttrs, argAttrsName, resAttrsName);
  // The body gets its own name scope. Otherwise a value that this function uses
  // but does not define could be found in the next function.
  OptionalParseResult body = parser.parseOptionalRegion(
      *result.addRegion(), arguments, /*enableNameShadowing=*/true);
  return body.has_value() ? *body : success();
}
