//===- StatementParser.cpp - Statements of templates ----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Parser.h"

using namespace heddle::io;
using namespace heddle::io::jinja;

static ScopePtr inside(const ScopePtr &scope) {
  auto inner = std::make_shared<Scope>();
  inner->around = scope;
  inner->steps = scope->steps;
  return inner;
}

namespace {
class StatementParser : public ExpressionParser {
public:
  using ExpressionParser::ExpressionParser;
  Statement whole() {
    Statement body = block({});
    expect(Kind::End);
    return body;
  }

private:
  /// Statements up to a tag with one of the words, behind which it stops.
  Statement block(const std::vector<std::string> &ends,
                  std::string *end = nullptr);
  Statement statement(const std::string &word);
  Statement condition();
  Statement loop();
  Statement assignment();
  Statement macro();
  void endTag() { expect(Kind::StatementEnd); }
  std::vector<std::string> targets();

  int depth = 0;
};
} // namespace

/// Gives names their values: one the whole, several the elements.
static void assign(Scope &scope, const std::vector<std::string> &names,
                   const Value &value) {
  if (names.size() == 1) {
    scope.names[names[0]] = value;
    return;
  }
  const List &elements = value.list();
  if (elements.size() != names.size())
    throw TemplateError{std::to_string(elements.size()) + " values for " +
                        std::to_string(names.size()) + " names"};
  for (size_t i = 0; i < names.size(); ++i)
    scope.names[names[i]] = elements[i];
}

Statement StatementParser::block(const std::vector<std::string> &ends,
                                 std::string *end) {
  constexpr int deepest = 100;
  if (++depth > deepest)
    refuse("the template is nested too deeply");
  std::vector<Statement> body;
  for (;;) {
    if (peek().kind == Kind::Data) {
      body.push_back([text = take().text](const ScopePtr &, std::string &out) {
        out += text;
        return Flow::Next;
      });
    } else if (peek().kind == Kind::ExpressionBegin) {
      take();
      body.push_back(
          [value = expression()](const ScopePtr &scope, std::string &out) {
            out += value(scope).str();
            return Flow::Next;
          });
      expect(Kind::ExpressionEnd);
    } else if (peek().kind == Kind::StatementBegin) {
      take();
      std::string word = name();
      if (std::find(ends.begin(), ends.end(), word) != ends.end()) {
        if (end)
          *end = word;
        break;
      }
      body.push_back(statement(word));
    } else if (ends.empty()) {
      break;
    } else {
      refuse("'" + ends.back() + "' is missing");
    }
  }
  --depth;
  return [body](const ScopePtr &scope, std::string &out) {
    for (const Statement &one : body)
      if (Flow flow = one(scope, out); flow != Flow::Next)
        return flow;
    return Flow::Next;
  };
}

Statement StatementParser::statement(const std::string &word) {
  if (word == "if")
    return condition();
  if (word == "for")
    return loop();
  if (word == "set")
    return assignment();
  if (word == "macro")
    return macro();
  if (word == "break" || word == "continue") {
    endTag();
    Flow flow = word == "break" ? Flow::Break : Flow::Continue;
    return [flow](const ScopePtr &, std::string &) { return flow; };
  }
  if (word == "generation") { // What the model is trained to say.
    endTag();
    Statement body = block({"endgeneration"});
    endTag();
    return body;
  }
  refuse("the statement '" + word + "' is not known");
}

Statement StatementParser::condition() {
  std::vector<std::pair<Expression, Statement>> branches;
  std::string end = "if";
  while (end != "endif") {
    Expression when;
    if (end != "else")
      when = expression();
    endTag();
    std::vector<std::string> ends = {"endif"};
    if (end != "else")
      ends.insert(ends.begin(), {"elif", "else"});
    Statement body = block(ends, &end);
    branches.push_back({when, body});
  }
  endTag();
  return [branches](const ScopePtr &scope, std::string &out) {
    for (const auto &[when, body] : branches)
      if (!when || when(scope).truth())
        return body(scope, out);
    return Flow::Next;
  };
}

std::vector<std::string> StatementParser::targets() {
  std::vector<std::string> names;
  bool isBracketed = accept("(");
  do
    names.push_back(name());
  while (accept(","));
  if (isBracketed)
    expect(")");
  return names;
}

/// What a loop's body knows of its place.
static Value placeOf(const List &all, size_t i) {
  auto count = static_cast<int64_t>(all.size());
  auto index = static_cast<int64_t>(i);
  Dict place = {{"depth", int64_t(1)}, // Loops are not recursive.
                {"depth0", int64_t(0)},
                {"index", index + 1},
                {"index0", index},
                {"revindex", count - index},
                {"revindex0", count - index - 1},
                {"first", i == 0},
                {"last", index + 1 == count},
                {"length", count}};
  place.emplace_back("previtem", i > 0 ? all[i - 1] : Value());
  place.emplace_back("nextitem", i + 1 < all.size() ? all[i + 1] : Value());
  place.emplace_back("cycle", Function([i](const Arguments &arguments) {
                       const List &these = arguments.positional;
                       return these.empty() ? Value() : these[i % these.size()];
                     }));
  return place;
}

Statement StatementParser::loop() {
  std::vector<std::string> names = targets();
  expect("in");
  Expression over = expression(/*withCondition=*/false), when;
  Place place = peek().place;
  if (accept("if"))
    when = expression();
  endTag();
  std::string end;
  Statement body = block({"else", "endfor"}, &end), otherwise;
  if (end == "else") {
    endTag();
    otherwise = block({"endfor"});
  }
  endTag();
  Expression elements = located(
      [over](const ScopePtr &scope) { return Value(over(scope).elements()); },
      place);
  return [=](const ScopePtr &scope, std::string &out) {
    List all;
    const Value whole = elements(scope);
    for (const Value &element : whole.list()) {
      ScopePtr inner = inside(scope);
      assign(*inner, names, element);
      if (!when || when(inner).truth())
        all.push_back(element);
    }
    // As in Jinja, where a body that was left counts as none.
    bool isDone = false;
    for (size_t i = 0; i < all.size(); ++i) {
      scope->count();
      ScopePtr inner = inside(scope);
      assign(*inner, names, all[i]);
      inner->names["loop"] = placeOf(all, i);
      Flow flow = body(inner, out);
      isDone |= flow == Flow::Next;
      if (flow == Flow::Break)
        break;
    }
    return !isDone && otherwise ? otherwise(scope, out) : Flow::Next;
  };
}

/// `set x = value`, `set a, b = pair`, `set space.x = value`, or a name for all
/// that stands up to `endset`.
Statement StatementParser::assignment() {
  Place place = peek().place;
  std::vector<std::string> names = targets();
  if (accept(".")) {
    std::string member = name();
    expect("=");
    Expression value = expression();
    endTag();
    Expression store = located(
        [=, space = names[0]](const ScopePtr &scope) {
          scope->find(space).set(member, value(scope));
          return Value();
        },
        place);
    return [store](const ScopePtr &scope, std::string &) {
      store(scope);
      return Flow::Next;
    };
  }
  if (accept("=")) {
    Expression value = expression();
    if (isNext(",")) { // A tuple without brackets.
      std::vector<Expression> elements = {value};
      while (accept(","))
        elements.push_back(expression());
      value = [elements](const ScopePtr &scope) {
        List list;
        for (const Expression &element : elements)
          list.push_back(element(scope));
        return Value(list);
      };
    }
    endTag();
    return [=](const ScopePtr &scope, std::string &) {
      assign(*scope, names, value(scope));
      return Flow::Next;
    };
  }
  endTag();
  Statement body = block({"endset"});
  endTag();
  return [=](const ScopePtr &scope, std::string &) {
    std::string text;
    Flow flow = body(scope, text);
    assign(*scope, names, text);
    return flow;
  };
}

Statement StatementParser::macro() {
  std::string called = name();
  expect("(");
  std::vector<std::pair<std::string, Expression>> parameters;
  while (!accept(")")) {
    std::string parameter = name();
    Expression fallback;
    if (accept("="))
      fallback = expression();
    parameters.push_back({parameter, fallback});
    if (!isNext(")"))
      expect(",");
  }
  endTag();
  Statement body = block({"endmacro"});
  endTag();
  return [=](const ScopePtr &scope, std::string &) {
    // The scope holds the macro, which must not hold the scope.
    std::weak_ptr<Scope> defined = scope;
    auto depth = std::make_shared<int>(0);
    scope->names[called] = Function([=](const Arguments &arguments) {
      constexpr int deepest = 100;
      if (*depth >= deepest)
        throw TemplateError{"the macro '" + called +
                            "' calls itself too often"};
      ++*depth;
      ScopePtr inner = inside(defined.lock());
      for (size_t i = 0; i < parameters.size(); ++i) {
        const auto &[parameter, fallback] = parameters[i];
        // A value that is given but not defined is no reason for another.
        bool isGiven = arguments.has(i, parameter.c_str());
        inner->names[parameter] = isGiven || !fallback
                                      ? arguments.get(i, parameter.c_str())
                                      : fallback(inner);
      }
      std::string text;
      body(inner, text);
      --*depth;
      return Value(text);
    });
    return Flow::Next;
  };
}

Statement jinja::parse(const std::string &source) {
  return StatementParser(tokenize(source)).whole();
}
