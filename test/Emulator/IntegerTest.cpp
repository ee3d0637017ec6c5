//===- IntegerTest.cpp - Integer instructions of the PTX machine ----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PtxRun.h"
#include "gtest/gtest.h"

using namespace heddle::test;

namespace {
using Wide = __int128;
using Model = std::function<Wide(Wide, Wide, Wide)>;

/// One form of an instruction on `width` bits, and a model of its result as a
/// whole number. Results are compared modulo their width.
struct Form {
  std::string name;
  int width;
  bool isSigned;
  int operands;
  Model model;
  int resultWidth = 0; ///< 0: the operands' width.
  std::vector<int> operandWidths = {};
};

Wide asNumber(uint64_t bits, int width, bool isSigned) {
  if (!isSigned)
    return bits;
  int unused = 64 - width;
  return static_cast<int64_t>(bits << unused) >> unused;
}

void check(const Form &form) {
  SCOPED_TRACE(form.name);
  std::vector<int> widths = {form.resultWidth ? form.resultWidth : form.width};
  std::string code = form.name + " %d";
  std::vector<std::vector<uint64_t>> edges;
  static const char *const names[] = {", %a", ", %b", ", %c"};
  for (int i = 0; i < form.operands; ++i) {
    int width = form.operandWidths.empty() ? form.width : form.operandWidths[i];
    widths.push_back(width);
    edges.push_back(integerEdges(width));
    code += names[i];
  }
  auto operands = tuples(edges);
  auto results = apply(code + ";", widths, operands);
  uint64_t mask =
      widths[0] == 64 ? ~uint64_t(0) : (uint64_t(1) << widths[0]) - 1;
  for (size_t i = 0; i < operands.size(); ++i) {
    Wide values[3] = {};
    for (int j = 0; j < form.operands; ++j)
      values[j] = asNumber(operands[i][j], widths[j + 1], form.isSigned);
    auto expected =
        static_cast<uint64_t>(form.model(values[0], values[1], values[2])) &
        mask;
    ASSERT_EQ(results[i] & mask, expected)
        << operands[i][0] << ", " << (form.operands > 1 ? operands[i][1] : 0)
        << ", " << (form.operands > 2 ? operands[i][2] : 0);
  }
}

Wide high(Wide product, int width) { return product >> width; }
Wide clampTo32(Wide value) {
  return std::min<Wide>(std::max<Wide>(value, INT32_MIN), INT32_MAX);
}

TEST(PtxInteger, Arithmetic) {
  for (int width : {16, 32, 64})
    for (bool isSigned : {false, true}) {
      std::string type = (isSigned ? ".s" : ".u") + std::to_string(width);
      auto form = [&](const std::string &name, int operands, Model model) {
        check({name + type, width, isSigned, operands, model});
      };
      form("add", 2, [](Wide a, Wide b, Wide) { return a + b; });
      form("sub", 2, [](Wide a, Wide b, Wide) { return a - b; });
      form("mul.lo", 2, [](Wide a, Wide b, Wide) { return a * b; });
      form("mul.hi", 2, [&](Wide a, Wide b, Wide) {
        // The product of two unsigned 64-bit numbers does not fit in Wide.
        return isSigned ? high(a * b, width)
                        : Wide((unsigned __int128)(a)*b >> width);
      });
      form("mad.lo", 3, [](Wide a, Wide b, Wide c) { return a * b + c; });
      form("mad.hi", 3, [&](Wide a, Wide b, Wide c) {
        return (isSigned ? high(a * b, width)
                         : Wide((unsigned __int128)(a)*b >> width)) +
               c;
      });
      form("min", 2, [](Wide a, Wide b, Wide) { return std::min(a, b); });
      form("max", 2, [](Wide a, Wide b, Wide) { return std::max(a, b); });
      form("sad", 3,
           [](Wide a, Wide b, Wide c) { return c + (a < b ? b - a : a - b); });
      form("div", 2, [](Wide a, Wide b, Wide) { return b ? a / b : Wide(-1); });
      form("rem", 2, [](Wide a, Wide b, Wide) { return b ? a % b : a; });
      if (isSigned) {
        form("abs", 1, [](Wide a, Wide, Wide) { return a < 0 ? -a : a; });
        form("neg", 1, [](Wide a, Wide, Wide) { return -a; });
      }
      if (width == 64)
        continue;
      std::vector<int> mixed = {width, width, 2 * width};
      check({"mul.wide" + type, width, isSigned, 2,
             [](Wide a, Wide b, Wide) { return a * b; }, 2 * width});
      check({"mad.wide" + type, width, isSigned, 3,
             [](Wide a, Wide b, Wide c) { return a * b + c; }, 2 * width,
             mixed});
    }
}

TEST(PtxInteger, Saturation) {
  check({"add.sat.s32", 32, true, 2,
         [](Wide a, Wide b, Wide) { return clampTo32(a + b); }});
  check({"sub.sat.s32", 32, true, 2,
         [](Wide a, Wide b, Wide) { return clampTo32(a - b); }});
  check({"mad.hi.sat.s32", 32, true, 3,
         [](Wide a, Wide b, Wide c) { return clampTo32((a * b >> 32) + c); }});
}

TEST(PtxInteger, LowBits) {
  auto low = [](Wide value, bool isSigned) {
    Wide bits = value & 0xffffff;
    return isSigned && (bits & 0x800000) ? bits - 0x1000000 : bits;
  };
  check({"mul24.lo.u32", 32, false, 2,
         [&](Wide a, Wide b, Wide) { return low(a, false) * low(b, false); }});
  check({"mul24.lo.s32", 32, true, 2,
         [&](Wide a, Wide b, Wide) { return low(a, true) * low(b, true); }});
  check({"mad24.lo.s32", 32, true, 3, [&](Wide a, Wide b, Wide c) {
           return low(a, true) * low(b, true) + c;
         }});
}

/// 128-bit arithmetic on pairs of 64 bits, with carries.
TEST(PtxInteger, CarriesGoOn) {
  auto operands =
      tuples({integerEdges(64), integerEdges(64), integerEdges(64)});
  auto sums = apply("add.cc.u64 %d, %a, %b; addc.u64 %d, %c, 0;",
                    {64, 64, 64, 64}, operands);
  auto differences = apply("sub.cc.u64 %d, %a, %b; subc.u64 %d, %c, 0;",
                           {64, 64, 64, 64}, operands);
  auto products = apply("mad.lo.cc.u64 %d, %a, %b, %c; addc.u64 %d, 0, 0;",
                        {64, 64, 64, 64}, operands);
  auto highs = apply("mad.lo.cc.u64 %d, %a, %b, %c; madc.hi.u64 %d, %a, %b, 0;",
                     {64, 64, 64, 64}, operands);
  for (size_t i = 0; i < operands.size(); ++i) {
    uint64_t a = operands[i][0], b = operands[i][1], c = operands[i][2];
    using U = unsigned __int128;
    EXPECT_EQ(sums[i], c + (U(a) + b > ~uint64_t(0)));
    EXPECT_EQ(differences[i], c - (a < b));
    EXPECT_EQ(products[i], uint64_t(a * b) > ~c ? 1u : 0u);
    EXPECT_EQ(highs[i], static_cast<uint64_t>((U(a) * b + c) >> 64));
  }
}

/// Bit `at` of a number.
int bit(Wide value, Wide at) { return at > 127 ? 0 : int(value >> at & 1); }

TEST(PtxBits, LogicAndShifts) {
  for (int width : {16, 32, 64}) {
    std::string b = ".b" + std::to_string(width), s = ".s" + b.substr(2);
    auto form = [&](const std::string &name, int operands, Model model) {
      check({name, width, false, operands, model});
    };
    form("and" + b, 2, [](Wide a, Wide b, Wide) { return a & b; });
    form("or" + b, 2, [](Wide a, Wide b, Wide) { return a | b; });
    form("xor" + b, 2, [](Wide a, Wide b, Wide) { return a ^ b; });
    form("not" + b, 1, [](Wide a, Wide, Wide) { return ~a; });
    form("cnot" + b, 1, [](Wide a, Wide, Wide) { return a == 0; });
    Model left = [](Wide a, Wide by, Wide) { return by > 63 ? 0 : a << by; };
    Model right = [](Wide a, Wide by, Wide) { return by > 63 ? 0 : a >> by; };
    check({"shl" + b, width, false, 2, left, 0, {width, 32}});
    check({"shr" + std::string(".u") + b.substr(2),
           width,
           false,
           2,
           right,
           0,
           {width, 32}});
    // The count is unsigned, but the signed model reads large ones as negative.
    check({"shr" + s,
           width,
           true,
           2,
           [](Wide a, Wide by, Wide) {
             return a >> (by < 0 || by > 63 ? 63 : int(by));
           },
           0,
           {width, 32}});
  }
}

TEST(PtxBits, CountsAndFields) {
  for (int width : {32, 64}) {
    std::string b = ".b" + std::to_string(width), n = b.substr(2);
    check({"popc" + b, width, false, 1,
           [&](Wide a, Wide, Wide) {
             Wide count = 0;
             for (int i = 0; i < width; ++i)
               count += bit(a, i);
             return count;
           },
           32});
    auto top = [&](Wide a, int sign) -> Wide {
      for (int i = width - 1; i >= 0; --i)
        if (bit(a, i) != sign)
          return i;
      return -1;
    };
    check({"clz" + b, width, false, 1,
           [&](Wide a, Wide, Wide) { return width - 1 - top(a, 0); }, 32});
    check({"bfind.u" + n, width, false, 1,
           [&](Wide a, Wide, Wide) { return top(a, 0); }, 32});
    check({"bfind.s" + n, width, true, 1,
           [&](Wide a, Wide, Wide) { return top(a, a < 0); }, 32});
    check({"bfind.shiftamt.u" + n, width, false, 1,
           [&](Wide a, Wide, Wide) {
             return top(a, 0) < 0 ? -1 : width - 1 - top(a, 0);
           },
           32});
    check({"brev" + b, width, false, 1, [&](Wide a, Wide, Wide) {
             Wide result = 0;
             for (int i = 0; i < width; ++i)
               result |= Wide(bit(a, i)) << (width - 1 - i);
             return result;
           }});
    // Evaluates the definition in the PTX ISA bit by bit.
    for (bool isSigned : {false, true})
      check({std::string("bfe.") + (isSigned ? "s" : "u") + n,
             width,
             isSigned,
             3,
             [&](Wide a, Wide position, Wide length) {
               Wide pos = position & 255, len = length & 255, msb = width - 1;
               int sign = !isSigned || len == 0
                              ? 0
                              : bit(a, std::min(pos + len - 1, msb));
               Wide result = 0;
               for (Wide i = 0; i <= msb; ++i)
                 result |=
                     Wide(i < len && pos + i <= msb ? bit(a, pos + i) : sign)
                     << i;
               return result;
             },
             0,
             {width, 32, 32}});
  }
  auto operands =
      tuples({integerEdges(32), integerEdges(32), integerEdges(32)});
  auto inserted =
      apply("bfi.b32 %d, %a, %b, %c, 5;", {32, 32, 32, 32}, operands);
  for (size_t i = 0; i < operands.size(); ++i) {
    uint64_t a = operands[i][0], b = operands[i][1], pos = operands[i][2] & 255;
    uint64_t expected = b;
    for (uint64_t j = 0; j < 5 && pos + j < 32; ++j) {
      expected &= ~(uint64_t(1) << (pos + j));
      expected |= (a >> j & 1) << (pos + j);
    }
    EXPECT_EQ(inserted[i], expected);
  }
}

TEST(PtxBits, FunnelShifts) {
  auto model = [](bool isLeft, bool wraps) -> Model {
    return [=](Wide a, Wide b, Wide c) {
      Wide n = wraps ? c & 31 : std::min<Wide>(c, 32);
      Wide both = b << 32 | a;
      return isLeft ? (both << n) >> 32 : both >> n;
    };
  };
  check({"shf.l.wrap.b32", 32, false, 3, model(true, true)});
  check({"shf.l.clamp.b32", 32, false, 3, model(true, false)});
  check({"shf.r.wrap.b32", 32, false, 3, model(false, true)});
  check({"shf.r.clamp.b32", 32, false, 3, model(false, false)});
}

TEST(PtxBits, AnyFunctionOfThreeBits) {
  for (int table : {0x00, 0x96, 0xe8, 0xca, 0x80, 0xfe, 0x1b, 0xff}) {
    auto operands =
        tuples({integerEdges(32), integerEdges(32), integerEdges(32)}, 512);
    auto results =
        apply("lop3.b32 %d, %a, %b, %c, " + std::to_string(table) + ";",
              {32, 32, 32, 32}, operands);
    for (size_t i = 0; i < operands.size(); ++i)
      for (int j = 0; j < 32; ++j) {
        int index = (operands[i][0] >> j & 1) * 4 +
                    (operands[i][1] >> j & 1) * 2 + (operands[i][2] >> j & 1);
        ASSERT_EQ(results[i] >> j & 1, uint64_t(table >> index & 1));
      }
  }
}

TEST(PtxBits, Permutations) {
  auto operands = tuples({{0x83828180}, {0x07868584}, integerEdges(32)});
  auto byte = [&](size_t i, unsigned at) -> uint64_t {
    return operands[i][at / 4] >> (8 * (at % 4)) & 255;
  };
  auto results = apply("prmt.b32 %d, %a, %b, %c;", {32, 32, 32, 32}, operands);
  // The tables of the PTX ISA, highest byte first.
  const std::pair<const char *, const char *> modes[] = {
      {"f4e", "3210432154326543"}, {"b4e", "5670670170120123"},
      {"rc8", "0000111122223333"}, {"ecl", "3210321132223333"},
      {"ecr", "0000111022103210"}, {"rc16", "1010323210103232"}};
  for (size_t i = 0; i < operands.size(); ++i)
    for (int j = 0; j < 4; ++j) {
      unsigned choice = operands[i][2] >> (4 * j) & 15;
      uint64_t expected = byte(i, choice & 7);
      if (choice & 8)
        expected = expected & 128 ? 255 : 0;
      ASSERT_EQ(results[i] >> (8 * j) & 255, expected);
    }
  for (auto [mode, table] : modes) {
    results = apply("prmt.b32." + std::string(mode) + " %d, %a, %b, %c;",
                    {32, 32, 32, 32}, operands);
    std::string rows = table;
    for (size_t i = 0; i < operands.size(); ++i) {
      std::string row = rows.substr((operands[i][2] & 3) * 4, 4);
      for (int j = 0; j < 4; ++j)
        ASSERT_EQ(results[i] >> (8 * j) & 255, byte(i, row[3 - j] - '0'))
            << mode << " " << (operands[i][2] & 3);
    }
  }
}

TEST(PtxBits, MovesTakeRegistersApart) {
  auto operands = tuples({integerEdges(64)});
  auto swapped = apply(".reg .b32 %x, %y; mov.b64 {%x, %y}, %a; "
                       "mov.b64 %d, {%y, %x};",
                       {64, 64}, operands);
  auto quarters = apply(".reg .b16 %w, %x, %y, %z; mov.b64 {%w, %x, %y, %z}, "
                        "%a; mov.b64 %d, {%z, %w, %x, %y};",
                        {64, 64}, operands);
  for (size_t i = 0; i < operands.size(); ++i) {
    uint64_t a = operands[i][0];
    EXPECT_EQ(swapped[i], a >> 32 | a << 32);
    EXPECT_EQ(quarters[i], a >> 48 | a << 16);
  }
}

} // namespace
