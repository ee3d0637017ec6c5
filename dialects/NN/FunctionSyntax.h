//===- FunctionSyntax.h - The text form of functions ------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_NN_FUNCTIONSYNTAX_H
#define HEDDLE_DIALECTS_NN_FUNCTIONSYNTAX_H

#include "mlir/Interfaces/FunctionImplementation.h"

namespace heddle::nn {

/// Parses an operation that is a function: `@name(%a: type) -> type attributes
/// {...} { body }`.
template <typename OpT>
mlir::ParseResult parseFunction(mlir::OpAsmParser &parser,
                                mlir::OperationState &result) {
  namespace impl = mlir::function_interface_impl;
  auto build = [](mlir::Builder &builder, mlir::ArrayRef<mlir::Type> arguments,
                  mlir::ArrayRef<mlir::Type> results, impl::VariadicFlag,
                  std::string &) {
    return builder.getFunctionType(arguments, results);
  };
  return impl::parseFunctionOp(parser, result, /*allowVariadic=*/false,
                               OpT::getFunctionTypeAttrName(result.name), build,
                               OpT::getArgAttrsAttrName(result.name),
                               OpT::getResAttrsAttrName(result.name));
}

/// Prints what `parseFunction` reads.
template <typename OpT>
void printFunction(mlir::OpAsmPrinter &printer, OpT op) {
  mlir::function_interface_impl::printFunctionOp(
      printer, op, /*isVariadic=*/false, op.getFunctionTypeAttrName(),
      op.getArgAttrsAttrName(), op.getResAttrsAttrName());
}

} // namespace heddle::nn

#endif // HEDDLE_DIALECTS_NN_FUNCTIONSYNTAX_H
