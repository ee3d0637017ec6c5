//===- FunctionSyntax.h - The syntax of functions in IR ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parser and printer of nn.func, nn.step and plan.kernel.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_NN_FUNCTIONSYNTAX_H
#define HEDDLE_DIALECTS_NN_FUNCTIONSYNTAX_H

#include "mlir/Interfaces/FunctionImplementation.h"

namespace heddle::nn {

/// Implements `parseFunction`. The arguments are the operation's names for
/// three attributes: the function type, and the attributes of arguments and of
/// results.
mlir::ParseResult parseFunctionText(mlir::OpAsmParser &parser,
                                    mlir::OperationState &result,
                                    mlir::StringAttr typeName,
                                    mlir::StringAttr argAttrsName,
                                    mlir::StringAttr resAttrsName);

/// Parses an operation that is a function: `@name(%a: type) -> type attributes
/// {...} { body }`.
template <typename OpT>
mlir::ParseResult parseFunction(mlir::OpAsmParser &parser,
                                mlir::OperationState &result) {
  return parseFunctionText(parser, result,
                           OpT::getFunctionTypeAttrName(result.name),
                           OpT::getArgAttrsAttrName(result.name),
                           OpT::getResAttrsAttrName(result.name));
}

/// Prints the form that `parseFunction` parses.
template <typename OpT>
void printFunction(mlir::OpAsmPrinter &printer, OpT op) {
  mlir::function_interface_impl::printFunctionOp(
      printer, op, /*isVariadic=*/false, op.getFunctionTypeAttrName(),
      op.getArgAttrsAttrName(), op.getResAttrsAttrName());
}

} // namespace heddle::nn

#endif // HEDDLE_DIALECTS_NN_FUNCTIONSYNTAX_H
