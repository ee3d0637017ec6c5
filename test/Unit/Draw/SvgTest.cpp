//===- SvgTest.cpp - Pictures as SVG --------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Draw/Svg.h"
#include <gtest/gtest.h>
#include <limits>

using namespace heddle::draw;

TEST(Svg, FormatsCoordinates) {
  EXPECT_EQ(formatCoordinate(0), "0");
  EXPECT_EQ(formatCoordinate(12.5), "12.5");
  EXPECT_EQ(formatCoordinate(-0.254), "-0.25");
  EXPECT_EQ(formatCoordinate(0.05), "0.05");
  EXPECT_EQ(formatCoordinate(1000), "1000");
  EXPECT_EQ(formatCoordinate(-0.001), "0");
  EXPECT_EQ(formatCoordinate(std::numeric_limits<double>::infinity()), "0");
}

TEST(Svg, EscapesText) {
  EXPECT_EQ(escapeXml("a<b>&\"\n"), "a&lt;b&gt;&amp;&quot; ");
}

TEST(Svg, NestsElements) {
  SvgWriter svg;
  svg.open("g", {{"class", "a\"b"}, {"data-stage", 3}});
  svg.element("rect", {{"x", 0.5}});
  svg.text("text", {}, "x < y");
  svg.close();
  EXPECT_EQ(svg.result(), "<g class=\"a&quot;b\" data-stage=\"3\">\n"
                          "<rect x=\"0.5\"/>\n<text>x &lt; y</text>\n</g>\n");
}
