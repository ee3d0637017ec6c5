//===- Commands.h - Commands written by hand --------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_RUNTIME_COMMANDS_H
#define HEDDLE_TEST_RUNTIME_COMMANDS_H

#include "heddle/PlanFormat/Command.h"

namespace heddle::test {

inline plan::Command launch(int64_t kernel, std::vector<plan::Ref> refs,
                            std::vector<plan::Scalar> scalars = {}) {
  return {plan::command::Launch{{std::move(refs), std::move(scalars)}, kernel}};
}

inline plan::Command call(int64_t sequence, std::vector<plan::Ref> refs = {},
                          std::vector<plan::Scalar> scalars = {},
                          int64_t frameOffset = 0) {
  return {plan::command::Call{
      {{std::move(refs), std::move(scalars)}, frameOffset}, sequence}};
}

inline plan::Command loop(int64_t sequence, int64_t count,
                          std::vector<plan::Ref> refs = {},
                          std::vector<plan::Scalar> scalars = {},
                          int64_t frameOffset = 0) {
  return {plan::command::Loop{
      {{std::move(refs), std::move(scalars)}, frameOffset}, sequence, count}};
}

/// Runs `fragments` in this order, which has their numbers and micro-batches.
inline plan::Command fragments(std::vector<plan::ScheduledFragment> order,
                               std::vector<plan::Fragment> fragments,
                               std::vector<plan::Ref> refs = {}) {
  return {plan::command::Fragments{
      {{std::move(refs), {}}, 0}, std::move(fragments), std::move(order)}};
}

inline plan::Command copy(const plan::Ref &target, const plan::Ref &source) {
  return {plan::command::Copy{target, source}};
}

inline plan::Command copyRows(const plan::Ref &target, const plan::Ref &source,
                              const plan::Ref &ids, int64_t rowBytes,
                              std::optional<plan::Scalar> first = {}) {
  return {
      plan::command::CopyRows{target, source, ids, rowBytes, std::move(first)}};
}

inline plan::Command fill(const plan::Ref &target) {
  return {plan::command::Fill{target}};
}

inline plan::Command collective(plan::CollectiveKind kind,
                                std::vector<std::string> axes,
                                const plan::Ref &target,
                                const plan::Ref &source,
                                const plan::Ref &staging = {}) {
  plan::command::Collective start{{}, target, source, staging};
  start.collective.kind = kind;
  start.collective.axes = std::move(axes);
  return {std::move(start)};
}

/// With a number its point is left to the next run.
inline plan::Command record(int64_t carried = -1) {
  return {plan::command::Record{carried}};
}

inline plan::Command settle(int64_t number) {
  return {plan::command::Settle{number}};
}

inline plan::Command waitFor(int64_t command) {
  return {plan::command::Wait{command}};
}

inline plan::Command send(int64_t delta, const plan::Ref &data) {
  return {plan::command::Send{{"pipe", delta, "F"}, data}};
}

inline plan::Command receive(int64_t delta, const plan::Ref &data) {
  return {plan::command::Receive{{"pipe", delta, "F"}, data}};
}

inline plan::Command flush(int64_t left) {
  return {plan::command::Flush{"F", left}};
}

/// An operand of so many bytes.
inline plan::Ref bytes(int64_t count) {
  plan::Ref ref;
  ref.bytes = count;
  return ref;
}

} // namespace heddle::test

#endif // HEDDLE_TEST_RUNTIME_COMMANDS_H
