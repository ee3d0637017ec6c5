//===- Rows.cpp - Assigns registers to rows of memory ---------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Assigns the registers of PTX to rows, where a row is memory for the 32 lanes
// of one register. PTX has a register for every value. Registers that are not
// live at the same time share a row, so that a warp's registers stay in the
// host's cache.
//
//===----------------------------------------------------------------------===//

#include "emulator/ptx/Program.h"

#include <algorithm>
#include <map>
#include <queue>

namespace heddle::emulator {

namespace {
constexpr uint32_t granule = 64;

uint32_t granulesOf(int width) { return width <= 16 ? 1 : width / 16; }

struct Interval {
  size_t first = ~size_t(0), last = 0;

  void include(size_t at) {
    first = std::min(first, at);
    last = std::max(last, at);
  }
};

using Bits = std::vector<uint64_t>;

/// The use of rows (32-lane registers) in a basic block: rows that it reads
/// before it writes them, rows that it writes, and rows that are live at its
/// beginning.
struct BlockUse {
  Bits reads, writes, liveIn;
};

class Liveness {
public:
  Liveness(const Program &program, size_t numRows)
      : ops(program.ops), blocks(program), intervals(numRows),
        uses(blocks.starts.size() + 1) {
    for (BlockUse &use : uses) {
      use.reads.resize((numRows + 63) / 64);
      use.writes = use.liveIn = use.reads;
    }
    for (size_t block = 0; block < blocks.starts.size(); ++block)
      scan(block);
    propagate();
    extend();
  }

  std::vector<Interval> take() { return std::move(intervals); }
  bool isReadUnwritten(uint32_t row) const {
    return get(uses.front().liveIn, row);
  }

private:
  static bool get(const Bits &bits, uint32_t row) {
    return bits[row / 64] >> (row % 64) & 1;
  }
  static void set(Bits &bits, uint32_t row) {
    bits[row / 64] |= uint64_t(1) << (row % 64);
  }

  void scan(size_t block) {
    BlockUse &use = uses[block];
    auto read = [&](uint32_t row) {
      if (!get(use.writes, row))
        set(use.reads, row);
    };
    for (size_t i = blocks.starts[block]; i < blocks.end(block, ops.size());
         ++i) {
      const Op &op = ops[i];
      for (int j = op.results; j < op.results + op.operands; ++j)
        read(op.rows[j]);
      if (op.guard != noRow)
        read(op.guard);
      for (int j = 0; j < op.results; ++j) {
        // If an op has a guard predicate, it counts as reading its result
        // register: lanes whose predicate is false keep the old value, which
        // must be live.
        if (op.guard != noRow)
          read(op.rows[j]);
        set(use.writes, op.rows[j]);
      }
    }
  }

  void propagate() {
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t block = blocks.starts.size(); block-- > 0;) {
        BlockUse &use = uses[block];
        for (size_t word = 0; word < use.reads.size(); ++word) {
          uint64_t out = 0;
          for (size_t next : blocks.successors[block])
            out |= uses[next].liveIn[word];
          uint64_t in = use.reads[word] | (out & ~use.writes[word]);
          changed |= in != use.liveIn[word];
          use.liveIn[word] = in;
        }
      }
    }
  }

  void extend() {
    auto include = [&](const Bits &bits, size_t at) {
      for (size_t word = 0; word < bits.size(); ++word)
        for (uint64_t rest = bits[word]; rest; rest &= rest - 1)
          intervals[word * 64 + __builtin_ctzll(rest)].include(at);
    };
    for (size_t block = 0; block < blocks.starts.size(); ++block) {
      size_t end = blocks.end(block, ops.size());
      include(uses[block].liveIn, blocks.starts[block]);
      for (size_t next : blocks.successors[block])
        include(uses[next].liveIn, end);
      for (size_t i = blocks.starts[block]; i < end; ++i) {
        const Op &op = ops[i];
        for (int j = 0; j < op.results + op.operands; ++j)
          intervals[op.rows[j]].include(i);
        if (op.guard != noRow)
          intervals[op.guard].include(i);
      }
    }
  }

  const std::vector<Op> &ops;
  Blocks blocks;
  std::vector<Interval> intervals;
  std::vector<BlockUse> uses;
};

/// Allocates rows (memory for the 32 lanes of a register) of one size. When a
/// register's live interval has ended, its row is reused.
class RowAllocator {
public:
  uint32_t allocate(const Interval &interval, uint32_t granules,
                    uint32_t &end) {
    // Reuse a row only if the old register's live interval ends in an earlier
    // op. Within one op sharing would be wrong, because the op may write a
    // result before it has read all lanes of its operands.
    if (!busy.empty() && busy.top().first < interval.first) {
      uint32_t offset = busy.top().second;
      busy.pop();
      busy.push({interval.last, offset});
      return offset;
    }
    uint32_t offset = end;
    end += granules;
    busy.push({interval.last, offset});
    return offset;
  }

private:
  using Entry = std::pair<size_t, uint32_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> busy;
};

/// Returns the largest number of 32-bit registers that are live at once, which
/// is the least that a thread needs on a chip.
int64_t pressure(const std::vector<Interval> &intervals,
                 const std::vector<int> &widths,
                 const std::vector<bool> &isFixed, size_t numOps) {
  std::vector<int64_t> change(numOps + 2);
  for (size_t row = 0; row < widths.size(); ++row) {
    const Interval &interval = intervals[row];
    if (isFixed[row] || widths[row] == 1 || interval.last <= interval.first)
      continue;
    int64_t registers = (widths[row] + 31) / 32;
    change[interval.first] += registers;
    change[interval.last] -= registers;
  }
  int64_t live = 0, most = 0;
  for (int64_t step : change)
    most = std::max(most, live += step);
  return most;
}
} // namespace

void assignRows(Program &program, const std::vector<int> &widths) {
  Liveness liveness(program, widths.size());
  std::vector<Interval> intervals = liveness.take();
  std::sort(program.pinned.begin(), program.pinned.end());
  program.pinned.erase(
      std::unique(program.pinned.begin(), program.pinned.end()),
      program.pinned.end());
  std::vector<uint32_t> offsets(widths.size());
  std::vector<bool> isFixed(widths.size());
  uint32_t end = 0;
  for (FixedRow &fixed : program.fixed) {
    isFixed[fixed.row] = true;
    offsets[fixed.row] = end;
    end += granulesOf(fixed.width);
  }
  program.registersPerThread =
      pressure(intervals, widths, isFixed, program.ops.size());
  for (uint32_t row : program.pinned) {
    intervals[row].include(0);
    intervals[row].include(program.ops.size());
  }
  std::vector<uint32_t> order;
  for (uint32_t row = 0; row < widths.size(); ++row)
    if (!isFixed[row])
      order.push_back(row);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return intervals[a].first < intervals[b].first;
  });
  // Only registers of equal width share a row. After a divergent branch, one
  // path may keep one register in the row while another path keeps another
  // register there, each in the path's own lanes. The paths do not overwrite
  // each other only if both registers keep a lane's value in the same bytes of
  // the row.
  std::map<int, RowAllocator> byWidth;
  for (uint32_t row : order) {
    uint32_t granules = granulesOf(widths[row]);
    offsets[row] = byWidth[widths[row]].allocate(intervals[row], granules, end);
    if (liveness.isReadUnwritten(row))
      for (uint32_t i = 0; i < granules; ++i)
        program.unwritten.push_back((offsets[row] + i) * granule);
  }
  for (uint32_t &row : program.pinned)
    row = offsets[row] * granule;
  for (FixedRow &fixed : program.fixed)
    fixed.row = offsets[fixed.row] * granule;
  for (Op &op : program.ops)
    if (op.guard != noRow)
      op.guard = offsets[op.guard] * granule;
  for (uint32_t &row : program.rows)
    row = offsets[row] * granule;
  program.registerBytes = int64_t(end) * granule;
}

} // namespace heddle::emulator
