//===- Parser.cpp - Parses PTX --------------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A recursive-descent parser for the PTX that Heddle and other compilers write.
// Its result is the tree in Syntax.h.
//
//===----------------------------------------------------------------------===//

#include "emulator/ptx/Lexer.h"

#include <algorithm>
#include <cstring>

namespace heddle::emulator {

Type parseType(std::string_view name) {
  static const std::map<std::string_view, Type> types = {
      {"pred", {Type::Pred, 1}},         {"b8", {Type::Bits, 8}},
      {"b16", {Type::Bits, 16}},         {"b32", {Type::Bits, 32}},
      {"b64", {Type::Bits, 64}},         {"u8", {Type::Unsigned, 8}},
      {"u16", {Type::Unsigned, 16}},     {"u32", {Type::Unsigned, 32}},
      {"u64", {Type::Unsigned, 64}},     {"s8", {Type::Signed, 8}},
      {"s16", {Type::Signed, 16}},       {"s32", {Type::Signed, 32}},
      {"s64", {Type::Signed, 64}},       {"f16", {Type::Float, 16}},
      {"f16x2", {Type::Float, 16, 2}},   {"f32", {Type::Float, 32}},
      {"f64", {Type::Float, 64}},        {"bf16", {Type::BFloat, 16}},
      {"bf16x2", {Type::BFloat, 16, 2}}, {"tf32", {Type::Tf32, 32}}};
  auto found = types.find(name);
  return found == types.end() ? Type() : found->second;
}

namespace {
class Parser {
public:
  explicit Parser(std::string_view text) : lexer(text) {}

  Syntax parse();

private:
  Type type();
  int64_t alignment();
  Variable variable(std::string space);
  void initializer(Variable &result);
  void arraySizes(Variable &result);
  void parameters(Function &function);
  void function(bool isEntry);
  void launchBounds(int64_t (&sizes)[3]);
  bool launchDirective(Function &made);
  void scope(Function &function);
  void directive(Function &function);
  void registers(Function &function);
  void location();
  void skipSection();
  void branchTargets(Function &function, const std::string &name);
  void instruction(Function &function);
  Operand operand();
  Operand address();
  void endAddress(Operand &made);
  Operand number(bool negative);
  std::string resolve(std::string_view name) const;

  Lexer lexer;
  Syntax result;
  int64_t sourceFile = 0, sourceLine = 0;
  /// For each scope inside the function, the names that it declares. Each name
  /// is mapped to another one that is unique in the function.
  std::vector<std::map<std::string, std::string, std::less<>>> scopes;
  int64_t scopeCount = 0;
};
} // namespace

//===----------------------------------------------------------------------===//
// Variables
//===----------------------------------------------------------------------===//

Type Parser::type() {
  std::string_view name = lexer.word("a type");
  Type found = name[0] == '.' ? parseType(name.substr(1)) : Type();
  if (found.kind == Type::None)
    lexer.fail("unknown type '" + std::string(name) + "'");
  return found;
}

int64_t Parser::alignment() {
  return lexer.take(".align") ? lexer.integer("an alignment") : 0;
}

void Parser::arraySizes(Variable &result) {
  int64_t count = 1;
  while (lexer.take("[")) {
    count *= lexer.peek().text == "]" ? 0 : lexer.integer("a size");
    lexer.expect("]");
  }
  result.bytes = count * result.type.bytes();
}

void Parser::initializer(Variable &result) {
  bool isList = lexer.take("{");
  do {
    Operand value = operand();
    if (value.kind != Operand::Immediate)
      lexer.fail("an initial value has to be a number");
    uint64_t bits = value.literal.bits;
    double wide;
    std::memcpy(&wide, &bits, 8);
    auto narrow = static_cast<float>(wide);
    if (value.literal.isFloat && result.type.width == 32)
      std::memcpy(&bits, &narrow, 4);
    for (int i = 0; i < result.type.bytes(); ++i)
      result.initial.push_back(static_cast<uint8_t>(bits >> (8 * i)));
  } while (isList && lexer.take(","));
  if (isList)
    lexer.expect("}");
  result.initial.resize(result.bytes);
}

/// Parses a variable after the name of its state space: .align N .type
/// name[sizes] = values.
Variable Parser::variable(std::string space) {
  Variable made;
  made.space = std::move(space);
  made.line = lexer.peek().line;
  int64_t align = alignment();
  made.type = type();
  // Attributes of a pointer parameter: .ptr .global .align 1.
  if (lexer.take(".ptr")) {
    for (const char *where : {".global", ".shared", ".const", ".local"})
      lexer.take(where);
    alignment();
  }
  made.alignment = align ? align : made.type.bytes();
  made.name = lexer.word("a name");
  arraySizes(made);
  if (lexer.take("="))
    initializer(made);
  return made;
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

void Parser::parameters(Function &function) {
  if (!lexer.take("("))
    return;
  while (!lexer.take(")")) {
    std::string_view space = lexer.word("a parameter");
    if (space != ".param" && space != ".reg")
      lexer.fail("expected .param, not '" + std::string(space) + "'");
    function.parameters.push_back(variable(std::string(space.substr(1))));
    lexer.take(",");
  }
}

void Parser::launchBounds(int64_t (&sizes)[3]) {
  for (int64_t &size : sizes)
    size = 1;
  int at = 0;
  do
    sizes[at++] = lexer.integer("a size");
  while (at < 3 && lexer.take(","));
}

/// Parses a launch directive such as .maxntid. Returns false if the directive
/// is of another kind.
bool Parser::launchDirective(Function &made) {
  if (lexer.take(".maxntid"))
    launchBounds(made.maxThreads);
  else if (lexer.take(".reqntid"))
    launchBounds(made.requiredThreads);
  else if (lexer.take(".maxnreg"))
    made.maxRegisters = lexer.integer("a number");
  else if (lexer.take(".minnctapersm"))
    made.minBlocks = lexer.integer("a number");
  else if (lexer.take(".reqnctapercluster"))
    launchBounds(made.cluster);
  else if (lexer.take(".maxclusterrank"))
    made.maxClusterRank = lexer.integer("a number");
  else if (lexer.take(".explicitcluster"))
    made.isExplicitCluster = true;
  else
    return false;
  if (made.maxThreads[0] && made.requiredThreads[0])
    lexer.fail("both .maxntid and .reqntid");
  if (made.cluster[0] && made.maxClusterRank)
    lexer.fail("both .reqnctapercluster and .maxclusterrank");
  return true;
}

void Parser::function(bool isEntry) {
  Function made;
  made.isEntry = isEntry;
  made.line = lexer.peek().line;
  if (!isEntry && lexer.peek().text == "(")
    parameters(made); // The result.
  made.name = lexer.word("a function's name");
  parameters(made);
  while (lexer.peek().text != "{" && lexer.peek().text != ";") {
    if (!launchDirective(made) && !lexer.take(".noreturn"))
      lexer.fail("unknown directive '" + std::string(lexer.peek().text) + "'");
  }
  if (lexer.take(";"))
    return;
  sourceFile = sourceLine = 0;
  scope(made);
  result.functions.push_back(std::move(made));
}

void Parser::scope(Function &function) {
  lexer.expect("{");
  scopes.emplace_back();
  while (!lexer.take("}")) {
    std::string_view text = lexer.peek().text;
    if (lexer.peek().kind == Token::End)
      lexer.fail("a function does not end");
    if (text == "{")
      scope(function);
    else if (text[0] == '.')
      directive(function);
    else
      instruction(function);
  }
  scopes.pop_back();
}

/// Returns the name, unique in the function, of a variable or register that is
/// called `name` in the current scope.
std::string Parser::resolve(std::string_view name) const {
  for (auto it = scopes.rbegin(); it != scopes.rend(); ++it)
    if (auto found = it->find(name); found != it->end())
      return found->second;
  return std::string(name);
}

/// Parses a declaration of registers, such as: .reg .f32 %f<9>, a, b;
void Parser::registers(Function &function) {
  Type of = type();
  auto declare = [&](const std::string &name) {
    std::string known = name;
    if (function.registers.count(name))
      known += "@" + std::to_string(++scopeCount);
    scopes.back()[name] = known;
    function.registers[known] = of;
  };
  do {
    std::string name(lexer.word("a register"));
    if (!lexer.take("<")) {
      declare(name);
      continue;
    }
    int64_t count = lexer.integer("a count");
    lexer.expect(">");
    for (int64_t i = 0; i < count; ++i)
      declare(name + std::to_string(i));
  } while (lexer.take(","));
  lexer.expect(";");
}

/// Parses the position of an instruction in a source file: .loc file line
/// column, function_name ..., inlined_at file line column
void Parser::location() {
  sourceFile = lexer.integer("a file");
  sourceLine = lexer.integer("a line");
  int64_t line = lexer.peek().line;
  while (lexer.peek().line == line && lexer.peek().kind != Token::End)
    lexer.next();
}

void Parser::directive(Function &function) {
  Token word = lexer.next();
  std::string_view name = word.text;
  if (name == ".reg") {
    registers(function);
  } else if (name == ".shared" || name == ".local" || name == ".const" ||
             name == ".global" || name == ".param") {
    Variable made = variable(std::string(name.substr(1)));
    // Several call sequences of a function may declare variables of the same
    // name, such as `param0`. So give each of them a unique name.
    auto isSame = [&](const Variable &of) { return of.name == made.name; };
    std::string given = made.name;
    if (std::any_of(function.variables.begin(), function.variables.end(),
                    isSame))
      made.name += "@" + std::to_string(++scopeCount);
    scopes.back()[given] = made.name;
    function.variables.push_back(std::move(made));
    lexer.expect(";");
  } else if (name == ".loc") {
    location();
  } else if (name == ".pragma") {
    lexer.next();
    lexer.expect(";");
  } else {
    throw PtxError(word.line, "unknown directive '" + std::string(name) + "'");
  }
}

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

Operand Parser::number(bool negative) {
  Operand made;
  made.kind = Operand::Immediate;
  made.literal = lexer.next().literal;
  if (negative)
    made.literal.bits = made.literal.isFloat
                            ? made.literal.bits ^ (uint64_t(1) << 63)
                            : -made.literal.bits;
  return made;
}

/// Parses the end of a tensor address, which has coordinates: [map, {x, y}].
void Parser::endAddress(Operand &made) {
  if (lexer.take(","))
    made.elements = operand().elements;
  lexer.expect("]");
}

/// Parses an address after its opening bracket: name + offset].
Operand Parser::address() {
  Operand made;
  made.kind = Operand::Address;
  if (lexer.peek().kind == Token::Word) {
    std::string name = resolve(lexer.next().text);
    made.name = name;
    // Only at the end of the function is it known whether the name is a
    // register or a symbol.
    if (!lexer.take("+") && lexer.peek().text != "-") {
      endAddress(made);
      return made;
    }
  }
  made.literal.bits = static_cast<uint64_t>(lexer.integer("an offset"));
  endAddress(made);
  return made;
}

Operand Parser::operand() {
  if (lexer.take("["))
    return address();
  Operand made;
  bool isVector = lexer.take("{");
  if (isVector || lexer.take("(")) {
    const char *end = isVector ? "}" : ")";
    made.kind = Operand::Vector;
    while (!lexer.take(end)) {
      made.elements.push_back(operand());
      if (!lexer.take(",") && lexer.peek().text != end)
        lexer.fail("a list does not end");
    }
    return made;
  }
  made.negated = lexer.take("!");
  bool negative = lexer.take("-");
  if (lexer.peek().kind == Token::Number)
    return number(negative);
  std::string_view name = lexer.word("an operand");
  if (name != "_") {
    made.kind = Operand::Symbol;
    made.name = resolve(name);
  }
  if (lexer.take("|"))
    made.second = resolve(lexer.word("a predicate"));
  if (lexer.take("+"))
    made.literal.bits = static_cast<uint64_t>(lexer.integer("an offset"));
  return made;
}

/// Parses the list of the labels that a brx.idx may branch to. Its syntax is:
/// name: .branchtargets label, label, ...;
void Parser::branchTargets(Function &function, const std::string &name) {
  std::vector<std::string> &targets = function.branchTargets[name];
  do
    targets.emplace_back(lexer.word("a label"));
  while (lexer.take(","));
  lexer.expect(";");
}

void Parser::instruction(Function &function) {
  Instruction made;
  made.line = lexer.peek().line;
  made.sourceFile = sourceFile;
  made.sourceLine = sourceLine;
  if (lexer.take("@")) {
    made.guardNegated = lexer.take("!");
    made.guard = resolve(lexer.word("a predicate"));
  }
  std::string_view name = lexer.word("an instruction");
  if (made.guard.empty() && lexer.take(":")) {
    if (lexer.take(".branchtargets"))
      return branchTargets(function, std::string(name));
    if (!function.labels.emplace(name, function.body.size()).second)
      throw PtxError(made.line, "a second label '" + std::string(name) + "'");
    return;
  }
  size_t dot = name.find('.');
  made.opcode = name.substr(0, dot);
  while (dot != name.npos) {
    size_t end = name.find('.', dot + 1);
    made.modifiers.emplace_back(name.substr(dot + 1, end - dot - 1));
    dot = end;
  }
  while (!lexer.take(";")) {
    made.operands.push_back(operand());
    if (!lexer.take(",") && lexer.peek().text != ";")
      lexer.fail("expected ',' or ';', not '" + std::string(lexer.peek().text) +
                 "'");
  }
  for (Operand &operand : made.operands) {
    auto classify = [&](Operand &of) {
      bool known = function.registers.count(of.name) || of.name[0] == '%';
      if (of.kind == Operand::Symbol && known)
        of.kind = Operand::Register;
      if (of.kind == Operand::Address)
        of.isRegisterBase = !of.name.empty() && known;
    };
    for (Operand &element : operand.elements)
      classify(element);
    if (operand.kind != Operand::Vector)
      classify(operand);
  }
  function.body.push_back(std::move(made));
}

//===----------------------------------------------------------------------===//
// Modules
//===----------------------------------------------------------------------===//

/// Skips debug information: .section name { ... }
void Parser::skipSection() {
  while (lexer.peek().text != "{")
    lexer.next();
  lexer.next();
  while (!lexer.take("}")) {
    if (lexer.peek().kind == Token::End)
      lexer.fail("a section does not end");
    lexer.next();
  }
}

Syntax Parser::parse() {
  bool isExtern = false;
  while (lexer.peek().kind != Token::End) {
    Token word = lexer.next();
    std::string_view name = word.text;
    if (name == ".version") {
      result.version = lexer.next().text;
      if (lexer.peek().kind == Token::Sign && lexer.take("."))
        lexer.next();
    } else if (name == ".target") {
      result.target = lexer.word("a target");
      while (lexer.take(","))
        lexer.word("an option");
    } else if (name == ".address_size") {
      if (lexer.integer("a size") != 64)
        throw PtxError(word.line, "addresses have to have 64 bits");
    } else if (name == ".file") {
      int64_t number = lexer.integer("a file's number");
      std::string_view text = lexer.next().text;
      result.files[number] = text.substr(1, text.size() - 2);
      while (lexer.take(","))
        lexer.integer("a number");
    } else if (name == ".section") {
      skipSection();
    } else if (name == ".visible" || name == ".weak" || name == ".common") {
      continue;
    } else if (name == ".extern") {
      isExtern = true;
      continue;
    } else if (name == ".entry" || name == ".func") {
      function(name == ".entry");
    } else if (name == ".global" || name == ".const" || name == ".shared") {
      result.variables.push_back(variable(std::string(name.substr(1))));
      result.variables.back().isExtern = isExtern;
      lexer.expect(";");
    } else {
      throw PtxError(word.line,
                     "unknown directive '" + std::string(name) + "'");
    }
    isExtern = false;
  }
  if (result.version.empty() || result.target.empty())
    lexer.fail("no .version and .target: this is no PTX");
  return std::move(result);
}

Syntax parsePtx(std::string_view text) { return Parser(text).parse(); }

} // namespace heddle::emulator
