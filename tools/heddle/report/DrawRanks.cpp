//===- DrawRanks.cpp - Pictures of ranks and of what they send ------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Drawings.h"
#include "ExplainText.h"
#include "heddle/AttentionLayout/AttentionLayout.h"
#include "heddle/PlanFormat/Format.h"
#include <algorithm>
#include <cmath>

using namespace heddle;
using namespace heddle::driver;
using draw::SvgWriter;
using nlohmann::json;

//===----------------------------------------------------------------------===//
// Transfers
//===----------------------------------------------------------------------===//

namespace {

/// A bar of the picture of transfers.
struct TransferBar {
  std::string name, colour, text;
  double bytes = 0, seconds = 0;
};

} // namespace

/// Returns `inside a node` or `crosses nodes` for the axes of a collective; ""
/// without a cluster.
static std::string linkOf(const json &explained, const std::string &axes) {
  if (!explained.contains("cluster"))
    return "";
  const json &links = explained["cluster"]["links"];
  std::string link;
  size_t begin = 0;
  while (begin <= axes.size()) {
    size_t end = std::min(axes.find(',', begin), axes.size());
    std::string axis = axes.substr(begin, end - begin);
    // A part of an axis, such as `data/expert`, uses the links of the whole.
    axis = axis.substr(0, axis.find('/'));
    if (links.contains(axis))
      link = link == "crosses nodes" || links[axis] == "inter_node"
                 ? "crosses nodes"
                 : "inside a node";
    begin = end + 1;
  }
  return link;
}

static std::vector<TransferBar> barsOf(const json &explained) {
  std::vector<TransferBar> bars;
  for (const json &line : explained["communication"]) {
    std::string axis = line["axis"];
    double bytes = line["bytes_sent"].get<double>();
    std::string link = linkOf(explained, axis);
    std::string text = plan::formatBytes(std::llround(bytes)) + ", " +
                       line["calls"].dump() + " calls";
    double seconds = line.value("seconds", 0.0);
    if (seconds > 0)
      text += ", " + formatSeconds(seconds);
    bars.push_back({axis + ": " + line["kind"].get<std::string>() +
                        (link.empty() ? "" : ", " + link),
                    link == "crosses nodes" ? "communication" : "compute", text,
                    bytes, seconds});
  }
  for (const json &move : explained["moves"]) {
    double bytes = move["bytes"].get<double>();
    bars.push_back({move["from"].get<std::string>() + " to " +
                        move["to"].get<std::string>(),
                    "copy",
                    plan::formatBytes(std::llround(bytes)) + ", " +
                        move["copies"].dump() + " copies",
                    bytes});
  }
  std::stable_sort(bars.begin(), bars.end(),
                   [](const TransferBar &a, const TransferBar &b) {
                     return a.bytes > b.bytes;
                   });
  return bars;
}

std::string driver::drawTransfers(const json &explained, bool isStandalone) {
  std::vector<TransferBar> bars = barsOf(explained);
  double most = 0, longest = 0;
  for (const TransferBar &bar : bars) {
    most = std::max(most, bar.bytes);
    longest = std::max(longest, bar.seconds);
  }
  Chart chart("What rank " + explained["rank"].dump() +
                  " sends and copies in a step",
              std::to_string(bars.size()) + " kinds of transfers");
  if (bars.empty()) {
    chart.addText("Nothing: there is one rank, and all is in its memory.");
    return chart.finish(isStandalone);
  }
  std::vector<LegendEntry> legend = {
      {"communication", "bytes, on an axis that crosses nodes"},
      {"compute", "bytes inside a node, or link not known"},
      {"copy", "bytes between kinds of memory"}};
  if (longest > 0)
    legend.push_back({"scratch", "time"});
  chart.addLegend(legend);
  constexpr double row = 34, begin = 8, end = Chart::width - 8;
  chart.addPicture(
      row * double(bars.size()) + 8, [&](SvgWriter &svg, double top) {
        for (size_t i = 0; i < bars.size(); ++i) {
          const TransferBar &bar = bars[i];
          double y = top + 8 + double(i) * row;
          svg.open("g", {{"data-transfer", bar.name}});
          svg.text("text", {{"x", begin}, {"y", y + 10}}, bar.name);
          svg.text("text",
                   {{"x", end},
                    {"y", y + 10},
                    {"text-anchor", "end"},
                    {"class", "note"}},
                   bar.text);
          svg.element(
              "rect",
              {{"x", begin},
               {"y", y + 14},
               {"width", bar.bytes > 0
                             ? std::max((end - begin) * bar.bytes / most, 1.0)
                             : 0},
               {"height", 9},
               {"class", "c-" + bar.colour}});
          if (bar.seconds > 0)
            svg.element("rect",
                        {{"x", begin},
                         {"y", y + 23},
                         {"width", (end - begin) * bar.seconds / longest},
                         {"height", 3},
                         {"class", "c-scratch"}});
          svg.close();
        }
      });
  return chart.finish(isStandalone);
}

//===----------------------------------------------------------------------===//
// Mesh
//===----------------------------------------------------------------------===//

/// Says what the ranks along an axis share out.
static std::string sharesOf(const plan::Plan &plan,
                            const plan::Mesh::Axis &axis) {
  bool trains = plan.findProgram(plan::ProgramKind::Train);
  switch (axis.role) {
  case plan::AxisRole::Pipeline:
    return "the layers";
  case plan::AxisRole::Data: {
    if (!axis.factorOf.empty())
      return "the experts";
    int64_t zero = plan.strategy.value("zero", int64_t(0));
    std::string text = trains ? "the rows of the batch" : "the requests";
    if (zero >= 1)
      text += ", optimizer states";
    if (zero >= 2)
      text += ", gradients";
    if (zero >= 3)
      text += ", parameters";
    return text + (zero > 0 ? " (ZeRO " + std::to_string(zero) + ")" : "");
  }
  case plan::AxisRole::Sequence:
    return "the tokens of a row";
  case plan::AxisRole::Tensor:
    return "heads of attention, columns and rows of weights";
  }
  return "";
}

namespace {

/// Nodes and ranks beyond these numbers are not drawn.
constexpr int64_t mostNodes = 16, mostRanksOfNode = 16;

} // namespace

/// Draws a node with its ranks at (x, y).
static void drawNode(const plan::Plan &plan, int64_t node, int64_t perNode,
                     double x, double y, SvgWriter &svg) {
  constexpr double cell = 26;
  int64_t first = node * perNode;
  int64_t count = std::min(perNode, plan.mesh.ranks() - first);
  int64_t shown = std::min(count, mostRanksOfNode);
  int64_t columns = std::min<int64_t>(shown, 8);
  int64_t rows = (shown + columns - 1) / columns;
  svg.open("g", {{"data-node", node}});
  svg.text("text", {{"x", x}, {"y", y + 10}, {"class", "note"}},
           "node " + std::to_string(node) +
               (shown < count ? ", " + std::to_string(count) + " ranks" : ""));
  svg.element("rect", {{"class", "box"},
                       {"x", x},
                       {"y", y + 16},
                       {"width", double(columns) * cell + 6},
                       {"height", double(rows) * cell + 6}});
  static const char *const colours[] = {"compute",     "gradients", "optimizer",
                                        "activations", "layers",    "cache",
                                        "saved",       "copies"};
  for (int64_t i = 0; i < shown; ++i) {
    int64_t rank = first + i, stage = plan.mesh.stageOf(rank);
    double left = x + 4 + double(i % columns) * cell;
    double top = y + 20 + double(i / columns) * cell;
    svg.element("rect", {{"data-rank", rank},
                         {"data-stage", stage},
                         {"class", std::string("c-") +
                                       colours[stage % std::size(colours)]},
                         {"x", left},
                         {"y", top},
                         {"width", cell - 2},
                         {"height", cell - 2}});
    std::string text = std::to_string(rank);
    bool isDark = stage % 8 == 0 || stage % 8 == 6;
    svg.text("text",
             {{"x", left + cell / 2 - 1},
              {"y", top + 16},
              {"text-anchor", "middle"},
              {"class", isDark ? "cell-text ondark" : "cell-text onbright"}},
             text.size() <= 4 ? text : "");
  }
  svg.close();
}

std::string driver::drawMesh(const plan::Plan &plan,
                             const cost::Cluster *cluster, bool isStandalone) {
  int64_t ranks = plan.mesh.ranks();
  int64_t perNode = cluster ? cluster->ranksPerNode : ranks;
  int64_t nodes = (ranks + perNode - 1) / perNode;
  int64_t shown = std::min(nodes, mostNodes);
  Chart chart("Mesh: " + meshText(plan.mesh),
              std::to_string(nodes) + " nodes; the colour of a rank is its "
                                      "pipeline stage");
  for (const plan::Mesh::Axis &axis : plan.mesh.axes)
    if (axis.size > 1)
      chart.addText("axis " + axis.name + ", " + std::to_string(axis.size) +
                        " ranks, shares out " + sharesOf(plan, axis) +
                        (cluster ? cluster->isInside(plan.mesh, {axis.name})
                                       ? "; inside a node"
                                       : "; crosses nodes"
                                 : ""),
                    "axis-text");
  int64_t inNode = std::min({perNode, ranks, mostRanksOfNode});
  int64_t columns = std::min<int64_t>(inNode, 8);
  int64_t rows = (inNode + columns - 1) / columns;
  double nodeWidth = double(columns) * 26 + 24;
  double nodeHeight = double(rows) * 26 + 36;
  auto perRow = std::max<int64_t>(int64_t((Chart::width - 8) / nodeWidth), 1);
  chart.addPicture(
      double((shown + perRow - 1) / perRow) * nodeHeight,
      [&](SvgWriter &svg, double top) {
        for (int64_t node = 0; node < shown; ++node)
          drawNode(plan, node, perNode, 8 + double(node % perRow) * nodeWidth,
                   top + 8 + double(node / perRow) * nodeHeight, svg);
      });
  if (shown < nodes)
    chart.addText("and " + std::to_string(nodes - shown) +
                  " further nodes of " + std::to_string(perNode) + " ranks");
  return chart.finish(isStandalone);
}

//===----------------------------------------------------------------------===//
// Layouts of attention
//===----------------------------------------------------------------------===//

std::vector<std::string> driver::drawLayouts(const plan::Plan &plan) {
  std::vector<std::string> all;
  for (const plan::LayoutUse &use : plan.weights.layouts) {
    const plan::State *state = plan.findConstant(use.state);
    if (!state)
      continue;
    plan::LayoutBits bits = state->layoutBits();
    layouts::AttentionLayout layout(bits.matrices(), bits.blocks(), use.block);
    int64_t count = 0;
    for (int64_t head = 0; head < bits.matrices(); ++head)
      for (int64_t row = 0; row < bits.blocks(); ++row)
        for (int64_t column = 0; column < bits.blocks(); ++column)
          if (bits.has(head, row, column)) {
            layout.add(head, row, column);
            ++count;
          }
    std::string layers;
    for (const std::string &path : use.layers)
      layers += (layers.empty() ? "" : ", ") + path;
    if (use.layers.size() > 4)
      layers = use.layers.front() + " to " + use.layers.back();
    double share = double(count) / double(bits.matrices()) /
                   double(bits.blocks() * bits.blocks());
    all.push_back(layouts::drawLayout(
        layout, bits.matrices(),
        "attention of " + layers + ", blocks of " + std::to_string(use.block),
        "density " + formatNumber("%.2f %%", 100 * share)));
  }
  return all;
}

/// Returns the value of an attribute of a picture's root element.
static int64_t sizeOf(const std::string &picture, const std::string &name) {
  return std::stoll(
      picture.substr(picture.find(" " + name + "=\"") + name.size() + 3));
}

std::string driver::stackLayouts(const std::vector<std::string> &pictures) {
  if (pictures.size() == 1)
    return pictures.front();
  int64_t width = 0, height = 0;
  for (const std::string &picture : pictures) {
    width = std::max(width, sizeOf(picture, "width"));
    height += sizeOf(picture, "height");
  }
  SvgWriter svg;
  svg.open("svg", {{"xmlns", "http://www.w3.org/2000/svg"},
                   {"width", width},
                   {"height", height}});
  int64_t top = 0;
  for (const std::string &picture : pictures) {
    svg.open("g", {{"transform", "translate(0 " + std::to_string(top) + ")"}});
    svg.raw(picture);
    svg.close();
    top += sizeOf(picture, "height");
  }
  svg.close();
  return svg.result();
}
