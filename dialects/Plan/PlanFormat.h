//===- PlanFormat.h - From the plan dialect to the plan format --*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Converts attributes of the dialects to the enumerations and structs of the
// plan format.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_PLAN_PLANFORMAT_H
#define HEDDLE_DIALECTS_PLAN_PLANFORMAT_H

#include "dialects/Plan/PlanDialect.h"
#include "heddle/PlanFormat/Plan.h"

namespace heddle::planir {

/// The plan's enumerators for the kind of a program, the role of an input or
/// output (port), the training objective, and the role of a state.
plan::ProgramKind kindOf(nn::ProgramKind kind);
plan::PortRole roleOf(nn::PortRole role);
plan::Objective objectiveOf(nn::Objective objective);
plan::StateRole roleOf(nn::StateRole role);
/// The role of a state, such as parameter or gradient; nullopt if the operation
/// has no role.
std::optional<nn::StateRole> roleOf(StateOp state);
/// The initial value of a state. A null attribute means zeros.
plan::Init initOf(nn::InitAttr init);

/// Returns the plan's enumerator for a kind of memory or for a stream.
plan::MemoryKind memoryOf(MemoryKind kind);
plan::Stream streamOf(Stream stream);

/// The size in bytes of each offload file of a rank.
plan::PerFile<int64_t> fileBytesOf(ProgramOp program);

/// The plan's element type.
plan::DType dtypeOf(mlir::Type element);

/// Reads the entry `orders` of a module's attribute `weights`: the permutations
/// of input features (GPTQ's g_idx) that the plan assumes, and that the runtime
/// checks. See plan::Weights::orders for the keys and values.
std::map<std::string, std::string> ordersOf(mlir::DictionaryAttr weights);
/// The layouts of attention in the attribute `weights` of a model.
std::vector<plan::LayoutUse> layoutsOf(mlir::DictionaryAttr weights);

/// Reads the entry `extended` of a module's attribute `weights`: the table of
/// positions that loading extends.
plan::ExtendedTable extendedOf(mlir::DictionaryAttr weights);

/// The strings of an array, such as the names of axes.
std::vector<std::string> namesOf(mlir::ArrayAttr names);

/// The plan's form of a collective, without its buffers.
plan::Collective collectiveOf(CollectiveOp op);

} // namespace heddle::planir

#endif // HEDDLE_DIALECTS_PLAN_PLANFORMAT_H
