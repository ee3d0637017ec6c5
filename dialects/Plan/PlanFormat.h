//===- PlanFormat.h - The plan dialect in the plan format's terms -*- C++ -*-=//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_PLAN_PLANFORMAT_H
#define HEDDLE_DIALECTS_PLAN_PLANFORMAT_H

#include "dialects/Plan/PlanDialect.h"
#include "heddle/PlanFormat/Plan.h"

namespace heddle::planir {

/// The kind of a program, and what a port means, as a plan has it.
plan::ProgramKind kindOf(nn::ProgramKind kind);
plan::PortRole roleOf(nn::PortRole role);
plan::Objective objectiveOf(nn::Objective objective);
plan::StateRole roleOf(nn::StateRole role);
/// What the state is to its model; nothing where it does not say.
std::optional<nn::StateRole> roleOf(StateOp state);
/// How a state gets its first value; null: zeros.
plan::Init initOf(nn::InitAttr init);

/// A kind of memory and a stream, as a plan has them.
plan::MemoryKind memoryOf(MemoryKind kind);
plan::Stream streamOf(Stream stream);

/// The bytes of each file of a rank.
plan::PerFile<int64_t> fileBytesOf(ProgramOp program);

/// The plan's name of an element type.
plan::DType dtypeOf(mlir::Type element);

/// The orders of inputs that weights must have, of what a module says of them.
std::map<std::string, std::string> ordersOf(mlir::DictionaryAttr weights);

/// The strings of an array of them, such as the names of axes.
std::vector<std::string> namesOf(mlir::ArrayAttr names);

/// What a collective does, without its buffers.
plan::Collective collectiveOf(CollectiveOp op);

} // namespace heddle::planir

#endif // HEDDLE_DIALECTS_PLAN_PLANFORMAT_H
