//===- Strategy.cpp - The user's settings as an attribute -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Dist/Strategy.h"
#include "dialects/Dist/DistDialect.h"
#include "heddle/Settings/Batch.h"
#include "heddle/Settings/LearningRate.h"
#include "heddle/Settings/LossScale.h"
#include "heddle/runtime/io/Diagnostic.h"
#include "mlir/IR/DialectImplementation.h"
#include "nlohmann/json.hpp"
#include "llvm/Support/MathExtras.h"
#include <cmath>

using namespace mlir;
using namespace heddle;
using namespace heddle::dist;
using config::Setting;
using config::SettingValue;

bool config::operator==(const Settings &a, const Settings &b) {
#define HEDDLE_SETTING(TYPE, MEMBER, ...)                                      \
  if (a.MEMBER != b.MEMBER)                                                    \
    return false;
#include "heddle/Settings/Settings.def"
  return true;
}

static llvm::hash_code hashOf(double value) {
  return llvm::hash_value(llvm::bit_cast<uint64_t>(value));
}
static llvm::hash_code hashOf(const std::vector<std::string> &value) {
  return llvm::hash_combine_range(value.begin(), value.end());
}
template <typename T> static llvm::hash_code hashOf(const T &value) {
  return llvm::hash_combine(value);
}

llvm::hash_code config::hash_value(const Settings &settings) {
  llvm::hash_code hash(0);
#define HEDDLE_SETTING(TYPE, MEMBER, ...)                                      \
  hash = llvm::hash_combine(hash, hashOf(settings.MEMBER));
#include "heddle/Settings/Settings.def"
  return hash;
}

llvm::APInt dist::bitOf(llvm::StringRef key) {
  const auto &settings = config::allSettings();
  auto found = llvm::find_if(
      settings, [&](const Setting &setting) { return setting.key == key; });
  assert(found != settings.end() && "a key of Settings.def");
  return llvm::APInt::getOneBitSet(settings.size(), found - settings.begin());
}

llvm::APInt dist::allWritten() {
  return llvm::APInt::getAllOnes(config::allSettings().size());
}

//===----------------------------------------------------------------------===//
// Verification
//===----------------------------------------------------------------------===//

/// Describes why the setting's value is out of range; "" if it is not.
static std::string checkRange(const Setting &setting,
                              const Strategy &strategy) {
  if (setting.holds(strategy))
    return "";
  return "strategy: " + setting.path + " is not " + setting.range.describe();
}

std::string dist::verifyStrategy(const Strategy &strategy) {
  for (const Setting &setting : config::allSettings())
    if (std::string wrong = checkRange(setting, strategy); !wrong.empty())
      return wrong;
  constexpr int64_t mostRanks = 1 << 20;
  int64_t ranks = 1;
  for (int64_t size :
       {strategy.data, strategy.tensor, strategy.pipe, strategy.sequence})
    if (llvm::MulOverflow(ranks, size, ranks) || ranks > mostRanks)
      return "strategy: the mesh has more than " + std::to_string(mostRanks) +
             " ranks";
  if (!nlohmann::json::accept(strategy.schedulerParams))
    return "strategy: scheduler.params is no JSON: " + strategy.schedulerParams;
  if (std::string wrong; !config::readScheduler(strategy, wrong))
    return "H0194: " + wrong;
  if (std::string wrong = config::checkLossScale(strategy); !wrong.empty())
    return wrong;
  if (strategy.quantizeActivations == config::QuantizeActivations::Auto)
    return "strategy: quantize.activations is auto, which is settled before: "
           "write none or int8";
  if (strategy.mode != config::Mode::Train &&
      strategy.maxBatch % strategy.data != 0)
    return "strategy: serve.max_batch " + std::to_string(strategy.maxBatch) +
           " is no multiple of mesh.data " + std::to_string(strategy.data);
  if (config::rowsOfBatch(strategy) == strategy.batch)
    return "";
  return "strategy: batch.micro " + std::to_string(strategy.microBatch) +
         " * batch.accumulate " + std::to_string(strategy.accumulate) +
         " * mesh.data " + std::to_string(strategy.data) +
         " is not batch.global " + std::to_string(strategy.batch);
}

LogicalResult StrategyAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                   Strategy value, llvm::APInt written) {
  std::string wrong = verifyStrategy(value);
  if (!wrong.empty())
    return emitError() << wrong;
  return success();
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

static void printValue(const SettingValue &value, AsmPrinter &printer) {
  if (const auto *integer = std::get_if<int64_t>(&value))
    printer << *integer;
  else if (const auto *number = std::get_if<double>(&value))
    printer.printFloat(APFloat(*number));
  else if (const auto *truth = std::get_if<bool>(&value))
    printer << (*truth ? "true" : "false");
  else if (const auto *text = std::get_if<std::string>(&value))
    printer.printKeywordOrString(*text);
  else {
    printer << "[";
    llvm::interleaveComma(
        std::get<std::vector<std::string>>(value), printer.getStream(),
        [&](const std::string &item) { printer.printKeywordOrString(item); });
    printer << "]";
  }
}

void StrategyAttr::print(AsmPrinter &printer) const {
  printer << "<{";
  std::string section;
  StringRef separator = "";
  auto leave = [&] { printer << (section.empty() ? "" : "}"); };
  for (auto [i, setting] : llvm::enumerate(config::allSettings())) {
    if (!isWritten(i))
      continue;
    if (setting.section() != section) {
      leave();
      section = setting.section();
      printer << separator;
      if (!section.empty())
        printer << section << " = {";
    } else {
      printer << separator;
    }
    printer << setting.name() << " = ";
    printValue(setting.get(getValue()), printer);
    separator = ", ";
  }
  leave();
  printer << "}>";
}

namespace {

/// Parses a strategy, and reports all wrong values in it, not only the first.
class StrategyParser {
public:
  explicit StrategyParser(AsmParser &parser) : parser(parser) {}
  Attribute parse();

private:
  using Delimiter = AsmParser::Delimiter;
  ParseResult parseEntry(StringRef section);
  ParseResult parseSetting(size_t index, SMLoc place);
  FailureOr<SettingValue> parseValue(const SettingValue &like);
  ParseResult failUnknown(SMLoc place, const std::string &path);
  bool isGiven(StringRef key) const;

  AsmParser &parser;
  Strategy strategy;
  llvm::APInt written = llvm::APInt::getZero(config::allSettings().size());
  bool isWrong = false;
};

} // namespace

FailureOr<SettingValue> StrategyParser::parseValue(const SettingValue &like) {
  auto parsed = [&](auto value, auto parse) -> FailureOr<SettingValue> {
    if (failed(parse(value)))
      return failure();
    return SettingValue(value);
  };
  if (std::holds_alternative<int64_t>(like))
    return parsed(int64_t(0),
                  [&](auto &value) { return parser.parseInteger(value); });
  if (std::holds_alternative<double>(like)) {
    FloatAttr number;
    if (parser.parseAttribute(number, parser.getBuilder().getF64Type()))
      return failure();
    return SettingValue(number.getValueAsDouble());
  }
  if (std::holds_alternative<bool>(like)) {
    SMLoc place = parser.getCurrentLocation();
    StringRef word;
    if (parser.parseKeyword(&word))
      return failure();
    if (word != "true" && word != "false")
      return parser.emitError(place, "expected true or false");
    return SettingValue(word == "true");
  }
  auto parseText = [&](std::string &text) {
    return parser.parseKeywordOrString(&text);
  };
  if (std::holds_alternative<std::string>(like))
    return parsed(std::string(), parseText);
  std::vector<std::string> items;
  auto parseItem = [&] { return parseText(items.emplace_back()); };
  if (parser.parseCommaSeparatedList(Delimiter::Square, parseItem))
    return failure();
  return SettingValue(items);
}

ParseResult StrategyParser::parseSetting(size_t index, SMLoc place) {
  const Setting &setting = config::allSettings()[index];
  SMLoc valuePlace = parser.getCurrentLocation();
  FailureOr<SettingValue> value = parseValue(setting.get(strategy));
  if (failed(value))
    return failure();
  std::string wrong;
  if (written[index])
    wrong = "strategy: " + setting.path + " is given twice";
  else if (!setting.set(strategy, *value))
    wrong = "strategy: " + setting.path + " \"" +
            std::get<std::string>(*value) + "\" is not " +
            setting.range.describe();
  else
    wrong = checkRange(setting, strategy);
  written.setBit(index);
  if (wrong.empty())
    return success();
  // Continue with the setting's default, so that errors in other settings are
  // reported, too.
  isWrong = true;
  (void)parser.emitError(valuePlace, wrong);
  setting.set(strategy, setting.get(Strategy()));
  return success();
}

ParseResult StrategyParser::failUnknown(SMLoc place, const std::string &path) {
  std::string near;
  std::vector<std::string> known;
  for (const Setting &setting : config::allSettings()) {
    known.push_back(setting.path);
    known.push_back(setting.section());
    if (setting.key == path || setting.name() == path)
      near = setting.path;
  }
  if (near.empty())
    near = closestMatch(path, known);
  return parser.emitError(place, "strategy: there is no setting ")
         << path << (near.empty() ? "" : "; did you mean " + near + "?");
}

ParseResult StrategyParser::parseEntry(StringRef section) {
  SMLoc place = parser.getCurrentLocation();
  StringRef name;
  if (parser.parseKeyword(&name) || parser.parseEqual())
    return failure();
  std::string path =
      section.empty() ? name.str() : (section + "." + name).str();
  bool isSection = false;
  for (auto [i, setting] : llvm::enumerate(config::allSettings())) {
    if (setting.path == path)
      return parseSetting(i, place);
    isSection |= section.empty() && setting.section() == name;
  }
  if (!isSection)
    return failUnknown(place, path);
  return parser.parseCommaSeparatedList(Delimiter::Braces,
                                        [&] { return parseEntry(name); });
}

bool StrategyParser::isGiven(StringRef key) const {
  for (auto [i, setting] : llvm::enumerate(config::allSettings()))
    if (setting.key == key)
      return written[i];
  return false;
}

Attribute StrategyParser::parse() {
  SMLoc place = parser.getCurrentLocation();
  if (parser.parseLess() ||
      parser.parseCommaSeparatedList(Delimiter::Braces,
                                     [&] { return parseEntry(""); }) ||
      parser.parseGreater() || isWrong)
    return {};
  config::completeBatch(strategy,
                        [&](const char *key) { return isGiven(key); });
  return StrategyAttr::getChecked([&] { return parser.emitError(place); },
                                  parser.getContext(), strategy, written);
}

Attribute StrategyAttr::parse(AsmParser &parser, Type) {
  return StrategyParser(parser).parse();
}
