//===- Chart.h - The frame of the charts of a plan --------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Charts of `heddle explain --svg` and of the page of `heddle report`: a title,
// a legend, and plots with axes. A plot is an inner `svg` element of 1000 x
// 1000 units, whose `viewBox` the page's script changes to zoom.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_REPORT_CHART_H
#define HEDDLE_TOOLS_HEDDLE_REPORT_CHART_H

#include "heddle/Draw/Svg.h"
#include <functional>

namespace heddle::driver {

/// An axis from 0 to `most`.
struct ChartAxis {
  double most = 0;
  /// Formats a value of the axis.
  std::function<std::string(double)> format;
  /// The base of round values: 1024 for bytes, else 1000.
  double base = 1000;
  std::string unit; ///< For the page's script: `bytes`, `seconds` or "".

  /// Returns round values between 0 and `most`, about `count` of them.
  std::vector<double> ticks(int count) const;
  /// Returns the position of a value in the plot, from 0 to 1000.
  double at(double value) const { return most > 0 ? value / most * 1000 : 0; }
};

ChartAxis bytesAxis(double most);
ChartAxis secondsAxis(double most);
ChartAxis countAxis(double most, const std::string &unit);

/// An entry of a legend: a colour class and its text.
struct LegendEntry {
  std::string colour, text;
};

/// A picture of charts below each other.
class Chart {
public:
  static constexpr double width = 960, left = 108, right = 24;
  static constexpr double plotWidth = width - left - right;

  /// `title` is drawn above the charts; `summary` is the text alternative.
  Chart(std::string title, std::string summary);

  void addLegend(const std::vector<LegendEntry> &entries);
  /// Adds a line of text.
  void addText(const std::string &text, const char *style = "note");
  /// Leaves `height` pixels free.
  void addSpace(double height) { y += height; }
  /// Adds a plot of `height` pixels with its axes. `draw` draws in units from 0
  /// to 1000, and `vertical` grows upwards. `over` may draw beside and above
  /// the plot in pixels, whose top is passed.
  void
  addPlot(const std::string &name, double height, const ChartAxis &horizontal,
          const ChartAxis &vertical,
          const std::function<void(draw::SvgWriter &)> &draw,
          const std::function<void(draw::SvgWriter &, double)> &over = nullptr);
  /// Adds a plot whose rows have names instead of a vertical axis.
  void addRows(const std::string &name, const std::vector<std::string> &rows,
               double rowHeight, const ChartAxis &horizontal,
               const std::function<void(draw::SvgWriter &)> &draw);
  /// Draws in pixels, from the position `top` on. `height` pixels are used.
  void
  addPicture(double height,
             const std::function<void(draw::SvgWriter &, double top)> &draw);

  /// Returns the picture. A standalone picture has its own style sheet.
  std::string finish(bool isStandalone) const;

private:
  void openPlot(const std::string &name, double height,
                const ChartAxis &horizontal, const ChartAxis *vertical);
  void addHorizontalAxis(const ChartAxis &axis);

  std::string title, summary;
  draw::SvgWriter body;
  double y = 0;
};

/// The colour class of a use of memory, such as `parameters`.
std::string colourOfOwner(const std::string &owner);

/// The place of a use of memory in stacks: states first, and what changes
/// during a step above them.
size_t orderOfOwner(const std::string &owner);

/// The style sheet of charts.
extern const char chartStyle[];

} // namespace heddle::driver

#endif // HEDDLE_TOOLS_HEDDLE_REPORT_CHART_H
