//===- StatementParser.cpp - Statements of chat templates -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiles statements of Jinja: for, if, set, macro, call, filter, with and
// others.
//
//===----------------------------------------------------------------------===//

#include "Parser.h"
#include <algorithm>
#include <optional>

using namespace heddle::io;
using namespace heddle::io::jinja;

static ScopePtr inside(const ScopePtr &scope) {
  auto inner = std::make_shared<Scope>();
  inner->around = scope;
  return inner;
}

/// Returns the scope to which a function of a template has a weak reference.
/// Throws if the scope does not exist any more.
static ScopePtr held(const std::weak_ptr<Scope> &scope) {
  ScopePtr found = scope.lock();
  if (!found)
    throw TemplateError{"a macro is called outside the block that has it"};
  return found;
}

namespace {
/// The target of an assignment: one name, or a name for each element of the
/// value.
struct Target {
  std::string name;
  /// The targets of the elements. If empty, the whole value is assigned to
  /// `name`.
  std::vector<Target> parts;
};

/// A macro, or the block between `call` and `endcall`.
struct Macro {
  std::string name;
  std::vector<std::pair<std::string, Expression>> parameters;
  Statement body;
  bool takesMore = false, takesNamed = false, takesCaller = false;

  Value call(const ScopePtr &around, const Arguments &arguments) const;
  bool hasParameter(const std::string &wanted) const {
    return std::any_of(parameters.begin(), parameters.end(),
                       [&](const auto &one) { return one.first == wanted; });
  }
};

class StatementParser : public ExpressionParser {
public:
  using ExpressionParser::ExpressionParser;
  Statement whole() {
    Statement body = block({});
    expect(Kind::End);
    return body;
  }

private:
  /// Parses statements up to a tag with one of the words in `ends`, and stops
  /// after that word.
  Statement block(const std::vector<std::string> &ends,
                  std::string *end = nullptr);
  Statement statement(const std::string &word);
  Statement condition();
  Statement loop();
  Statement assignment();
  Statement macro();
  Statement callBlock();
  Statement filterBlock();
  Statement withBlock();
  Macro macroOf(const std::string &name);
  void endTag() { expect(Kind::StatementEnd); }
  Target target();
  Target targets();

  static constexpr int deepest = 100;
  int depth = 0;
};
} // namespace

static void assign(Scope &scope, const Target &target, const Value &value) {
  if (target.parts.empty()) {
    scope.names[target.name] = value;
    return;
  }
  const List elements = value.elements();
  if (elements.size() != target.parts.size())
    throw TemplateError{std::to_string(elements.size()) + " values for " +
                        std::to_string(target.parts.size()) + " names"};
  for (size_t i = 0; i < elements.size(); ++i)
    assign(scope, target.parts[i], elements[i]);
}

Statement StatementParser::block(const std::vector<std::string> &ends,
                                 std::string *end) {
  if (++depth > deepest)
    refuse("the template is nested too deeply");
  std::vector<Statement> body;
  for (;;) {
    if (peek().kind == Kind::Data) {
      body.push_back([text = take().text](const ScopePtr &, std::string &out) {
        WorkLimit::spend(int64_t(text.size()));
        out += text;
        return Flow::Next;
      });
    } else if (peek().kind == Kind::ExpressionBegin) {
      take();
      body.push_back(
          [value = tuple()](const ScopePtr &scope, std::string &out) {
            std::string text = value(scope).str();
            WorkLimit::spend(int64_t(text.size()));
            out += text;
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
    WorkLimit::deepen();
    for (const Statement &one : body) {
      WorkLimit::spend(WorkLimit::step / 10);
      if (Flow flow = one(scope, out); flow != Flow::Next)
        return flow;
    }
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
  if (word == "call")
    return callBlock();
  if (word == "filter")
    return filterBlock();
  if (word == "with")
    return withBlock();
  if (word == "break" || word == "continue") {
    endTag();
    Flow flow = word == "break" ? Flow::Break : Flow::Continue;
    return [flow](const ScopePtr &, std::string &) { return flow; };
  }
  // The tag `generation` marks the tokens that training predicts. It does not
  // change the rendered text, so it is replaced by its content.
  if (word == "generation") {
    endTag();
    Statement body = block({"endgeneration"});
    endTag();
    return body;
  }
  throw TemplateError{"the statement '" + word + "' is not known", peek().place,
                      "the statements are break, call, continue, filter, for, "
                      "generation, if, macro, raw, set, with"};
}

Statement StatementParser::condition() {
  std::vector<std::pair<Expression, Statement>> branches;
  std::string end = "if";
  while (end != "endif") {
    Expression when;
    if (end != "else")
      when = tuple();
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

Target StatementParser::target() {
  if (!accept("("))
    return {name(), {}};
  if (++depth > deepest)
    refuse("the template is nested too deeply");
  Target inner = targets();
  expect(")");
  --depth;
  return inner;
}

Target StatementParser::targets() {
  Target first = target();
  if (!isNext(","))
    return first;
  Target all = {"", {first}};
  while (accept(","))
    if (peek().kind == Kind::Name ? !isNext("in") : isNext("("))
      all.parts.push_back(target());
  return all;
}

namespace {
struct Loop {
  Target target;
  Expression when;
  Statement body, otherwise;
  bool isRecursive;

  Flow run(const std::shared_ptr<const Loop> &self, const ScopePtr &scope,
           const Value &whole, std::string &out, int64_t depth) const;
  Value placeOf(const std::shared_ptr<const Loop> &self, const ScopePtr &scope,
                const List &all, size_t i, int64_t depth) const;
};
} // namespace

/// Returns the value of the variable `loop`, by which the body of a loop learns
/// the index of the current element and its neighbours.
Value Loop::placeOf(const std::shared_ptr<const Loop> &self,
                    const ScopePtr &scope, const List &all, size_t i,
                    int64_t depth) const {
  auto count = static_cast<int64_t>(all.size());
  auto index = static_cast<int64_t>(i);
  Dict place = {{"depth", depth},
                {"depth0", depth - 1},
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
  if (!isRecursive)
    return place;
  constexpr int64_t deepest = 100;
  // A weak reference suffices: the scope around the loop exists while the loop
  // runs, and `loop(...)` is only called then.
  std::weak_ptr<Scope> around = scope;
  place.emplace_back(Value::callKey, Function([=](const Arguments &arguments) {
                       if (depth >= deepest)
                         throw TemplateError{"a loop calls itself too often"};
                       std::string text;
                       self->run(self, held(around),
                                 arguments.get(0, "iterable").elements(), text,
                                 depth + 1);
                       return Value(text);
                     }));
  return place;
}

Flow Loop::run(const std::shared_ptr<const Loop> &self, const ScopePtr &scope,
               const Value &whole, std::string &out, int64_t depth) const {
  List all;
  for (const Value &element : whole.list()) {
    WorkLimit::spend(WorkLimit::step);
    ScopePtr inner = inside(scope);
    assign(*inner, target, element);
    if (!when || when(inner).truth())
      all.push_back(element);
  }
  // Whether the body ran to its end for some element. If not, the loop's `else`
  // runs. As in Jinja, a body that was left early does not count.
  bool isDone = false;
  auto last = std::make_shared<std::optional<List>>();
  // The function `loop.changed(...)`: tells whether its arguments differ from
  // those of its previous call, which are in `last`. These arguments may
  // include the function itself. So the function has only a weak reference to
  // `last`: a strong one could form a cycle that is never freed.
  Function changed = [known = std::weak_ptr<std::optional<List>>(last)](
                         const Arguments &arguments) {
    auto last = known.lock();
    bool isNew = !last || !*last || !(**last == arguments.positional);
    if (last)
      *last = arguments.positional;
    return Value(isNew);
  };
  for (size_t i = 0; i < all.size(); ++i) {
    WorkLimit::spend(WorkLimit::step);
    ScopePtr inner = inside(scope);
    assign(*inner, target, all[i]);
    inner->names["loop"] = placeOf(self, scope, all, i, depth);
    inner->names["loop"].set("changed", changed);
    Flow flow = body(inner, out);
    isDone |= flow == Flow::Next;
    if (flow == Flow::Break)
      break;
  }
  return !isDone && otherwise ? otherwise(scope, out) : Flow::Next;
}

Statement StatementParser::loop() {
  auto made = std::make_shared<Loop>();
  made->target = targets();
  expect("in");
  Expression over = tuple(/*withCondition=*/false);
  TemplatePosition place = peek().place;
  if (accept("if"))
    made->when = expression();
  made->isRecursive = accept("recursive");
  endTag();
  std::string end;
  made->body = block({"else", "endfor"}, &end);
  if (end == "else") {
    endTag();
    made->otherwise = block({"endfor"});
  }
  endTag();
  Expression elements = located(
      [over](const ScopePtr &scope) { return Value(over(scope).elements()); },
      place);
  std::shared_ptr<const Loop> self = made;
  return [self, elements](const ScopePtr &scope, std::string &out) {
    return self->run(self, scope, elements(scope), out, 1);
  };
}

/// The variable that holds the text of a `set` or `filter` block, or the
/// function of a `call` block. Since it is no valid name in Jinja, no template
/// can read or overwrite it.
static constexpr const char *blockKey = "()";
static Value textOfBlock(const ScopePtr &scope) {
  return scope->find(blockKey);
}

/// Parses `set x = value`, `set a, b = pair`, `set space.x = value`, or a block
/// up to `endset`, with filters.
Statement StatementParser::assignment() {
  TemplatePosition place = peek().place;
  Target target = targets();
  if (accept(".")) {
    std::string member = name();
    expect("=");
    Expression value = tuple();
    endTag();
    Expression store = located(
        [=, space = target.name](const ScopePtr &scope) {
          Value made = value(scope), holder = scope->find(space);
          holder.set(member, made);
          if (made.isShared())
            WorkLimit::mayHoldItself(holder);
          return Value();
        },
        place);
    return [store](const ScopePtr &scope, std::string &) {
      store(scope);
      return Flow::Next;
    };
  }
  if (accept("=")) {
    Expression value = tuple();
    endTag();
    return [=](const ScopePtr &scope, std::string &) {
      assign(*scope, target, value(scope));
      return Flow::Next;
    };
  }
  Expression filtered = filters(textOfBlock, /*withTests=*/false);
  endTag();
  Statement body = block({"endset"});
  endTag();
  return [=](const ScopePtr &scope, std::string &) {
    std::string text;
    Flow flow = body(inside(scope), text);
    ScopePtr inner = inside(scope);
    inner->names[blockKey] = text;
    assign(*scope, target, filtered(inner));
    return flow;
  };
}

/// Parses `filter upper | trim`, up to `endfilter`.
Statement StatementParser::filterBlock() {
  Expression filtered = filters(filter(textOfBlock), /*withTests=*/false);
  endTag();
  Statement body = block({"endfilter"});
  endTag();
  return [=](const ScopePtr &scope, std::string &out) {
    std::string text;
    ScopePtr inner = inside(scope);
    Flow flow = body(inner, text);
    inner->names[blockKey] = text;
    out += filtered(inner).str();
    return flow;
  };
}

/// Parses `with a = 1, b = 2`, up to `endwith`. The values are evaluated in the
/// enclosing scope.
Statement StatementParser::withBlock() {
  std::vector<std::pair<Target, Expression>> names;
  while (peek().kind != Kind::StatementEnd) {
    Target one = target();
    expect("=");
    names.push_back({one, expression()});
    if (peek().kind != Kind::StatementEnd)
      expect(",");
  }
  endTag();
  Statement body = block({"endwith"});
  endTag();
  return [=](const ScopePtr &scope, std::string &out) {
    ScopePtr inner = inside(scope);
    for (const auto &[name, value] : names)
      assign(*inner, name, value(scope));
    return body(inner, out);
  };
}

Value Macro::call(const ScopePtr &around, const Arguments &arguments) const {
  ScopePtr inner = inside(around);
  size_t count = parameters.size();
  if (arguments.positional.size() > count && !takesMore)
    throw TemplateError{"the macro '" + name + "' takes not more than " +
                        std::to_string(count) + " values"};
  Dict more;
  for (const auto &[given, value] : arguments.named)
    if (!hasParameter(given) && given != "caller") {
      if (!takesNamed)
        throw TemplateError{"the macro '" + name + "' takes no '" + given +
                            "'"};
      more.emplace_back(given, value);
    }
  if (takesNamed)
    inner->names["kwargs"] = more;
  if (takesMore) {
    List rest;
    for (size_t i = count; i < arguments.positional.size(); ++i)
      rest.push_back(arguments.positional[i]);
    inner->names["varargs"] = Value::tuple(rest);
  }
  if (takesCaller)
    inner->names["caller"] = arguments.get(SIZE_MAX, "caller");
  else if (arguments.has(SIZE_MAX, "caller") && !hasParameter("caller"))
    throw TemplateError{"the macro '" + name + "' calls no caller"};
  for (size_t i = 0; i < count; ++i) {
    const auto &[parameter, fallback] = parameters[i];
    // An argument that is given but undefined does not get the default.
    bool isGiven = arguments.has(i, parameter.c_str());
    inner->names[parameter] = isGiven || !fallback
                                  ? arguments.get(i, parameter.c_str())
                                  : fallback(inner);
  }
  std::string text;
  body(inner, text);
  return text;
}

/// Parses parameters in brackets, if any, and the body.
Macro StatementParser::macroOf(const std::string &name) {
  Macro made;
  made.name = name;
  while (!accept(")")) {
    std::string parameter = this->name();
    Expression fallback;
    if (accept("="))
      fallback = expression();
    made.parameters.push_back({parameter, fallback});
    if (!isNext(")"))
      expect(",");
  }
  return made;
}

Statement StatementParser::macro() {
  std::string called = name();
  expect("(");
  Macro made = macroOf(called);
  endTag();
  size_t begin = place();
  made.body = block({"endmacro"});
  made.takesMore = hasName("varargs", begin);
  made.takesNamed = hasName("kwargs", begin);
  made.takesCaller = hasName("caller", begin);
  endTag();
  return [made = std::make_shared<const Macro>(std::move(made))](
             const ScopePtr &scope, std::string &) {
    // The scope owns the macro. A strong reference from the macro to the scope
    // would form a cycle that is never freed.
    std::weak_ptr<Scope> defined = scope;
    auto depth = std::make_shared<int>(0);
    scope->names[made->name] = Function([=](const Arguments &arguments) {
      constexpr int deepest = 100;
      if (*depth >= deepest)
        throw TemplateError{"the macro '" + made->name +
                            "' calls itself too often"};
      ++*depth;
      Value text = made->call(held(defined), arguments);
      --*depth;
      return text;
    });
    return Flow::Next;
  };
}

/// Parses `call(a, b) macro(...)`: the block up to `endcall` is the macro's
/// `caller(a, b)`.
Statement StatementParser::callBlock() {
  Macro made;
  made.name = "caller";
  if (accept("("))
    made = macroOf("caller");
  lastCall = nullptr;
  Expression value = expression();
  if (!lastCall)
    refuse("the call of a macro is expected");
  lastCall->named.set("caller", textOfBlock);
  endTag();
  made.body = block({"endcall"});
  endTag();
  return [value, made = std::make_shared<const Macro>(std::move(made))](
             const ScopePtr &scope, std::string &out) {
    ScopePtr inner = inside(scope);
    std::weak_ptr<Scope> around = scope;
    inner->names[blockKey] = Function([=](const Arguments &arguments) {
      return made->call(held(around), arguments);
    });
    out += value(inner).str();
    return Flow::Next;
  };
}

Statement jinja::parse(const std::string &source) {
  return StatementParser(tokenize(source)).whole();
}
