//===- Diagnostic.cpp - Errors that a user can mend -------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/io/Diagnostic.h"
#include <algorithm>
#include <fstream>
#include <numeric>

using namespace heddle;

/// Returns line `number` of a file, without line end and byte order mark; "" if
/// it cannot be read.
static std::string readLine(const std::string &file, int64_t number) {
  std::ifstream in(file);
  std::string line;
  for (int64_t i = 0; i < number; ++i)
    if (!std::getline(in, line))
      return "";
  if (!line.empty() && line.back() == '\r')
    line.pop_back();
  if (number == 1 && line.compare(0, 3, "\xEF\xBB\xBF") == 0)
    line.erase(0, 3);
  return line;
}

static bool isContinuation(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) == 0x80;
}

/// Formats a source line, with a caret below the byte `column`, counted from 1.
/// Tabs become spaces; a long line is truncated around the caret.
static std::string formatCaret(const std::string &line, int64_t column) {
  constexpr size_t maxWidth = 100;
  size_t at = std::min<size_t>(column > 0 ? column - 1 : 0, line.size());
  size_t begin = line.find_first_not_of(" \t");
  if (begin == std::string::npos || begin > at)
    begin = at;
  if (at - begin > maxWidth / 2)
    begin = at - maxWidth / 2;
  while (begin < at && isContinuation(line[begin]))
    ++begin;
  size_t end = std::min(line.size(), begin + maxWidth);
  while (end < line.size() && isContinuation(line[end]))
    ++end;
  std::string shown, caret;
  for (size_t i = begin; i < end; ++i) {
    shown += static_cast<unsigned char>(line[i]) < 0x20 ? ' ' : line[i];
    if (i < at && !isContinuation(line[i]))
      caret += ' ';
  }
  return "   |  " + shown + "\n   |  " + caret + "^\n";
}

std::string Diagnostic::format() const {
  std::string text = "error[" + code + "]: " + message + "\n";
  if (!location.file.empty()) {
    text += "  --> " + location.file;
    if (location.line > 0) {
      text += ":" + std::to_string(location.line);
      if (location.column > 0)
        text += ":" + std::to_string(location.column);
    }
    text += "\n";
    if (location.line > 0 && location.column > 0) {
      std::string line = readLine(location.file, location.line);
      if (!line.empty())
        text += formatCaret(line, location.column);
    }
  }
  for (const std::string &note : notes)
    text += "  note: " + note + "\n";
  if (!help.empty())
    text += "  help: " + help + "\n";
  return text;
}

int Diagnostic::exitCode() const {
  if (code.size() < 3 || code[0] != 'H')
    return 1;
  switch (code[2]) {
  case '1':
    return 2;
  case '2':
    return 4;
  case '3':
    return 3;
  case '4':
    return 5;
  default:
    return 1;
  }
}

void heddle::fail(std::string code, std::string message, std::string help,
                  SourceLocation location) {
  throw UserError({std::move(code),
                   std::move(message),
                   std::move(location),
                   {},
                   std::move(help)});
}

/// Returns the edit distance, in which a swap of two neighbours counts as one
/// edit.
static size_t editDistance(const std::string &a, const std::string &b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1),
      row(b.size() + 1);
  std::iota(last.begin(), last.end(), 0);
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t change = last[j - 1] + (a[i - 1] != b[j - 1]);
      row[j] = std::min({change, last[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before = last;
    last = row;
  }
  return last[b.size()];
}

std::string heddle::closestMatch(const std::string &word,
                                 const std::vector<std::string> &candidates) {
  std::string best;
  size_t bestDistance = std::max<size_t>(word.size() / 3, 1) + 1;
  for (const std::string &candidate : candidates) {
    size_t distance = editDistance(word, candidate);
    if (distance < bestDistance && distance < candidate.size()) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best;
}
