// RUN: heddle-opt %s --canonicalize --cse --symbol-dce | FileCheck %s

// Stages and the schedule are data that nothing refers to: they stay.
nn.model @m family "gpt2" phase "pipe" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // CHECK: pipe.stage @stage0
  pipe.stage @stage0 index 0 calls ["h.0"]
  // CHECK: pipe.stage @stage1
  pipe.stage @stage1 index 1 calls ["h.0"]
  // CHECK: pipe.schedule @schedule
  pipe.schedule @schedule micro_batches 1 ["F0 B0 O", "F0 B0 O"]
}
