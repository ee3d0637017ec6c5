//===- DrawLayout.cpp - Draws a layout as SVG -----------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/AttentionLayout/AttentionLayout.h"
#include "heddle/Draw/Svg.h"
#include <algorithm>
#include <cstdio>

using namespace heddle;
using namespace heddle::layouts;

namespace {

/// Sizes in pixels.
constexpr int64_t side = 256, gap = 24, top = 48, labelHeight = 18;
/// Room for the title, whose letters are at most 7 pixels wide on average.
constexpr int64_t leastWidth = 400;
/// More groups of heads than this are not drawn.
constexpr size_t mostGroups = 16;
constexpr size_t groupsOfRow = 4;
/// Lines between blocks are drawn up to this number of blocks in a row.
constexpr int64_t mostLines = 64;

/// A rectangle of blocks of one head, which begins in row `row`.
struct Rectangle {
  int64_t row, first, end;
};

/// Draws one picture.
class Picture {
public:
  Picture(const AttentionLayout &layout, int64_t heads)
      : layout(layout), heads(heads) {}
  std::string draw(const std::string &title, const std::string &subtitle);

private:
  void groupHeads();
  void drawGroup(size_t group);
  void drawBlocks(int64_t head);
  void closeRectangles(std::vector<Rectangle> &open,
                       const std::vector<Rectangle> &kept, int64_t row);
  std::string labelOf(const std::vector<int64_t> &group) const;
  const AttentionLayout &layout;
  const int64_t heads;
  /// Heads with equal matrices, in ascending order.
  std::vector<std::vector<int64_t>> groups;
  draw::SvgWriter svg;
};

} // namespace

void Picture::groupHeads() {
  for (int64_t head = 0; head < heads; ++head) {
    auto same = std::find_if(groups.begin(), groups.end(), [&](auto &group) {
      return layout.areEqual(group.front(), head);
    });
    if (same == groups.end())
      groups.push_back({head});
    else
      same->push_back(head);
  }
}

std::string Picture::labelOf(const std::vector<int64_t> &group) const {
  if (groups.size() == 1)
    return heads == 1 ? "all heads" : std::to_string(heads) + " heads";
  std::string text = group.size() == 1 ? "head " : "heads ";
  constexpr size_t most = 6;
  for (size_t i = 0; i < std::min(group.size(), most); ++i)
    text += (i == 0 ? "" : ", ") + std::to_string(group[i]);
  return text + (group.size() > most ? ", ..." : "");
}

/// Draws the open rectangles that are not among `kept`: they end before `row`.
void Picture::closeRectangles(std::vector<Rectangle> &open,
                              const std::vector<Rectangle> &kept, int64_t row) {
  for (const Rectangle &each : open) {
    bool isKept = std::any_of(kept.begin(), kept.end(), [&](auto &other) {
      return other.first == each.first && other.end == each.end &&
             other.row == each.row;
    });
    if (!isKept)
      svg.element("rect", {{"x", each.first},
                           {"y", each.row},
                           {"width", each.end - each.first},
                           {"height", row - each.row}});
  }
  open = kept;
}

/// Joins neighbouring blocks to rectangles, so that the file stays small.
void Picture::drawBlocks(int64_t head) {
  std::vector<Rectangle> open;
  const int64_t blocks = layout.blocks();
  for (int64_t row = 0; row < blocks; ++row) {
    std::vector<Rectangle> runs;
    for (int64_t column = 0; column < blocks;) {
      if (!layout.has(head, row, column)) {
        ++column;
        continue;
      }
      int64_t first = column;
      while (column < blocks && layout.has(head, row, column))
        ++column;
      auto above = std::find_if(open.begin(), open.end(), [&](auto &each) {
        return each.first == first && each.end == column;
      });
      runs.push_back({above == open.end() ? row : above->row, first, column});
    }
    closeRectangles(open, runs, row);
  }
  closeRectangles(open, {}, blocks);
}

void Picture::drawGroup(size_t group) {
  const int64_t blocks = layout.blocks();
  const int64_t x = gap + int64_t(group % groupsOfRow) * (side + gap);
  const int64_t y =
      top + int64_t(group / groupsOfRow) * (side + labelHeight + gap);
  svg.text("text", {{"x", x}, {"y", y + labelHeight - 6}},
           labelOf(groups[group]));
  char scale[32];
  std::snprintf(scale, sizeof scale, "%.6g", double(side) / double(blocks));
  svg.open("g", {{"transform", "translate(" + std::to_string(x) + " " +
                                   std::to_string(y + labelHeight) +
                                   ") scale(" + scale + ")"}});
  svg.element("rect",
              {{"class", "matrix"}, {"width", blocks}, {"height", blocks}});
  drawBlocks(groups[group].front());
  if (blocks <= mostLines) {
    std::string path;
    for (int64_t i = 1; i < blocks; ++i) {
      std::string at = std::to_string(i), all = std::to_string(blocks);
      path += "M" + at + " 0V" + all + "M0 " + at + "H" + all;
    }
    svg.element("path", {{"d", path}});
  }
  svg.close();
}

std::string Picture::draw(const std::string &title,
                          const std::string &subtitle) {
  groupHeads();
  const size_t shown = std::min(groups.size(), mostGroups);
  const int64_t columns = int64_t(std::min(shown, groupsOfRow));
  const int64_t rows = int64_t((shown + groupsOfRow - 1) / groupsOfRow);
  const int64_t width = std::max(gap + columns * (side + gap), leastWidth);
  const int64_t height = top + rows * (side + labelHeight + gap) + 14;
  svg.open("svg", {{"xmlns", "http://www.w3.org/2000/svg"},
                   {"class", "layout"},
                   {"width", width},
                   {"height", height}});
  svg.text("title", {}, title + ", " + subtitle);
  // The rules are for this picture alone, because a page may hold several.
  svg.raw("<style>.layout text { font: 12px sans-serif; fill: #222 } "
          ".layout rect { fill: #2b6cb0 } .layout .page { fill: #fff } "
          ".layout .matrix { fill: #eef1f5 } .layout path { stroke: #fff; "
          "stroke-width: 1px; vector-effect: non-scaling-stroke }</style>\n");
  svg.element("rect",
              {{"class", "page"}, {"width", width}, {"height", height}});
  svg.text("text", {{"x", gap}, {"y", 18}}, title);
  svg.text("text", {{"x", gap}, {"y", 36}}, subtitle);
  for (size_t group = 0; group < shown; ++group)
    drawGroup(group);
  std::string legend = "rows: queries, columns: keys, from block 0";
  if (shown < groups.size())
    legend += "; " + std::to_string(groups.size() - shown) +
              " more groups of heads are not drawn";
  svg.text("text", {{"x", gap}, {"y", height - 14}}, legend);
  svg.close();
  return svg.result();
}

std::string layouts::drawLayout(const AttentionLayout &layout, int64_t heads,
                                const std::string &title,
                                const std::string &subtitle) {
  return Picture(layout, heads).draw(title, subtitle);
}
