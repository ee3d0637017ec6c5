//===- FloatTest.cpp - Floats in the PTX machine --------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PtxRun.h"
#include "test/Runtime/Variable.h"
#include "gtest/gtest.h"

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <map>
#include <set>

using namespace heddle::test;

namespace {
const std::pair<const char *, int> roundings[] = {{".rn", FE_TONEAREST},
                                                  {".rz", FE_TOWARDZERO},
                                                  {".rm", FE_DOWNWARD},
                                                  {".rp", FE_UPWARD}};

/// f(a, b, c) in a rounding mode of the host.
template <class T> T inRounding(int rounding, T (*f)(T, T, T), T a, T b, T c) {
  T (*volatile opaque)(T, T, T) = f;
  int before = std::fegetround();
  std::fesetround(rounding);
  T result = opaque(a, b, c);
  std::fesetround(before);
  return result;
}

template <class T> struct Arithmetic {
  const char *name;
  int operands;
  T (*model)(T, T, T);
};

template <class T> std::vector<Arithmetic<T>> arithmetics() {
  return {{"add", 2, [](T a, T b, T) { return a + b; }},
          {"sub", 2, [](T a, T b, T) { return a - b; }},
          {"mul", 2, [](T a, T b, T) { return a * b; }},
          {"div", 2, [](T a, T b, T) { return a / b; }},
          {"fma", 3, [](T a, T b, T c) { return std::fma(a, b, c); }},
          {"rcp", 1, [](T a, T, T) { return 1 / a; }},
          {"sqrt", 1, [](T a, T, T) { return std::sqrt(a); }}};
}

template <class T> T valueOf(uint64_t bits) {
  return sizeof(T) == 4 ? T(asFloat(bits)) : T(asDouble(bits));
}

template <class T> bool isSame(uint64_t bits, T expected) {
  T value = valueOf<T>(bits);
  if (expected != expected)
    return sizeof(T) == 4 ? bits == 0x7fffffff : value != value;
  return bits == bitsOf(expected);
}

template <class T> T flushed(T value) {
  return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(T(0), value)
                                                : value;
}

template <class T> void checkArithmetic() {
  constexpr int width = 8 * sizeof(T);
  for (const Arithmetic<T> &form : arithmetics<T>())
    for (auto [suffix, rounding] : roundings)
      for (const char *mode : {"", ".ftz", ".sat"}) {
        if (*mode && (width == 64 || !strchr("amsf", form.name[0]) ||
                      !strcmp(form.name, "sqrt")))
          continue;
        std::string name = form.name + std::string(suffix) + mode + ".f" +
                           std::to_string(width);
        SCOPED_TRACE(name);
        std::vector<std::vector<uint64_t>> edges(form.operands,
                                                 floatEdges(width));
        auto operands = tuples(edges, 3000);
        std::string code = name + " %d, %a";
        code += form.operands > 1 ? ", %b" : "";
        code += form.operands > 2 ? ", %c;" : ";";
        auto results =
            apply(code, std::vector<int>(form.operands + 1, width), operands);
        bool flushes = !strcmp(mode, ".ftz");
        for (size_t i = 0; i < operands.size(); ++i) {
          T v[3] = {};
          for (int j = 0; j < form.operands; ++j)
            v[j] = flushes ? flushed(valueOf<T>(operands[i][j]))
                           : valueOf<T>(operands[i][j]);
          T expected = inRounding(rounding, form.model, v[0], v[1], v[2]);
          if (flushes)
            expected = flushed(expected);
          if (!strcmp(mode, ".sat"))
            expected = expected > 0 ? std::min(expected, T(1)) : T(0);
          ASSERT_TRUE(isSame(results[i], expected))
              << v[0] << ", " << v[1] << ", " << v[2] << " gives "
              << valueOf<T>(results[i]) << ", not " << expected;
        }
      }
}

TEST(PtxFloat, ArithmeticOfF32) { checkArithmetic<float>(); }
TEST(PtxFloat, ArithmeticOfF64) { checkArithmetic<double>(); }

TEST(PtxFloat, MinimumAndSign) {
  auto operands = tuples({floatEdges(32), floatEdges(32)});
  auto least = apply("min.f32 %d, %a, %b;", {32, 32, 32}, operands);
  auto most = apply("max.f32 %d, %a, %b;", {32, 32, 32}, operands);
  auto strict = apply("max.NaN.f32 %d, %a, %b;", {32, 32, 32}, operands);
  auto copied = apply("copysign.f32 %d, %a, %b;", {32, 32, 32}, operands);
  auto negated = apply("neg.f32 %d, %a;", {32, 32, 32}, operands);
  auto absolute = apply("abs.f32 %d, %a;", {32, 32, 32}, operands);
  for (size_t i = 0; i < operands.size(); ++i) {
    float a = asFloat(operands[i][0]), b = asFloat(operands[i][1]);
    // -0 is smaller than 0.
    bool less = a < b || (a == b && std::signbit(a) && !std::signbit(b));
    bool nan = a != a || b != b;
    float low = a != a ? b : b != b ? a : less ? a : b;
    float high = a != a ? b : b != b ? a : less ? b : a;
    EXPECT_TRUE(isSame(least[i], low)) << a << " " << b;
    EXPECT_TRUE(isSame(most[i], high)) << a << " " << b;
    EXPECT_TRUE(isSame(strict[i], nan ? NAN : high)) << a << " " << b;
    EXPECT_EQ(copied[i],
              (operands[i][0] & 0x80000000) | (operands[i][1] & 0x7fffffff));
    EXPECT_EQ(negated[i], operands[i][0] ^ 0x80000000);
    EXPECT_EQ(absolute[i], operands[i][0] & 0x7fffffff);
  }
}

TEST(PtxFloat, Comparisons) {
  auto operands = tuples({floatEdges(32), floatEdges(32)});
  using Model = bool (*)(float, float);
  const std::pair<const char *, Model> forms[] = {
      {"eq", [](float a, float b) { return a == b; }},
      {"ne", [](float a, float b) { return std::islessgreater(a, b) != 0; }},
      {"lt", [](float a, float b) { return a < b; }},
      {"le", [](float a, float b) { return a <= b; }},
      {"gt", [](float a, float b) { return a > b; }},
      {"ge", [](float a, float b) { return a >= b; }},
      {"equ",
       [](float a, float b) { return a == b || std::isunordered(a, b); }},
      {"neu", [](float a, float b) { return a != b; }},
      {"ltu", [](float a, float b) { return a < b || std::isunordered(a, b); }},
      {"leu",
       [](float a, float b) { return a <= b || std::isunordered(a, b); }},
      {"gtu", [](float a, float b) { return a > b || std::isunordered(a, b); }},
      {"geu",
       [](float a, float b) { return a >= b || std::isunordered(a, b); }},
      {"num", [](float a, float b) { return !std::isunordered(a, b); }},
      {"nan", [](float a, float b) { return std::isunordered(a, b) != 0; }}};
  for (auto [name, model] : forms) {
    std::string n = name;
    auto plain = apply("setp." + n + ".f32 %d, %a, %b;", {1, 32, 32}, operands);
    auto second = apply(".reg .pred %q; setp." + n + ".f32 %q|%d, %a, %b;",
                        {1, 32, 32}, operands);
    auto ones =
        apply("set." + n + ".ftz.u32.f32 %d, %a, %b;", {32, 32, 32}, operands);
    for (size_t i = 0; i < operands.size(); ++i) {
      float a = asFloat(operands[i][0]), b = asFloat(operands[i][1]);
      EXPECT_EQ(plain[i], model(a, b)) << name << " " << a << " " << b;
      EXPECT_EQ(second[i], !model(a, b)) << name << " " << a << " " << b;
      EXPECT_EQ(ones[i], model(flushed(a), flushed(b)) ? 0xffffffff : 0);
    }
  }
}

TEST(PtxFloat, IntegerComparisonsAndChoices) {
  auto operands = tuples({integerEdges(32), integerEdges(32), {0, 1}});
  auto less =
      apply("setp.lt.and.s32 %d, %a, %b, %c;", {1, 32, 32, 1}, operands);
  auto higher =
      apply("setp.hi.xor.u32 %d, %a, %b, !%c;", {1, 32, 32, 1}, operands);
  auto chosen = apply("selp.b32 %d, %a, %b, %c;", {32, 32, 32, 1}, operands);
  auto bySign =
      apply("slct.b32.s32 %d, %a, %b, %b;", {32, 32, 32, 1}, operands);
  for (size_t i = 0; i < operands.size(); ++i) {
    uint64_t a = operands[i][0], b = operands[i][1], c = operands[i][2];
    EXPECT_EQ(less[i], (int32_t(a) < int32_t(b)) && c);
    EXPECT_EQ(higher[i], uint64_t((a > b) != !c));
    EXPECT_EQ(chosen[i], c ? a : b);
    EXPECT_EQ(bySign[i], int32_t(b) >= 0 ? a : b);
  }
}

//===----------------------------------------------------------------------===//
// 16-bit floats: compared with all values
//===----------------------------------------------------------------------===//

struct Format {
  const char *name;
  int mantissa, bias;

  double value(uint64_t bits) const {
    int exponents = 15 - mantissa,
        e = bits >> mantissa & ((1 << exponents) - 1);
    double fraction = bits & ((1 << mantissa) - 1);
    double sign = bits & 0x8000 ? -1 : 1;
    if (e == (1 << exponents) - 1)
      return fraction ? NAN : sign * INFINITY;
    return e ? sign *
                   std::ldexp(fraction + (1 << mantissa), e - bias - mantissa)
             : sign * std::ldexp(fraction, 1 - bias - mantissa);
  }
  /// The bits of the value nearest to an exact number, ties to even.
  uint64_t nearest(__float128 exact) const {
    static std::map<int, std::vector<double>> tables;
    std::vector<double> &table = tables[mantissa];
    if (table.empty()) {
      for (uint64_t bits = 0; !std::isinf(value(bits)); ++bits)
        table.push_back(value(bits));
      // Numbers nearer to this than to the largest value round to infinity.
      table.push_back(2 * table.back() - table[table.size() - 2]);
    }
    bool negative = exact < 0;
    __float128 size = negative ? -exact : exact;
    auto above = std::lower_bound(
        table.begin(), table.end(), size,
        [](double a, __float128 b) { return __float128(a) < b; });
    size_t at = above - table.begin();
    if (at == table.size())
      --at;
    else if (at > 0 && __float128(table[at]) != size) {
      __float128 up = table[at] - size, down = size - table[at - 1];
      if (down < up || (down == up && at % 2 == 1))
        --at;
    }
    return at | (negative ? 0x8000 : 0);
  }
};
const Format formats[] = {{"f16", 10, 15}, {"bf16", 7, 127}};

std::vector<uint64_t> narrowEdges(const Format &format) {
  std::vector<uint64_t> values;
  uint64_t infinity = 0x7fff >> format.mantissa << format.mantissa;
  uint64_t one = uint64_t(format.bias) << format.mantissa;
  for (uint64_t bits : {uint64_t(0), uint64_t(1), uint64_t(3), infinity - 1,
                        infinity, uint64_t(0x7fff), one, one + 1, one + 2,
                        one - 1, one / 2 + 77, one + 5 * 64 + 3, one - 200})
    for (uint64_t sign : {0, 0x8000})
      values.push_back(bits | sign);
  return values;
}

/// Compares results with the values nearest to the exact ones.
void checkNarrow(
    const Format &format, const std::string &code, int operands,
    const std::function<__float128(__float128, __float128, __float128)> &model,
    const std::function<double(double, double, double)> &special) {
  SCOPED_TRACE(code);
  std::vector<std::vector<uint64_t>> edges(operands, narrowEdges(format));
  auto tuplesOf = tuples(edges, 6000);
  auto results = apply(code, std::vector<int>(operands + 1, 16), tuplesOf);
  for (size_t i = 0; i < tuplesOf.size(); ++i) {
    double v[3] = {};
    for (int j = 0; j < operands; ++j)
      v[j] = format.value(tuplesOf[i][j]);
    double wide = special(v[0], v[1], v[2]);
    if (wide != wide) {
      EXPECT_EQ(results[i], 0x7fffu);
      continue;
    }
    bool isExact =
        std::isfinite(v[0]) && std::isfinite(v[1]) && std::isfinite(v[2]);
    uint64_t expected = !isExact
                            ? (0x7fff >> format.mantissa << format.mantissa) |
                                  (wide < 0 ? 0x8000 : 0)
                            : format.nearest(model(v[0], v[1], v[2]));
    // The sign of a zero is that of the result in f64.
    if ((expected & 0x7fff) == 0 && model(v[0], v[1], v[2]) == 0)
      expected = std::signbit(wide) ? 0x8000 : 0;
    ASSERT_EQ(results[i], expected) << v[0] << ", " << v[1] << ", " << v[2];
  }
}

TEST(PtxNarrow, Arithmetic) {
  for (const Format &format : formats) {
    std::string type = std::string(".") + format.name + " %d, %a, %b";
    checkNarrow(
        format, "add" + type + ";", 2,
        [](__float128 a, __float128 b, __float128) { return a + b; },
        [](double a, double b, double) { return a + b; });
    checkNarrow(
        format, "sub.rn" + type + ";", 2,
        [](__float128 a, __float128 b, __float128) { return a - b; },
        [](double a, double b, double) { return a - b; });
    checkNarrow(
        format, "mul" + type + ";", 2,
        [](__float128 a, __float128 b, __float128) { return a * b; },
        [](double a, double b, double) { return a * b; });
    // __float128 has 113 bits, which hold these sums of products exactly,
    // except for the widest of bf16.
    checkNarrow(
        format, "fma.rn" + type + ", %c;", 3,
        [](__float128 a, __float128 b, __float128 c) { return a * b + c; },
        [](double a, double b, double c) { return std::fma(a, b, c); });
  }
}

TEST(PtxNarrow, PairsAreTwoNumbers) {
  auto operands = tuples({integerEdges(32), integerEdges(32)});
  for (const Format &format : formats) {
    std::string n = format.name;
    auto pairs = apply("add." + n + "x2 %d, %a, %b;", {32, 32, 32}, operands);
    auto apart = apply(".reg .b16 %w, %x, %y, %z; mov.b32 {%w, %x}, %a; "
                       "mov.b32 {%y, %z}, %b; add." +
                           n + " %w, %w, %y; add." + n +
                           " %x, %x, %z; mov.b32 %d, {%w, %x};",
                       {32, 32, 32}, operands);
    EXPECT_EQ(pairs, apart);
  }
}

//===----------------------------------------------------------------------===//
// Conversions
//===----------------------------------------------------------------------===//

TEST(PtxConvert, ToNarrow) {
  auto operands = tuples({floatEdges(32)});
  for (const Format &format : formats) {
    auto nearest = apply("cvt.rn." + std::string(format.name) + ".f32 %d, %a;",
                         {16, 32}, operands);
    auto toZero = apply("cvt.rz." + std::string(format.name) + ".f32 %d, %a;",
                        {16, 32}, operands);
    auto back = apply("cvt.f32." + std::string(format.name) + " %d, %a;",
                      {32, 16}, tuples({nearest}));
    for (size_t i = 0; i < operands.size(); ++i) {
      float a = asFloat(operands[i][0]);
      if (a != a) {
        EXPECT_EQ(nearest[i], 0x7fffu);
        EXPECT_EQ(back[i], 0x7fffffffu);
        continue;
      }
      uint64_t infinity = 0x7fff >> format.mantissa << format.mantissa;
      uint64_t expected =
          std::isinf(a) ? infinity | (a < 0 ? 0x8000 : 0) : format.nearest(a);
      if (a == 0 || (expected & 0x7fff) == 0)
        expected = std::signbit(a) ? 0x8000 : 0;
      EXPECT_EQ(nearest[i], expected) << a;
      EXPECT_EQ(back[i], bitsOf(static_cast<float>(format.value(nearest[i]))));
      double cut = format.value(toZero[i]), next = format.value(toZero[i] + 1);
      if (std::isfinite(a)) {
        EXPECT_LE(std::fabs(cut), std::fabs(a));
        EXPECT_GT(std::fabs(next), std::fabs(a));
      }
    }
  }
}

TEST(PtxConvert, PairsTakeTheFirstAbove) {
  auto operands = tuples({floatEdges(32), floatEdges(32)}, 400);
  auto pairs = apply("cvt.rn.bf16x2.f32 %d, %a, %b;", {32, 32, 32}, operands);
  auto apart = apply(".reg .b16 %x, %y; cvt.rn.bf16.f32 %x, %a; "
                     "cvt.rn.bf16.f32 %y, %b; mov.b32 %d, {%y, %x};",
                     {32, 32, 32}, operands);
  EXPECT_EQ(pairs, apart);
  auto relu =
      apply("cvt.rn.relu.f16x2.f32 %d, %a, %b;", {32, 32, 32}, operands);
  for (size_t i = 0; i < operands.size(); ++i) {
    float high = asFloat(operands[i][0]);
    if (high <= 0)
      EXPECT_EQ(relu[i] >> 16, 0u);
  }
}

TEST(PtxConvert, FloatsToIntegers) {
  const std::pair<const char *, double (*)(double)> modes[] = {
      {"rni", std::nearbyint},
      {"rzi", std::trunc},
      {"rmi", std::floor},
      {"rpi", std::ceil}};
  for (int from : {32, 64})
    for (int width : {16, 32, 64})
      for (bool isSigned : {false, true})
        for (auto [mode, round] : modes) {
          auto operands = tuples({floatEdges(from)});
          std::string name = std::string("cvt.") + mode +
                             (isSigned ? ".s" : ".u") + std::to_string(width) +
                             ".f" + std::to_string(from);
          SCOPED_TRACE(name);
          auto results = apply(name + " %d, %a;", {width, from}, operands);
          __int128 one = 1, least = isSigned ? -(one << (width - 1)) : 0;
          __int128 most = (one << (isSigned ? width - 1 : width)) - 1;
          for (size_t i = 0; i < operands.size(); ++i) {
            double a =
                from == 32 ? asFloat(operands[i][0]) : asDouble(operands[i][0]);
            __int128 expected = 0;
            if (a > 1e30)
              expected = most;
            else if (a < -1e30)
              expected = least;
            else if (a == a)
              expected = std::min(
                  std::max(static_cast<__int128>(round(a)), least), most);
            uint64_t mask =
                width == 64 ? ~uint64_t(0) : (uint64_t(1) << width) - 1;
            ASSERT_EQ(results[i], static_cast<uint64_t>(expected) & mask) << a;
          }
        }
}

TEST(PtxConvert, IntegersToFloats) {
  for (int width : {16, 32, 64})
    for (bool isSigned : {false, true})
      for (auto [mode, rounding] : roundings) {
        auto operands = tuples({integerEdges(width)});
        std::string from = (isSigned ? ".s" : ".u") + std::to_string(width);
        auto narrow =
            apply("cvt" + std::string(mode) + ".f32" + from + " %d, %a;",
                  {32, width}, operands);
        auto wide =
            apply("cvt" + std::string(mode) + ".f64" + from + " %d, %a;",
                  {64, width}, operands);
        for (size_t i = 0; i < operands.size(); ++i) {
          uint64_t a = operands[i][0];
          int unused = 64 - width;
          int64_t s = static_cast<int64_t>(a << unused) >> unused;
          int before = std::fegetround();
          std::fesetround(rounding);
          volatile uint64_t u = a;
          volatile int64_t v = s;
          volatile float f = isSigned ? float(v) : float(u);
          volatile double d = isSigned ? double(v) : double(u);
          std::fesetround(before);
          EXPECT_EQ(narrow[i], bitsOf(float(f))) << mode << from << " " << a;
          // The host's compiler may compute a zero by a subtraction, whose sign
          // depends on the rounding mode.
          EXPECT_EQ(wide[i], a ? bitsOf(double(d)) : 0)
              << mode << from << " " << a;
        }
      }
}

TEST(PtxConvert, Integers) {
  for (int from : {8, 16, 32, 64})
    for (int to : {8, 16, 32, 64})
      for (bool isSigned : {false, true})
        for (bool saturates : {false, true}) {
          auto operands = tuples({integerEdges(std::max(from, 16))});
          std::string sign = isSigned ? ".s" : ".u";
          std::string name = std::string("cvt") + (saturates ? ".sat" : "") +
                             ".s" + std::to_string(to) + sign +
                             std::to_string(from);
          SCOPED_TRACE(name);
          int register_ = std::max(to, 16);
          auto results = apply(name + " %d, %a;",
                               {register_, std::max(from, 16)}, operands);
          for (size_t i = 0; i < operands.size(); ++i) {
            uint64_t bits = operands[i][0] << (64 - from);
            __int128 a = isSigned ? __int128(int64_t(bits) >> (64 - from))
                                  : __int128(bits >> (64 - from));
            __int128 most = (__int128(1) << (to - 1)) - 1;
            if (saturates)
              a = std::min(std::max(a, -most - 1), most);
            // Signed: bits above the type are its sign.
            uint64_t low = static_cast<uint64_t>(a) << (64 - to);
            uint64_t expected =
                static_cast<uint64_t>(int64_t(low) >> (64 - to));
            if (register_ < 64)
              expected &= (uint64_t(1) << register_) - 1;
            ASSERT_EQ(results[i], expected);
          }
        }
}

TEST(PtxConvert, RoundedFloats) {
  auto operands = tuples({floatEdges(64)});
  for (auto [mode, rounding] : roundings) {
    auto results = apply("cvt" + std::string(mode) + ".f32.f64 %d, %a;",
                         {32, 64}, operands);
    for (size_t i = 0; i < operands.size(); ++i) {
      int before = std::fegetround();
      std::fesetround(rounding);
      volatile double a = asDouble(operands[i][0]);
      volatile float expected = static_cast<float>(a);
      std::fesetround(before);
      EXPECT_TRUE(isSame(results[i], float(expected))) << mode << " " << a;
    }
  }
  auto single = tuples({floatEdges(32)});
  auto floors = apply("cvt.rmi.f32.f32 %d, %a;", {32, 32}, single);
  auto tf32 = apply("cvt.rna.tf32.f32 %d, %a;", {32, 32}, single);
  for (size_t i = 0; i < single.size(); ++i) {
    float a = asFloat(single[i][0]);
    EXPECT_TRUE(isSame(floors[i], std::floor(a))) << a;
    if (std::isfinite(a) && std::fabs(a) < 1e38)
      EXPECT_LE(std::fabs(double(asFloat(tf32[i])) - a),
                std::ldexp(std::fabs(double(a)), -11) + 1e-41);
    EXPECT_EQ(a == a ? tf32[i] & 0x1fff : 0, 0u);
  }
}

//===----------------------------------------------------------------------===//
// Approximations
//===----------------------------------------------------------------------===//

TEST(PtxApproximate, StaysWithinItsBoundAndDependsOnTheVariable) {
  struct Form {
    const char *name;
    double (*model)(double);
    double relative, absolute, from, to;
  };
  const Form forms[] = {
      {"ex2.approx.f32", std::exp2, 0x1p-22, 0, -100, 100},
      {"lg2.approx.f32", std::log2, 0x1p-22, 0x1p-22, 0.01, 50},
      {"rcp.approx.f32", [](double x) { return 1 / x; }, 0x1p-23, 0, -90, 90},
      {"rsqrt.approx.f32", [](double x) { return 1 / std::sqrt(x); },
       std::exp2(-22.9), 0, 0.1, 900},
      {"sqrt.approx.f32", std::sqrt, 0x1p-23, 0, 0, 900},
      {"sin.approx.f32", std::sin, 0, std::exp2(-20.5), -3, 3},
      {"cos.approx.f32", std::cos, 0, std::exp2(-20.5), -3, 3},
      {"tanh.approx.f32", std::tanh, 0x1p-11, 0, -5, 5}};
  for (const Form &form : forms) {
    SCOPED_TRACE(form.name);
    std::vector<uint64_t> values;
    for (int i = 0; i < 500; ++i)
      values.push_back(bitsOf(
          static_cast<float>(form.from + (form.to - form.from) * i / 499.7)));
    std::string code = std::string(form.name) + " %d, %a;";
    std::set<std::vector<uint64_t>> different;
    for (const char *number : {"0", "1", "7", "18446744073709551615"}) {
      Variable variable("HEDDLE_EMULATE_APPROX", number);
      Options options = Options::fromEnvironment();
      auto results = apply(code, {32, 32}, tuples({values}), options);
      EXPECT_EQ(results, apply(code, {32, 32}, tuples({values}), options));
      EXPECT_TRUE(different.insert(results).second) << number;
      for (size_t i = 0; i < values.size(); ++i) {
        double exact = form.model(asFloat(values[i]));
        double bound = form.relative * std::fabs(exact) + form.absolute;
        EXPECT_LE(std::fabs(asFloat(results[i]) - exact), bound) << number;
      }
    }
  }
}

TEST(PtxApproximate, SpecialValuesAreExact) {
  auto one = [](const std::string &code, float a) {
    return asFloat(apply(code, {32, 32}, {{bitsOf(a)}})[0]);
  };
  EXPECT_EQ(one("ex2.approx.f32 %d, %a;", -INFINITY), 0);
  EXPECT_EQ(one("ex2.approx.ftz.f32 %d, %a;", -140.f), 0);
  EXPECT_EQ(one("ex2.approx.f32 %d, %a;", INFINITY), INFINITY);
  EXPECT_EQ(one("lg2.approx.f32 %d, %a;", 0), -INFINITY);
  EXPECT_TRUE(std::isnan(one("lg2.approx.f32 %d, %a;", -1)));
  EXPECT_EQ(one("rcp.approx.ftz.f32 %d, %a;", -0.f), -INFINITY);
  EXPECT_EQ(one("rcp.approx.f32 %d, %a;", INFINITY), 0);
  EXPECT_EQ(one("rsqrt.approx.f32 %d, %a;", 0), INFINITY);
  EXPECT_EQ(one("tanh.approx.f32 %d, %a;", INFINITY), 1);
  auto ratio = [](const std::string &code, float a, float b) {
    return asFloat(apply(code, {32, 32, 32}, {{bitsOf(a), bitsOf(b)}})[0]);
  };
  EXPECT_EQ(ratio("div.approx.f32 %d, %a, %b;", 1, 0x1p127f), 0);
  EXPECT_NEAR(ratio("div.full.f32 %d, %a, %b;", 0x1p120f, 0x1p127f), 0x1p-7,
              0x1p-28);
  EXPECT_NEAR(ratio("div.approx.f32 %d, %a, %b;", 1, 3), 1 / 3., 0x1p-24);
}

} // namespace
