//===- Chart.cpp - The frame of the charts of a plan ----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Chart.h"
#include "ExplainText.h"
#include "heddle/PlanFormat/Format.h"
#include <cmath>

using namespace heddle;
using namespace heddle::driver;
using draw::Attributes;
using draw::SvgWriter;

//===----------------------------------------------------------------------===//
// Axes
//===----------------------------------------------------------------------===//

std::vector<double> ChartAxis::ticks(int count) const {
  if (!(most > 0))
    return {0};
  double unit = 1;
  while (most / count >= unit * base)
    unit *= base;
  // Values below one are fractions of 1000, such as milliseconds.
  while (most / count < unit / 1000)
    unit /= 1000;
  static const std::vector<double> decimal = {
      0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5,
      1,     2,     5,     10,   20,   50,   100, 200, 500};
  static const std::vector<double> binary = {1,  2,   4,   8,   16,  32,
                                             64, 128, 256, 512, 1024};
  double step = unit;
  for (double part : base == 1024 ? binary : decimal)
    if (step = part * unit; most / step <= count)
      break;
  std::vector<double> values;
  for (int i = 0; double(i) * step <= most * (1 + 1e-9); ++i)
    values.push_back(double(i) * step);
  return values;
}

ChartAxis driver::bytesAxis(double most) {
  return {most,
          [](double value) { return plan::formatBytes(std::llround(value)); },
          1024, "bytes"};
}

ChartAxis driver::secondsAxis(double most) {
  return {most,
          [](double value) { return value > 0 ? formatSeconds(value) : "0 s"; },
          1000, "seconds"};
}

ChartAxis driver::countAxis(double most, const std::string &unit) {
  return {most, [](double value) { return formatNumber("%g", value); }, 1000,
          unit};
}

//===----------------------------------------------------------------------===//
// Pictures
//===----------------------------------------------------------------------===//

Chart::Chart(std::string title, std::string summary)
    : title(std::move(title)), summary(std::move(summary)) {
  y = 24;
  body.text("text", {{"x", 8}, {"y", y}, {"class", "title"}}, this->title);
  y += 12;
}

/// About the width of text of 12 pixels.
static double widthOf(const std::string &text) {
  return 6.4 * double(text.size());
}

void Chart::addLegend(const std::vector<LegendEntry> &entries) {
  double x = 8;
  y += 12;
  for (const LegendEntry &entry : entries) {
    double needed = 18 + widthOf(entry.text) + 16;
    if (x > 8 && x + needed > width) {
      x = 8;
      y += 20;
    }
    body.element("rect", {{"x", x},
                          {"y", y - 9},
                          {"width", 12},
                          {"height", 12},
                          {"class", "c-" + entry.colour}});
    body.text("text", {{"x", x + 18}, {"y", y + 1}}, entry.text);
    x += needed;
  }
  y += 12;
}

void Chart::addText(const std::string &text, const char *style) {
  y += 16;
  body.text("text", {{"x", 8}, {"y", y}, {"class", style}}, text);
  y += 4;
}

void Chart::openPlot(const std::string &name, double height,
                     const ChartAxis &horizontal, const ChartAxis *vertical) {
  Attributes attributes = {{"class", "plot"},
                           {"x", left},
                           {"y", y},
                           {"width", plotWidth},
                           {"height", height},
                           {"viewBox", "0 0 1000 1000"},
                           {"preserveAspectRatio", "none"},
                           {"data-plot", name},
                           {"data-x", formatNumber("%.17g", horizontal.most)},
                           {"data-x-unit", horizontal.unit}};
  if (vertical) {
    attributes.push_back({"data-y", formatNumber("%.17g", vertical->most)});
    attributes.push_back({"data-y-unit", vertical->unit});
  }
  body.open("svg", attributes);
}

void Chart::addHorizontalAxis(const ChartAxis &axis) {
  body.open("g", {{"class", "axis"}});
  for (double value : axis.ticks(8)) {
    double x = left + axis.at(value) * plotWidth / 1000;
    body.element("line", {{"x1", x}, {"x2", x}, {"y1", y}, {"y2", y + 4}});
    body.text("text", {{"x", x}, {"y", y + 16}, {"text-anchor", "middle"}},
              axis.format(value));
  }
  body.close();
  y += 24;
}

void Chart::addPlot(const std::string &name, double height,
                    const ChartAxis &horizontal, const ChartAxis &vertical,
                    const std::function<void(SvgWriter &)> &draw,
                    const std::function<void(SvgWriter &, double)> &over) {
  y += 8;
  body.element("rect", {{"x", left},
                        {"y", y},
                        {"width", plotWidth},
                        {"height", height},
                        {"class", "back"}});
  body.open("g", {{"class", "axis"}});
  for (double value : vertical.ticks(6)) {
    double at = y + height - vertical.at(value) * height / 1000;
    body.element("line", {{"x1", left},
                          {"x2", left + plotWidth},
                          {"y1", at},
                          {"y2", at},
                          {"class", "grid"}});
    body.text("text", {{"x", left - 6}, {"y", at + 4}, {"text-anchor", "end"}},
              vertical.format(value));
  }
  body.close();
  openPlot(name, height, horizontal, &vertical);
  draw(body);
  body.close();
  if (over)
    over(body, y);
  y += height;
  addHorizontalAxis(horizontal);
}

void Chart::addRows(const std::string &name,
                    const std::vector<std::string> &rows, double rowHeight,
                    const ChartAxis &horizontal,
                    const std::function<void(SvgWriter &)> &draw) {
  y += 8;
  double height = rowHeight * double(rows.size());
  body.element("rect", {{"x", left},
                        {"y", y},
                        {"width", plotWidth},
                        {"height", height},
                        {"class", "back"}});
  for (size_t i = 0; i < rows.size(); ++i)
    body.text("text",
              {{"x", left - 6},
               {"y", y + (double(i) + 0.5) * rowHeight + 4},
               {"text-anchor", "end"}},
              rows[i]);
  openPlot(name, height, horizontal, nullptr);
  draw(body);
  body.close();
  y += height;
  addHorizontalAxis(horizontal);
}

void Chart::addPicture(double height,
                       const std::function<void(SvgWriter &, double)> &draw) {
  draw(body, y);
  y += height;
}

std::string Chart::finish(bool isStandalone) const {
  SvgWriter svg;
  Attributes attributes = {{"viewBox", "0 0 " + draw::formatCoordinate(width) +
                                           " " + draw::formatCoordinate(y + 8)},
                           {"class", "chart"},
                           // In a page, the plots inside take the focus.
                           {"role", isStandalone ? "img" : "group"},
                           {"aria-label", title + ". " + summary}};
  if (isStandalone) {
    attributes.insert(attributes.begin(),
                      {"xmlns", "http://www.w3.org/2000/svg"});
    attributes.push_back({"width", width});
    attributes.push_back({"height", y + 8});
  }
  svg.open("svg", attributes);
  svg.text("title", {}, title);
  svg.text("desc", {}, summary);
  if (isStandalone) {
    svg.raw(std::string("<style>") + chartStyle + "</style>\n");
    svg.element("rect",
                {{"width", width}, {"height", y + 8}, {"class", "page"}});
  }
  svg.raw(body.result());
  svg.close();
  return svg.result();
}

/// The begins of owners' names, with their colours. The first that fits counts,
/// so that an owner has one colour in all kinds of memory.
static constexpr std::pair<const char *, const char *> ownerColours[] = {
    {"parameters in compute", "copies"},
    {"parameters", "parameters"},
    {"packed weights", "copies"},
    {"gradients", "gradients"},
    {"optimizer", "optimizer"},
    {"accumulators", "accumulators"},
    {"cache", "cache"},
    {"attention layouts", "ports"},
    {"activations of micro", "saved"},
    {"scratch", "scratch"},
    {"copies between", "tiles"},
    {"padding", "padding"},
    {"inputs", "ports"},
    {"activations", "activations"},
    {"communication", "communication"},
    {"windows", "tiles"},
    {"working memory", "layers"}};

size_t driver::orderOfOwner(const std::string &owner) {
  size_t order = 0;
  for (const auto &[begin, colour] : ownerColours) {
    if (owner.rfind(begin, 0) == 0)
      break;
    ++order;
  }
  return order;
}

std::string driver::colourOfOwner(const std::string &owner) {
  size_t order = orderOfOwner(owner);
  return order < std::size(ownerColours) ? ownerColours[order].second
                                         : "unused";
}
