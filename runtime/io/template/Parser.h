//===- Parser.h - Parse chat templates --------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiles a chat template to functions: StatementParser.cpp handles tags,
// ExpressionParser the expressions in them.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_TEMPLATE_PARSER_H
#define HEDDLE_RUNTIME_IO_TEMPLATE_PARSER_H

#include "Lexer.h"
#include "WorkLimit.h"

namespace heddle::io::jinja {

/// The variables of a block of the template, such as the body of a loop. A name
/// that is not among them is looked up in the enclosing scope, `around`.
struct Scope {
  std::map<std::string, Value> names;
  std::shared_ptr<Scope> around;

  Value find(const std::string &name) const;
};
using ScopePtr = std::shared_ptr<Scope>;

enum class Flow { Next, Break, Continue };
using Expression = std::function<Value(const ScopePtr &)>;
/// Runs a statement, which appends to the output.
using Statement = std::function<Flow(const ScopePtr &, std::string &)>;

/// Compiles a template. Throws TemplateError.
Statement parse(const std::string &source);

/// Parses the expressions of a template.
class ExpressionParser {
public:
  explicit ExpressionParser(std::vector<Token> tokens)
      : tokens(std::move(tokens)) {}
  /// Parses an expression, by default including `x if c else y`.
  Expression expression(bool withCondition = true);
  /// Parses one expression, or several that form a tuple.
  Expression tuple(bool withCondition = true);

protected:
  using Kind = Token::Kind;
  const Token &peek(size_t ahead = 0) const {
    return tokens[std::min(next + ahead, tokens.size() - 1)];
  }
  Token take() { return tokens[next + 1 < tokens.size() ? next++ : next]; }
  bool isNext(const std::string &text) const;
  /// Consumes an operator or name if it comes next.
  bool accept(const std::string &text);
  void expect(const std::string &text);
  void expect(Kind kind);
  std::string name();
  /// Returns the index of the next token.
  size_t place() const { return next; }
  /// Whether the name `wanted` is among the tokens that were read from index
  /// `since` on. Tells whether a macro uses `varargs`, `kwargs` or `caller`.
  bool hasName(const std::string &wanted, size_t since) const;
  /// Counts a nested operator or filter. Throws when too many are nested,
  /// because their evaluation would need too much stack.
  void link();
  [[noreturn]] void refuse(const std::string &what) const;
  /// Returns `inner` with a position. If `inner` throws an error when it runs,
  /// the error gets the position `place`.
  Expression located(Expression inner, TemplatePosition place) const;
  struct Call {
    std::vector<Expression> positional;
    ByName<Expression> named;
    /// The arguments that are written as `*list`, and as `**dictionary`.
    std::vector<Expression> spread, namedSpread;
    Arguments evaluate(const ScopePtr &scope) const;
  };
  /// Parses arguments up to the closing bracket.
  Call arguments();
  Expression filters(Expression input, bool withTests);
  Expression filter(Expression input);
  Expression primary();
  Expression postfix(Expression value);
  /// The call whose closing bracket was parsed last. The tag `call` adds its
  /// block to this call as the argument `caller`.
  std::shared_ptr<Call> lastCall;

private:
  Expression binary(int level);
  Expression logicalNot();
  Expression comparison();
  Expression unary(bool withFilters = true);
  Expression subscript(Expression value);
  Expression test(Expression input);
  Expression collection();

  std::vector<Token> tokens;
  size_t next = 0;
  int depth = 0, links = 0;
};

} // namespace heddle::io::jinja

#endif // HEDDLE_RUNTIME_IO_TEMPLATE_PARSER_H
