//===- ExplainText.cpp - Numbers and tables as text -----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ExplainText.h"
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sys/ioctl.h>
#include <unistd.h>

using namespace heddle;

std::string driver::formatNumber(const char *format, double value) {
  char text[64];
  std::snprintf(text, sizeof(text), format, value);
  return text;
}

std::string driver::formatFlops(double flops) {
  static const char *units[] = {"", "K", "M", "G", "T", "P"};
  int unit = 0;
  while (flops >= 1000 && unit < 5) {
    flops /= 1000;
    ++unit;
  }
  return formatNumber("%.2f ", flops) + units[unit] + "FLOP";
}

std::string driver::formatSeconds(double seconds) {
  if (seconds >= 1)
    return formatNumber("%.2f s", seconds);
  return seconds >= 1e-3 ? formatNumber("%.2f ms", seconds * 1e3)
                         : formatNumber("%.2f us", seconds * 1e6);
}

std::string driver::meshText(const plan::Mesh &mesh) {
  if (mesh.ranks() == 1)
    return "1 rank";
  std::string text = std::to_string(mesh.ranks()) + " ranks:";
  const char *separator = " ";
  for (const plan::Mesh::Axis &axis : mesh.axes)
    if (axis.size > 1) {
      text += separator + axis.name + " " + std::to_string(axis.size);
      separator = ", ";
    }
  return text;
}

size_t driver::terminalWidth() {
  constexpr size_t least = 40, usual = 80;
  size_t width = 0;
  if (const char *columns = std::getenv("COLUMNS"))
    width = std::strtoul(columns, nullptr, 10);
  winsize window = {};
  if (width == 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0)
    width = window.ws_col;
  return width == 0 ? usual : std::max(width, least);
}

void driver::printTable(const std::vector<TableRow> &rows) {
  for (const std::string &line : io::tableLines(rows, /*lastIsText=*/true))
    std::cout << line << "\n";
}
