//===- Names.h - Enumerations by name ---------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Plans, messages and tools call the values of an enumeration by the same
// names. They stand in one table, beside the enumeration.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PLANFORMAT_NAMES_H
#define HEDDLE_PLANFORMAT_NAMES_H

#include <array>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <type_traits>

namespace heddle::plan {

/// The names of an enumeration's values, in the order of its declaration. An
/// enumeration that stands in plans specializes it as a std::array.
template <typename Enum> inline constexpr std::nullptr_t enumNames = nullptr;

template <typename Enum>
inline constexpr bool hasNames =
    !std::is_null_pointer_v<std::remove_const_t<decltype(enumNames<Enum>)>>;

template <typename Enum> const char *nameOf(Enum value) {
  return enumNames<Enum>[static_cast<size_t>(value)];
}

/// The value of that name; nothing where there is none.
template <typename Enum>
std::optional<Enum> parseName(const std::string &name) {
  for (size_t i = 0; i < enumNames<Enum>.size(); ++i)
    if (name == enumNames<Enum>[i])
      return static_cast<Enum>(i);
  return std::nullopt;
}

template <typename Enum, std::enable_if_t<hasNames<Enum>, int> = 0>
void to_json(nlohmann::json &target, const Enum &value) {
  target = nameOf(value);
}

/// Throws an nlohmann::json::exception that names it.
[[noreturn]] void throwUnknown(const nlohmann::json &source,
                               const std::string &name);

/// Throws nlohmann::json::exception when there is no such name.
template <typename Enum, std::enable_if_t<hasNames<Enum>, int> = 0>
void from_json(const nlohmann::json &source, Enum &value) {
  const auto &text = source.get_ref<const std::string &>();
  std::optional<Enum> known = parseName<Enum>(text);
  if (!known)
    throwUnknown(source, text);
  value = *known;
}

} // namespace heddle::plan

#endif // HEDDLE_PLANFORMAT_NAMES_H
