//===- Parser.h - Programs of templates -------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_IO_TEMPLATE_PARSER_H
#define HEDDLE_RUNTIME_IO_TEMPLATE_PARSER_H

#include "Lexer.h"
#include "Work.h"

namespace heddle::io::jinja {

/// The names that a part of a template sees: its own, then those around.
struct Scope {
  std::map<std::string, Value> names;
  std::shared_ptr<Scope> around;

  Value find(const std::string &name) const;
};
using ScopePtr = std::shared_ptr<Scope>;

enum class Flow { Next, Break, Continue };
using Expression = std::function<Value(const ScopePtr &)>;
/// Appends to the output.
using Statement = std::function<Flow(const ScopePtr &, std::string &)>;

/// Compiles a template. Throws TemplateError.
Statement parse(const std::string &source);

/// Reads the expressions of a template.
class ExpressionParser {
public:
  explicit ExpressionParser(std::vector<Token> tokens)
      : tokens(std::move(tokens)) {}
  /// With `x if c else y` unless that is not wanted.
  Expression expression(bool withCondition = true);
  /// An expression, or several, which are a tuple.
  Expression tuple(bool withCondition = true);

protected:
  using Kind = Token::Kind;
  const Token &peek(size_t ahead = 0) const {
    return tokens[std::min(next + ahead, tokens.size() - 1)];
  }
  Token take() { return tokens[next + 1 < tokens.size() ? next++ : next]; }
  bool isNext(const std::string &text) const;
  /// Takes an operator or name if it comes next.
  bool accept(const std::string &text);
  void expect(const std::string &text);
  void expect(Kind kind);
  std::string name();
  /// Where in the tokens the next one is.
  size_t place() const { return next; }
  /// Whether a name has been read since.
  bool hasName(const std::string &wanted, size_t since) const;
  /// Counts an operator, filter or the like that holds what came before it.
  void link();
  [[noreturn]] void refuse(const std::string &what) const;
  /// Says the place of what goes wrong in `inner` when it runs.
  Expression located(Expression inner, TemplatePosition place) const;
  struct Call {
    std::vector<Expression> positional;
    ByName<Expression> named;
    std::vector<Expression> spread, namedSpread; ///< `*list`, `**dictionary`.
    Arguments evaluate(const ScopePtr &scope) const;
  };
  /// Arguments, up to the bracket behind them.
  Call arguments();
  Expression filters(Expression input, bool withTests);
  Expression filter(Expression input);
  Expression primary();
  Expression postfix(Expression value);
  /// The call whose closing bracket was read last.
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
