//===- DrawMemory.cpp - Pictures of a rank's memory -----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Drawings.h"
#include "heddle/PlanFormat/Format.h"
#include <algorithm>
#include <numeric>

using namespace heddle;
using namespace heddle::driver;
using draw::formatCoordinate;
using draw::SvgWriter;

namespace {

/// Draws one timeline.
class MemoryPicture {
public:
  MemoryPicture(const ProgramTimeline &timeline, const MemoryTimeline &memory,
                int64_t budget, const std::string &rankClass)
      : timeline(timeline), memory(memory), budget(budget),
        rankClass(rankClass), commands(double(timeline.commands.size())),
        most(std::max(double(memory.bytes), isNear() ? double(budget) : 0.0)) {}

  std::string draw(bool isStandalone);

private:
  /// Whether the budget is drawn. One that is far away would make the rest too
  /// small to see.
  bool isNear() const { return budget > 0 && budget <= 2 * memory.bytes; }
  double atCommand(int64_t command) const {
    return commands > 0 ? double(command) / commands * 1000 : 0;
  }
  std::string describePeak() const;
  void drawOwner(size_t owner, SvgWriter &svg) const;
  void drawMarks(SvgWriter &svg) const;
  void drawPeakText(SvgWriter &svg, double top) const;
  void drawBuffers(SvgWriter &svg) const;
  void drawBodies(SvgWriter &svg, double top) const;

  const ProgramTimeline &timeline;
  const MemoryTimeline &memory;
  int64_t budget;
  const std::string &rankClass;
  double commands, most;
  /// For each step, the sums of the bytes of the owners that are drawn so far.
  std::vector<std::vector<int64_t>> sums;
};

} // namespace

/// As `command 17: linear (h.0.mlp)`.
static std::string describe(const ProgramTimeline &timeline, int64_t command) {
  std::string text = "command " + std::to_string(command);
  if (size_t(command) >= timeline.commands.size())
    return text;
  const TimelineCommand &of = timeline.commands[command];
  return text + ": " + of.name + (of.path.empty() ? "" : " (" + of.path + ")");
}

std::string MemoryPicture::describePeak() const {
  return "peak " + plan::formatBytes(memory.bytes - memory.unused) +
         " in use at " + describe(timeline, memory.peak);
}

/// Draws the area of an owner: above the owners before it.
void MemoryPicture::drawOwner(size_t owner, SvgWriter &svg) const {
  std::string upper, lower;
  auto y = [&](int64_t bytes) {
    return formatCoordinate(1000 - double(bytes) / most * 1000);
  };
  bool isEmpty = true;
  for (size_t i = 0; i < memory.steps.size(); ++i) {
    std::string x = formatCoordinate(atCommand(memory.steps[i].command));
    std::string end =
        i + 1 < memory.steps.size()
            ? formatCoordinate(atCommand(memory.steps[i + 1].command))
            : "1000";
    isEmpty &= sums[i][owner] == sums[i][owner + 1];
    upper += (i == 0 ? "M" + x + " " : "V") + y(sums[i][owner + 1]);
    upper += "H" + end;
    lower = "V" + y(sums[i][owner]) + "H" + x + lower;
  }
  if (isEmpty)
    return;
  svg.open("path", {{"class", "c-" + colourOfOwner(memory.owners[owner])},
                    {"data-owner", memory.owners[owner]},
                    {"d", upper + lower + "Z"}});
  svg.text("title", {}, memory.owners[owner]);
  svg.close();
}

/// Draws lines: the peak, what the plan reserves, and the budget.
void MemoryPicture::drawMarks(SvgWriter &svg) const {
  double x = atCommand(memory.peak) + 500 / std::max(commands, 1.0);
  svg.element(
      "line",
      {{"class", "peak"}, {"x1", x}, {"x2", x}, {"y1", 0}, {"y2", 1000}});
  auto across = [&](const char *style, int64_t bytes) {
    double at = 1000 - double(bytes) / most * 1000;
    svg.element(
        "line",
        {{"class", style}, {"x1", 0}, {"x2", 1000}, {"y1", at}, {"y2", at}});
  };
  across("reserved", memory.bytes);
  if (isNear())
    across("budget", budget);
}

void MemoryPicture::drawBuffers(SvgWriter &svg) const {
  double all = double(std::max<int64_t>(memory.arenaBytes, 1));
  for (size_t i = 0; i < memory.buffers.size(); ++i) {
    const TimelineBuffer &buffer = memory.buffers[i];
    const plan::FrameRange &range = buffer.range;
    double height = double(range.bytes) / all * 1000;
    svg.element("rect",
                {{"data-buffer", i},
                 {"class", "c-" + colourOfOwner(range.owner)},
                 {"x", atCommand(range.first)},
                 {"y", 1000 - double(range.offset) / all * 1000 - height},
                 {"width", atCommand(range.last + 1) - atCommand(range.first)},
                 {"height", height}});
  }
}

/// Draws a bracket with a name below the commands of each body, such as a loop.
void MemoryPicture::drawBodies(SvgWriter &svg, double top) const {
  const std::vector<TimelineCommand> &all = timeline.commands;
  for (size_t i = 0; i < all.size();) {
    size_t end = i + 1;
    while (end < all.size() && all[end].depth > 0 &&
           (all[end].depth > 1 || all[end].body == all[i].body))
      ++end;
    if (all[i].depth == 1) {
      double from =
          Chart::left + atCommand(int64_t(i)) * Chart::plotWidth / 1000;
      double to =
          Chart::left + atCommand(int64_t(end)) * Chart::plotWidth / 1000;
      svg.element("path", {{"class", "bracket"},
                           {"d", "M" + formatCoordinate(from + 1) + " " +
                                     formatCoordinate(top) + "v5H" +
                                     formatCoordinate(to - 1) + "v-5"}});
      std::string name =
          all[i].body +
          (all[i].times > 1 ? " x " + std::to_string(all[i].times) : "");
      svg.text("text",
               {{"x", (from + to) / 2},
                {"y", top + 18},
                {"class", "note"},
                {"text-anchor", "middle"}},
               name);
    }
    i = all[i].depth == 1 ? end : i + 1;
  }
}

void MemoryPicture::drawPeakText(SvgWriter &svg, double top) const {
  double x = Chart::left + atCommand(memory.peak) * Chart::plotWidth / 1000;
  bool isRight = x > Chart::width / 2;
  svg.text("text",
           {{"x", isRight ? x - 6 : x + 12},
            {"y", top - 5},
            {"class", "peak-text"},
            {"text-anchor", isRight ? "end" : "start"}},
           describePeak());
}

std::string MemoryPicture::draw(bool isStandalone) {
  for (const OwnerBytes &step : memory.steps) {
    std::vector<int64_t> &sum = sums.emplace_back(1);
    for (int64_t bytes : step.bytes)
      sum.push_back(sum.back() + bytes);
  }
  std::string kind = plan::nameOf(memory.kind);
  Chart chart(
      "Memory in use, " + kind +
          (timeline.isFrame ? ", frame of " : ", program ") + timeline.name +
          (rankClass.empty() ? "" : ", " + rankClass),
      describePeak() + ", of " + plan::formatExactBytes(memory.bytes) +
          (timeline.isFrame ? " of the frame" : " that the plan reserves"));
  std::vector<LegendEntry> legend;
  for (size_t i = 0; i < memory.owners.size(); ++i)
    legend.push_back({colourOfOwner(memory.owners[i]),
                      memory.owners[i] +
                          (memory.atPeak.bytes[i] > 0
                               ? " " + plan::formatBytes(memory.atPeak.bytes[i])
                               : "")});
  if (memory.unused > 0)
    legend.push_back(
        {"unused", "not used at the peak " + plan::formatBytes(memory.unused)});
  chart.addLegend(legend);
  if (budget > 0)
    chart.addText("The plan reserves " + plan::formatBytes(memory.bytes) +
                  " of a budget of " + plan::formatBytes(budget) + ".");
  ChartAxis time = countAxis(commands, "commands");
  chart.addSpace(14); // For the text of the peak.
  chart.addPlot(
      "memory", 300, time, bytesAxis(most),
      [&](SvgWriter &svg) {
        for (size_t i = 0; i < memory.owners.size(); ++i)
          drawOwner(i, svg);
        drawMarks(svg);
      },
      [&](SvgWriter &svg, double top) { drawPeakText(svg, top); });
  chart.addPicture(
      22, [&](SvgWriter &svg, double top) { drawBodies(svg, top - 4); });
  if (!memory.buffers.empty()) {
    chart.addText("Temporary buffers by their offset in the arena of " +
                  plan::formatBytes(memory.arenaBytes) +
                  "; across: the commands");
    chart.addPlot("buffers", 260, time, bytesAxis(double(memory.arenaBytes)),
                  [&](SvgWriter &svg) { drawBuffers(svg); });
  }
  return chart.finish(isStandalone);
}

std::string driver::drawMemory(const ProgramTimeline &timeline,
                               const MemoryTimeline &memory, int64_t budget,
                               const std::string &rankClass,
                               bool isStandalone) {
  return MemoryPicture(timeline, memory, budget, rankClass).draw(isStandalone);
}
