//===- ExpressionParser.cpp - Expressions of chat templates ---------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiles expressions of Jinja to functions. Each function takes the scope in
// which it looks up variables.
//
//===----------------------------------------------------------------------===//

#include "Parser.h"

using namespace heddle::io;
using namespace heddle::io::jinja;

Value Scope::find(const std::string &name) const {
  for (const Scope *scope = this; scope; scope = scope->around.get()) {
    auto it = scope->names.find(name);
    if (it != scope->names.end()) {
      if (it->second.isString())
        WorkLimit::spend(int64_t(it->second.string().size()));
      return it->second;
    }
  }
  return Value::Undefined{name};
}

//===----------------------------------------------------------------------===//
// Tokens
//===----------------------------------------------------------------------===//

void ExpressionParser::refuse(const std::string &what) const {
  throw TemplateError{what, peek().place};
}

bool ExpressionParser::isNext(const std::string &text) const {
  return (peek().kind == Kind::Operator || peek().kind == Kind::Name) &&
         peek().text == text;
}

bool ExpressionParser::accept(const std::string &text) {
  bool found = isNext(text);
  if (found)
    take();
  return found;
}

void ExpressionParser::expect(const std::string &text) {
  if (!accept(text))
    refuse("'" + text + "' is expected");
}

void ExpressionParser::expect(Kind kind) {
  if (peek().kind != kind)
    refuse("'" + peek().text + "' is not expected");
  take();
}

bool ExpressionParser::hasName(const std::string &wanted, size_t since) const {
  return std::any_of(tokens.begin() + since, tokens.begin() + next,
                     [&](const Token &token) {
                       return token.kind == Kind::Name && token.text == wanted;
                     });
}

void ExpressionParser::link() {
  // In a chain such as `a + b + c`, each operator or filter evaluates the one
  // before it by a nested call. The limit keeps these calls from exhausting the
  // stack.
  constexpr int most = 1000;
  if (++links > most)
    refuse("an expression is too long");
}

std::string ExpressionParser::name() {
  if (peek().kind != Kind::Name)
    refuse("a name is expected");
  return take().text;
}

/// Calls `action`. If it throws an error without a position in the template,
/// the error gets the position `place`.
template <typename Action>
static auto at(TemplatePosition place, const Action &action) {
  try {
    return action();
  } catch (TemplateError &error) {
    if (error.place.line == 0)
      error.place = place;
    throw;
  }
}

Expression ExpressionParser::located(Expression inner,
                                     TemplatePosition place) const {
  return [inner = std::move(inner), place](const ScopePtr &scope) {
    return at(place, [&] {
      WorkLimit::spend(WorkLimit::step / 10);
      WorkLimit::deepen();
      return inner(scope);
    });
  };
}

//===----------------------------------------------------------------------===//
// Operators
//===----------------------------------------------------------------------===//

Expression ExpressionParser::tuple(bool withCondition) {
  Expression first = expression(withCondition);
  if (!isNext(","))
    return first;
  std::vector<Expression> elements = {first};
  while (accept(","))
    if (peek().kind != Kind::ExpressionEnd && peek().kind != Kind::StatementEnd)
      elements.push_back(expression(withCondition));
  return [elements](const ScopePtr &scope) {
    List list;
    for (const Expression &element : elements)
      list.push_back(element(scope));
    return Value::tuple(list);
  };
}

Expression ExpressionParser::expression(bool withCondition) {
  // The maximal depth of nested expressions: deeper recursion of the parser
  // could exhaust the stack.
  constexpr int deepest = 100;
  if (++depth > deepest)
    refuse("the template is nested too deeply");
  if (depth == 1)
    links = 0;
  Expression value = binary(0);
  while (withCondition && accept("if")) {
    link();
    Expression condition = binary(0), otherwise;
    if (accept("else"))
      otherwise = expression();
    value = [value, condition, otherwise](const ScopePtr &scope) {
      if (condition(scope).truth())
        return value(scope);
      return otherwise ? otherwise(scope) : Value();
    };
  }
  --depth;
  return value;
}

/// Parses binary operators of the given level of precedence or a higher one.
/// The levels, from the lowest: `or`; `and`; `not` with the comparisons;
/// `+ -`; `~`; `* / // %`; `**`.
Expression ExpressionParser::binary(int level) {
  static const std::vector<std::string> signs[] = {
      {"or"}, {"and"}, {}, {"+", "-"}, {"~"}, {"*", "/", "//", "%"}, {"**"}};
  constexpr int notLevel = 2, last = 6;
  if (level == notLevel)
    return logicalNot();
  auto operand = [&] { return level == last ? unary() : binary(level + 1); };
  Expression left = operand();
  for (;;) {
    std::string sign;
    for (const std::string &one : signs[level])
      if (isNext(one))
        sign = one;
    if (sign.empty())
      return left;
    link();
    TemplatePosition place = take().place;
    Expression right = operand();
    if (sign == "or" || sign == "and")
      left = [=, isOr = sign == "or"](const ScopePtr &scope) {
        Value value = left(scope);
        return value.truth() == isOr ? value : right(scope);
      };
    else
      left = located(
          [=](const ScopePtr &scope) {
            Value a = left(scope);
            return compute(sign, a, right(scope));
          },
          place);
  }
}

Expression ExpressionParser::logicalNot() {
  int count = 0;
  while (accept("not"))
    ++count;
  Expression value = comparison();
  if (count == 0)
    return value;
  return [value, isWanted = count % 2 == 0](const ScopePtr &scope) {
    return value(scope).truth() == isWanted;
  };
}

/// Parses comparisons: `a < b == c` means `a < b and b == c`.
Expression ExpressionParser::comparison() {
  constexpr int sums = 3;
  Expression first = binary(sums);
  std::vector<std::pair<std::string, Expression>> rest;
  TemplatePosition place = peek().place;
  for (;;) {
    std::string sign;
    for (const char *one : {"==", "!=", "<", ">", "<=", ">=", "in"})
      if (isNext(one))
        sign = one;
    if (isNext("not") && peek(1).kind == Kind::Name && peek(1).text == "in") {
      take();
      sign = "not in";
    }
    if (sign.empty())
      break;
    take();
    rest.push_back({sign, binary(sums)});
  }
  if (rest.empty())
    return first;
  return located(
      [first, rest](const ScopePtr &scope) {
        Value left = first(scope);
        for (const auto &[sign, operand] : rest) {
          Value right = operand(scope);
          if (!compare(sign, left, right))
            return Value(false);
          left = right;
        }
        return Value(true);
      },
      place);
}

Expression ExpressionParser::unary(bool withFilters) {
  int signs = 0;
  bool isSigned = false, isNegative = false;
  while (isNext("-") || isNext("+")) {
    isNegative ^= take().text == "-";
    isSigned = true;
    if (++signs > 100)
      refuse("the template is nested too deeply");
  }
  Expression value = postfix(primary());
  if (isSigned)
    value = [value, isNegative](const ScopePtr &scope) {
      Value number = value(scope);
      return isNegative ? compute("-", int64_t(0), number) : number;
    };
  return withFilters ? filters(value, /*withTests=*/true) : value;
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

Arguments ExpressionParser::Call::evaluate(const ScopePtr &scope) const {
  Arguments arguments;
  for (const Expression &value : positional)
    arguments.positional.push_back(value(scope));
  for (const auto &[name, value] : named)
    arguments.named.set(name, value(scope));
  for (const Expression &values : spread) {
    const List all = values(scope).elements();
    arguments.positional.insert(arguments.positional.end(), all.begin(),
                                all.end());
  }
  for (const Expression &values : namedSpread) {
    const Value all = values(scope);
    for (const auto &[name, value] : all.dict()) {
      WorkLimit::spend(int64_t(arguments.named.size()) / 4);
      arguments.named.set(name, value);
    }
  }
  return arguments;
}

ExpressionParser::Call ExpressionParser::arguments() {
  Call call;
  while (!accept(")")) {
    if (accept("*")) {
      call.spread.push_back(expression());
    } else if (accept("**")) {
      call.namedSpread.push_back(expression());
    } else if (peek().kind == Kind::Name && peek(1).kind == Kind::Operator &&
               peek(1).text == "=") {
      std::string key = name();
      take();
      call.named.set(key, expression());
    } else {
      call.positional.push_back(expression());
    }
    if (!isNext(")"))
      expect(",");
  }
  return call;
}

/// Parses lists, tuples, dictionaries and parentheses.
Expression ExpressionParser::collection() {
  std::string open = take().text;
  if (open == "{") {
    std::vector<std::pair<Expression, Expression>> members;
    while (!accept("}")) {
      Expression key = expression();
      expect(":");
      members.push_back({key, expression()});
      if (!isNext("}"))
        expect(",");
    }
    return [members](const ScopePtr &scope) {
      Value dict((Dict()));
      for (const auto &[key, value] : members)
        dict.set(key(scope).str(), value(scope));
      return dict;
    };
  }
  std::string close = open == "[" ? "]" : ")";
  std::vector<Expression> elements;
  bool isOne = open == "(";
  while (!accept(close)) {
    elements.push_back(expression());
    if (isNext(close))
      continue;
    expect(",");
    isOne = false;
  }
  if (isOne && elements.size() == 1)
    return elements[0];
  return [elements, isTuple = open == "("](const ScopePtr &scope) {
    List list;
    for (const Expression &element : elements)
      list.push_back(element(scope));
    return isTuple ? Value::tuple(list) : Value(list);
  };
}

Expression ExpressionParser::primary() {
  Token token = peek();
  auto constant = [&](Value value) {
    take();
    return [value](const ScopePtr &) { return value; };
  };
  switch (token.kind) {
  case Kind::String: {
    std::string text;
    while (peek().kind == Kind::String) // Adjacent strings are concatenated.
      text += take().text;
    return [text](const ScopePtr &) { return Value(text); };
  }
  case Kind::Integer:
    return constant(static_cast<int64_t>(std::stoll(token.text)));
  case Kind::Float:
    return constant(std::strtod(token.text.c_str(), nullptr));
  case Kind::Name:
    if (token.text == "true" || token.text == "True")
      return constant(true);
    if (token.text == "false" || token.text == "False")
      return constant(false);
    if (token.text == "none" || token.text == "None")
      return constant(Value::None{});
    take();
    return
        [key = token.text](const ScopePtr &scope) { return scope->find(key); };
  default:
    if (isNext("(") || isNext("[") || isNext("{"))
      return collection();
    refuse("a value is expected");
  }
}

/// Parses `[i]` or `[from:to:step]`.
Expression ExpressionParser::subscript(Expression value) {
  Expression parts[3];
  int count = 0;
  bool isSlice = false;
  TemplatePosition place = peek().place;
  while (!accept("]")) {
    if (accept(":")) {
      isSlice = true;
      if (++count > 2)
        refuse("a slice has three parts");
    } else {
      parts[count] = expression();
    }
  }
  if (!isSlice && !parts[0])
    refuse("an index is expected");
  if (!isSlice)
    return located(
        [value, key = parts[0]](const ScopePtr &scope) {
          Value from = value(scope);
          return from.at(key(scope));
        },
        place);
  return located(
      [value, begin = parts[0], end = parts[1],
       step = parts[2]](const ScopePtr &scope) {
        Value from = value(scope);
        List all = from.elements(), chosen;
        int64_t size = static_cast<int64_t>(all.size());
        int64_t by = step ? step(scope).integer() : 1;
        if (by == 0)
          throw TemplateError{"a slice's step is 0"};
        auto bound = [&](const Expression &part, int64_t fallback) {
          Value given = part ? part(scope) : Value();
          if (given.isUndefined() || given.isNone())
            return fallback;
          int64_t index = given.integer() + (given.integer() < 0 ? size : 0);
          return std::clamp<int64_t>(index, by > 0 ? 0 : -1,
                                     by > 0 ? size : size - 1);
        };
        int64_t first = bound(begin, by > 0 ? 0 : size - 1);
        int64_t last = bound(end, by > 0 ? size : -1);
        // Clamp the slice's step: a step larger than the sequence selects only
        // the first element anyway, and could overflow `i`.
        by = std::clamp(by, -size - 1, size + 1);
        for (int64_t i = first; by > 0 ? i < last : i > last; i += by)
          chosen.push_back(all[i]);
        if (!from.isString())
          return Value(chosen);
        std::string text;
        for (const Value &character : chosen)
          text += character.string();
        return Value(text);
      },
      place);
}

Expression ExpressionParser::postfix(Expression value) {
  for (;; link()) {
    TemplatePosition place = peek().place;
    if (accept(".")) {
      if (peek().kind == Kind::Integer) {
        int64_t index = std::stoll(take().text);
        value = located(
            [value, index](const ScopePtr &scope) {
              return value(scope).at(index);
            },
            place);
        continue;
      }
      value = located(
          [value, key = name()](const ScopePtr &scope) {
            return memberOf(value(scope), key);
          },
          place);
    } else if (accept("[")) {
      value = subscript(value);
    } else if (accept("(")) {
      auto call = std::make_shared<Call>(arguments());
      lastCall = call;
      value = located(
          [value, call](const ScopePtr &scope) {
            WorkLimit::spend(WorkLimit::step);
            return value(scope).call(call->evaluate(scope));
          },
          place);
    } else {
      return value;
    }
  }
}

/// Parses a test, after `is`.
Expression ExpressionParser::test(Expression input) {
  bool isNegated = accept("not");
  TemplatePosition place = peek().place;
  std::string which = name();
  jinja::Test test = at(place, [&] { return findTest(which); });
  Call call;
  bool isValue = peek().kind == Kind::String || peek().kind == Kind::Integer ||
                 peek().kind == Kind::Float || isNext("[") || isNext("{") ||
                 (peek().kind == Kind::Name && !isNext("else") &&
                  !isNext("or") && !isNext("and") && !isNext("is") &&
                  !isNext("if") && !isNext("in") && !isNext("not"));
  if (accept("("))
    call = arguments();
  else if (isValue)
    call.positional.push_back(postfix(primary()));
  return located(
      [=](const ScopePtr &scope) {
        return test(input(scope), call.evaluate(scope)) != isNegated;
      },
      place);
}

/// Parses a filter, after `|`.
Expression ExpressionParser::filter(Expression input) {
  TemplatePosition place = peek().place;
  std::string which = name();
  Filter found = at(place, [&] { return findFilter(which); });
  Call call;
  if (accept("("))
    call = arguments();
  return located(
      [=](const ScopePtr &scope) {
        Value value = input(scope);
        return found(value, call.evaluate(scope));
      },
      place);
}

Expression ExpressionParser::filters(Expression input, bool withTests) {
  for (;; link()) {
    if (withTests && accept("is")) {
      input = test(input);
    } else if (accept("|")) {
      input = filter(input);
    } else if (accept("(")) {
      input = [input, call = arguments()](const ScopePtr &scope) {
        WorkLimit::spend(WorkLimit::step);
        return input(scope).call(call.evaluate(scope));
      };
    } else {
      return input;
    }
  }
}
