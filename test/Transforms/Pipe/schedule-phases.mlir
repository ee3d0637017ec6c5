// RUN: heddle-opt %s --pipe-schedule --verify-diagnostics | FileCheck %s

// Two train programs have one schedule. The program with the most layers decides which
// stage has which layers.
// CHECK-COUNT-1: pipe.stage @stage0 index 0 calls ["h.0", "h.1"]
// CHECK-COUNT-1: pipe.stage @stage1 index 1 calls ["h.2", "h.3"]
// CHECK-COUNT-1: pipe.schedule @schedule
// CHECK-NOT: pipe.
nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2}}>, config = "{}", weights = {}} {
  nn.func @layer() {
    nn.return
  }
  nn.step @train.near() attributes {
      kind = #nn.program<train>, inputs = [], outputs = [], phase = #nn.phase<"near", from_step = 1>} {
    nn.call @layer() path "h.0" : () -> ()
    nn.call @layer() path "h.1" : () -> ()
    nn.return
  }
  nn.step @train.far() attributes {
      kind = #nn.program<train>, inputs = [], outputs = [], phase = #nn.phase<"far", from_step = 5>} {
    nn.call @layer() path "h.0" : () -> ()
    nn.call @layer() path "h.1" : () -> ()
    nn.call @layer() path "h.2" : () -> ()
    nn.call @layer() path "h.3" : () -> ()
    nn.return
  }
}
