//===- Svg.cpp - Writes pictures as SVG -----------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Draw/Svg.h"
#include <cmath>

using namespace heddle;
using namespace heddle::draw;

std::string draw::escapeXml(std::string_view text) {
  std::string escaped;
  for (char c : text)
    switch (c) {
    case '&':
      escaped += "&amp;";
      break;
    case '<':
      escaped += "&lt;";
      break;
    case '>':
      escaped += "&gt;";
      break;
    case '"':
      escaped += "&quot;";
      break;
    default:
      // XML allows no other control characters.
      escaped += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
    }
  return escaped;
}

std::string draw::formatCoordinate(double value) {
  if (!std::isfinite(value))
    return "0";
  auto hundredths = std::llround(value * 100);
  std::string text = std::to_string(std::llabs(hundredths));
  while (text.size() < 3)
    text.insert(text.begin(), '0');
  text.insert(text.size() - 2, ".");
  while (text.back() == '0')
    text.pop_back();
  if (text.back() == '.')
    text.pop_back();
  return hundredths < 0 ? "-" + text : text;
}

void SvgWriter::begin(const char *name, const Attributes &attributes) {
  all += std::string("<") + name;
  for (const auto &[key, value] : attributes)
    all += std::string(" ") + key + "=\"" + value.text + "\"";
}

void SvgWriter::element(const char *name, const Attributes &attributes) {
  begin(name, attributes);
  all += "/>\n";
}

void SvgWriter::open(const char *name, const Attributes &attributes) {
  begin(name, attributes);
  all += ">\n";
  opened.push_back(name);
}

void SvgWriter::close() {
  all += std::string("</") + opened.back() + ">\n";
  opened.pop_back();
}

void SvgWriter::text(const char *name, const Attributes &attributes,
                     std::string_view content) {
  begin(name, attributes);
  all += ">" + escapeXml(content) + "</" + name + ">\n";
}

void SvgWriter::raw(std::string_view text) { all += text; }
