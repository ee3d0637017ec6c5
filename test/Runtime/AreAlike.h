//===- AreAlike.h - Declarations of our own against others' -----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_RUNTIME_AREALIKE_H
#define HEDDLE_TEST_RUNTIME_AREALIKE_H

#include <cstdint>
#include <type_traits>

/// Whether a value of one type is passed as one of the other.
template <class A, class B> constexpr bool isAlike() {
  using X = std::remove_cv_t<A>;
  using Y = std::remove_cv_t<B>;
  if constexpr (std::is_const_v<A> != std::is_const_v<B>)
    return false;
  else if constexpr (std::is_same_v<X, Y>)
    return true;
  else if constexpr (std::is_pointer_v<X> && std::is_pointer_v<Y>)
    return isAlike<std::remove_pointer_t<X>, std::remove_pointer_t<Y>>();
  else if constexpr (std::is_enum_v<X> && std::is_enum_v<Y>)
    return sizeof(X) == sizeof(Y);
  else if constexpr (std::is_integral_v<X> && std::is_integral_v<Y>)
    return sizeof(X) == sizeof(Y) && std::is_signed_v<X> == std::is_signed_v<Y>;
  else
    return std::is_class_v<X> && std::is_class_v<Y>;
}

template <class A, class B> struct AreAlike : std::false_type {};
template <class A, class... As, class B, class... Bs>
struct AreAlike<A (*)(As...), B (*)(Bs...)> {
  static constexpr bool compare() {
    if constexpr (sizeof...(As) != sizeof...(Bs))
      return false;
    else
      return isAlike<A, B>() && (isAlike<As, Bs>() && ...);
  }
  static constexpr bool value = compare();
};

static_assert(isAlike<int **, int **>() && !isAlike<int *, unsigned *>());
static_assert(!isAlike<const char *, char *>() && !isAlike<int, int64_t>());
static_assert(!AreAlike<int (*)(int), int (*)(int, int)>::value);

#endif // HEDDLE_TEST_RUNTIME_AREALIKE_H
