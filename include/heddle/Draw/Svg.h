//===- Svg.h - Writes pictures as SVG ---------------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DRAW_SVG_H
#define HEDDLE_DRAW_SVG_H

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace heddle::draw {

/// Replaces the characters that have a meaning in XML, HTML and attributes.
std::string escapeXml(std::string_view text);

/// Formats a coordinate with at most two digits after the point. Equal numbers
/// give equal text on every machine.
std::string formatCoordinate(double value);

/// The value of an attribute as text, made from a string or a number.
struct AttributeValue {
  AttributeValue(const char *text) : text(escapeXml(text)) {}
  AttributeValue(const std::string &text) : text(escapeXml(text)) {}
  AttributeValue(double value) : text(formatCoordinate(value)) {}
  AttributeValue(int64_t value) : text(std::to_string(value)) {}
  AttributeValue(int value) : text(std::to_string(value)) {}
  AttributeValue(size_t value) : text(std::to_string(value)) {}
  std::string text;
};
using Attributes = std::vector<std::pair<const char *, AttributeValue>>;

/// Writes the elements of a picture, one a line.
class SvgWriter {
public:
  /// Writes an element without content, such as a rectangle.
  void element(const char *name, const Attributes &attributes);
  /// Writes the begin of an element. Further elements are inside of it until
  /// `close` is called.
  void open(const char *name, const Attributes &attributes);
  void close();
  /// Writes an element that holds text.
  void text(const char *name, const Attributes &attributes,
            std::string_view content);
  /// Writes text as it is, for example the rules of a style sheet.
  void raw(std::string_view text);

  /// Returns what was written. All elements must be closed.
  const std::string &result() const { return all; }

private:
  void begin(const char *name, const Attributes &attributes);
  std::string all;
  std::vector<const char *> opened;
};

} // namespace heddle::draw

#endif // HEDDLE_DRAW_SVG_H
