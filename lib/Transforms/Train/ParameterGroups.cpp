//===- ParameterGroups.cpp - Which group a parameter is of ----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ParameterGroups.h"
#include "heddle/Transforms/Common/States.h"
#include "llvm/Support/Regex.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::train;

ParameterGroups::ParameterGroups(nn::ModelOp model) : model(model) {
  for (const std::string &text : model.getStrategy().getValue().group) {
    std::string wrong;
    if (auto group = config::parseGroup(text, wrong))
      groups.push_back(*group);
  }
}

bool ParameterGroups::matches(size_t number, nn::StateOp parameter) const {
  llvm::Regex regex(groups[number].pattern);
  return isNamed(parameter, [&](StringRef name) { return regex.match(name); });
}

std::optional<size_t> ParameterGroups::of(nn::StateOp parameter) const {
  for (size_t number = 0; number < groups.size(); ++number)
    if (matches(number, parameter))
      return number;
  return std::nullopt;
}

LogicalResult ParameterGroups::verify() {
  auto help = [](InFlightDiagnostic error, const Twine &text) {
    error.attachNote() << "help: " << text;
    return error;
  };
  for (const std::string &text : model.getStrategy().getValue().group) {
    std::string wrong;
    if (!config::parseGroup(text, wrong))
      return help(model.emitError("H0140: the group \"")
                      << text << "\" cannot be read: " << wrong,
                  "as in --group 'bias:lr=0.1,weight_decay=0', or --group "
                  "'wte:frozen'");
  }
  SmallVector<nn::StateOp> parameters;
  for (auto state : model.getOps<nn::StateOp>())
    if (state.getRole() == nn::StateRole::Parameter)
      parameters.push_back(state);
  for (auto [number, group] : llvm::enumerate(groups)) {
    std::string wrong;
    if (!llvm::Regex(group.pattern).isValid(wrong))
      return help(model.emitError("H0141: the pattern \"")
                      << group.pattern
                      << "\" is no regular expression: " << wrong,
                  "write a point or a bracket that means itself as \\. or \\[");
    if (llvm::none_of(parameters, [&, number = number](nn::StateOp parameter) {
          return matches(number, parameter);
        }))
      return help(model.emitError("H0142: the pattern \"")
                      << group.pattern << "\" matches no parameter",
                  Twine("take a part of a name such as ") +
                      (parameters.empty() ? StringRef()
                                          : parameters.front().getSymName()));
  }
  return success();
}
