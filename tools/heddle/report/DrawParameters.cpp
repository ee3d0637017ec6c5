//===- DrawParameters.cpp - How parameters are split, by layer ------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Drawings.h"
#include "ReportData.h"
#include <algorithm>
#include <map>

using namespace heddle;
using namespace heddle::driver;
using draw::SvgWriter;

namespace {

/// A parameter of consecutive layers of one stage that is split in one way.
struct ParameterSpan {
  int64_t first = 0, last = 0; ///< Layers; -1: outside of the layers.
  int64_t stage = 0;
  std::string colour;
};

/// The parameters whose names differ only in the number of their layer.
struct ParameterRow {
  std::string pattern, shape;
  std::vector<ParameterSpan> spans;
};

} // namespace

/// Returns the first number in a module path, the layer; -1 if there is none.
static int64_t layerOf(const std::string &name) {
  const std::string pattern = patternOf(name);
  size_t at = pattern.find('*');
  return at == std::string::npos ? -1 : std::stoll(name.substr(at));
}

/// The colour says which axes split a parameter: those of its use, ZeRO's, or
/// both.
static std::string colourOf(const plan::Placement &placement) {
  bool isSplit = std::any_of(placement.split.begin(), placement.split.end(),
                             [](const auto &axes) { return !axes.empty(); });
  bool isZero = !placement.flatAxes.empty();
  return isSplit ? isZero ? "gradients" : "compute"
                 : isZero ? "optimizer" : "padding";
}

static std::string shapeText(const plan::State &state) {
  const auto &shape =
      state.placement.whole.empty() ? state.shape : state.placement.whole;
  std::string text;
  for (int64_t size : shape)
    text += (text.empty() ? "" : " x ") + std::to_string(size);
  return text;
}

static void addParameter(const plan::State &state, int64_t stage,
                         std::map<std::string, size_t> &known,
                         std::vector<ParameterRow> &rows) {
  std::string pattern = patternOf(state.name);
  auto [entry, isNew] = known.emplace(pattern, rows.size());
  if (isNew)
    rows.push_back({pattern, shapeText(state), {}});
  std::vector<ParameterSpan> &spans = rows[entry->second].spans;
  int64_t layer = layerOf(state.name);
  std::string colour = colourOf(state.placement);
  if (!spans.empty() && spans.back().stage == stage &&
      spans.back().colour == colour && spans.back().last + 1 == layer)
    spans.back().last = layer;
  else
    spans.push_back({layer, layer, stage, colour});
}

std::string driver::drawParameters(const plan::Plan &plan) {
  std::vector<ParameterRow> rows;
  std::map<std::string, size_t> known;
  for (size_t stage = 0; stage < plan.stages.size(); ++stage)
    for (const plan::State &state : plan.stages[stage].states)
      if (state.role == plan::StateRole::Parameter)
        addParameter(state, int64_t(stage), known, rows);
  int64_t layers = 0;
  for (const ParameterRow &row : rows)
    for (const ParameterSpan &span : row.spans)
      layers = std::max(layers, span.last + 1);
  if (rows.empty())
    return "";
  Chart chart("Parameters by layer",
              std::to_string(rows.size()) + " kinds of parameters, " +
                  std::to_string(layers) + " layers");
  chart.addLegend({{"padding", "whole on each rank of a stage"},
                   {"compute", "split for use"},
                   {"optimizer", "split by ZeRO"},
                   {"gradients", "split for use and by ZeRO"}});
  chart.addText("Across: parameters outside of layers, then the layers from 0 "
                "on. A gap is where the next pipeline stage begins.");
  constexpr double height = 17, begin = 330, end = Chart::width - 24;
  const double column = (end - begin) / double(layers + 1);
  chart.addPicture(
      height * double(rows.size()) + 8, [&](SvgWriter &svg, double top) {
        for (size_t i = 0; i < rows.size(); ++i) {
          double y = top + 6 + double(i) * height;
          svg.text("text", {{"x", 8}, {"y", y + 12}}, rows[i].pattern);
          svg.text("text",
                   {{"x", begin - 12},
                    {"y", y + 12},
                    {"text-anchor", "end"},
                    {"class", "note"}},
                   rows[i].shape);
          for (const ParameterSpan &span : rows[i].spans)
            svg.element(
                "rect",
                {{"data-parameter", rows[i].pattern},
                 {"data-stage", span.stage},
                 {"class", "c-" + span.colour},
                 {"x", begin + double(span.first + 1) * column},
                 {"y", y + 1},
                 {"width", std::max(double(span.last - span.first + 1) * column -
                                        (column > 6 ? 2 : 0.4),
                                    0.5)},
                 {"height", height - 3}});
        }
      });
  return chart.finish(/*isStandalone=*/false);
}
