//===- Names.h - Names of enumerators ---------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Names of enumerators, in one table next to the enumeration. Plans, messages
// and tools use them. In JSON a value of such an enumeration is its name.
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

/// The names of an enumeration's values, in the order of the declaration. An
/// enumeration that appears in plans specializes this as a std::array.
template <typename Enum> inline constexpr std::nullptr_t enumNames = nullptr;

template <typename Enum>
inline constexpr bool hasNames =
    !std::is_null_pointer_v<std::remove_const_t<decltype(enumNames<Enum>)>>;

template <typename Enum> const char *nameOf(Enum value) {
  return enumNames<Enum>[static_cast<size_t>(value)];
}

/// The value of the enumeration with this name; nullopt if no value has the
/// name.
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

/// Throws an nlohmann::json::exception whose message has the unknown name.
[[noreturn]] void throwUnknown(const nlohmann::json &source,
                               const std::string &name);

/// Throws nlohmann::json::exception for an unknown name.
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
