//===- PlanFormat.cpp - From the plan dialect to the plan format ----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Plan/PlanFormat.h"

using namespace mlir;
using namespace heddle;

plan::DType heddle::planir::dtypeOf(Type element) {
  if (element.isF64())
    return plan::DType::F64;
  if (element.isF32())
    return plan::DType::F32;
  if (element.isBF16())
    return plan::DType::BF16;
  if (element.isF16())
    return plan::DType::F16;
  if (element.isInteger(8))
    return plan::DType::U8;
  if (element.isInteger(32))
    return plan::DType::I32;
  if (element.isInteger(64))
    return plan::DType::I64;
  llvm::report_fatal_error("no type of the plan format");
}

plan::ProgramKind heddle::planir::kindOf(nn::ProgramKind kind) {
  return *plan::parseName<plan::ProgramKind>(stringifyProgramKind(kind).str());
}

plan::PortRole heddle::planir::roleOf(nn::PortRole role) {
  return *plan::parseName<plan::PortRole>(stringifyPortRole(role).str());
}

plan::Objective heddle::planir::objectiveOf(nn::Objective objective) {
  return *plan::parseName<plan::Objective>(stringifyObjective(objective).str());
}

plan::StateRole heddle::planir::roleOf(nn::StateRole role) {
  return *plan::parseName<plan::StateRole>(stringifyStateRole(role).str());
}

std::optional<nn::StateRole> heddle::planir::roleOf(StateOp state) {
  auto role = state.getLike().getAs<nn::StateRoleAttr>("role");
  return role ? std::optional(role.getValue()) : std::nullopt;
}

plan::Init heddle::planir::initOf(nn::InitAttr init) {
  if (!init)
    return {};
  return {*plan::parseName<plan::Init::Kind>(
              stringifyInitKind(init.getKind()).str()),
          init.getValue().getValueAsDouble(),
          init.getStddev().getValueAsDouble(), init.getZeroRow()};
}

plan::MemoryKind heddle::planir::memoryOf(MemoryKind kind) {
  return *plan::parseName<plan::MemoryKind>(stringifyMemoryKind(kind).str());
}

plan::Stream heddle::planir::streamOf(Stream stream) {
  return *plan::parseName<plan::Stream>(stringifyStream(stream).str());
}

plan::PerFile<int64_t> heddle::planir::fileBytesOf(ProgramOp program) {
  plan::PerFile<int64_t> bytes;
  if (DictionaryAttr files = program.getFilesAttr())
    for (NamedAttribute file : files)
      bytes[*plan::parseName<plan::FileRole>(file.getName().str())] =
          cast<IntegerAttr>(file.getValue()).getInt();
  return bytes;
}

std::map<std::string, std::string>
heddle::planir::ordersOf(DictionaryAttr weights) {
  std::map<std::string, std::string> orders;
  auto said =
      weights ? weights.getAs<DictionaryAttr>("orders") : DictionaryAttr();
  if (said)
    for (NamedAttribute order : said)
      if (auto like = dyn_cast<StringAttr>(order.getValue()))
        orders[order.getName().str()] = like.str();
  return orders;
}

std::vector<plan::LayoutUse> heddle::planir::layoutsOf(DictionaryAttr weights) {
  std::vector<plan::LayoutUse> uses;
  auto said =
      weights ? weights.getAs<DictionaryAttr>("layouts") : DictionaryAttr();
  if (!said)
    return uses;
  for (NamedAttribute named : said) {
    auto use = dyn_cast<DictionaryAttr>(named.getValue());
    auto block = use ? use.getAs<IntegerAttr>("block") : IntegerAttr();
    auto layers = use ? use.getAs<ArrayAttr>("layers") : ArrayAttr();
    if (block && layers)
      uses.push_back({named.getName().str(), block.getInt(), namesOf(layers)});
  }
  return uses;
}

plan::ExtendedTable heddle::planir::extendedOf(DictionaryAttr weights) {
  plan::ExtendedTable table;
  auto said =
      weights ? weights.getAs<DictionaryAttr>("extended") : DictionaryAttr();
  if (!said)
    return table;
  auto tensor = said.getAs<StringAttr>("tensor");
  auto rows = said.getAs<IntegerAttr>("rows");
  auto first = said.getAs<IntegerAttr>("first");
  auto interpolates = said.getAs<BoolAttr>("interpolates");
  auto sourceRows = said.getAs<IntegerAttr>("source_rows");
  if (!tensor || !rows || !first || !interpolates || !sourceRows)
    return table;
  table.tensor = tensor.str();
  table.rows = rows.getInt();
  table.first = first.getInt();
  table.interpolates = interpolates.getValue();
  table.sourceRows = sourceRows.getInt();
  return table;
}

std::vector<std::string> heddle::planir::namesOf(ArrayAttr names) {
  std::vector<std::string> list;
  for (auto name : names.getAsRange<StringAttr>())
    list.push_back(name.str());
  return list;
}

plan::Collective heddle::planir::collectiveOf(CollectiveOp op) {
  plan::Collective what;
  what.kind = *plan::parseName<plan::CollectiveKind>(
      stringifyCollectiveKind(op.getKind()).str());
  what.axes = namesOf(op.getAxes());
  Type element = cast<MemRefType>(op.getSource().getType()).getElementType();
  what.type = dtypeOf(element);
  what.wire = dtypeOf(op.getWire().value_or(element));
  what.outer = op.getOuter();
  what.splitOuter = op.getSplitOuter().value_or(1);
  if (auto segments = op.getSegments())
    what.segments = segments->vec();
  if (auto segments = op.getSplitSegments())
    what.splitSegments = segments->vec();
  return what;
}
