// RUN: heddle-opt %s --split-input-file --verify-roundtrip | FileCheck %s

// Two train programs that change places at step 5, and a program that evaluates.
// CHECK-LABEL: nn.model @steps
// CHECK: nn.step @train.far() attributes {{{.*}}phase = #nn.phase<"far", from_step = 5>}
// CHECK: nn.step @train.near() attributes {{{.*}}phase = #nn.phase<"near", from_step = 1>}
nn.model @steps family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.step @train.far() attributes {
      kind = #nn.program<train>, inputs = [], outputs = [], phase = #nn.phase<"far", from_step = 5>} {
    nn.return
  }
  nn.step @train.near() attributes {
      kind = #nn.program<train>, inputs = [], outputs = [], phase = #nn.phase<"near", from_step = 1>} {
    nn.return
  }
  nn.step @eval() attributes {kind = #nn.program<eval>, inputs = [], outputs = []} {
    nn.return
  }
}

// -----

// Phases that count updates.
// CHECK-LABEL: nn.model @updates
// CHECK: phase = #nn.phase<"far", from_update = 400>
// CHECK: phase = #nn.phase<"near", from_update = 1>
nn.model @updates family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.step @train.far() attributes {
      kind = #nn.program<train>, inputs = [], outputs = [], phase = #nn.phase<"far", from_update = 400>} {
    nn.return
  }
  nn.step @train.near() attributes {
      kind = #nn.program<train>, inputs = [], outputs = [], phase = #nn.phase<"near", from_update = 1>} {
    nn.return
  }
}

// -----

// A phase that runs at intervals, the one in between, and a last one that ends.
// CHECK-LABEL: nn.model @intervals
// CHECK: phase = #nn.phase<"dense", from_update = 1, every = #nn.interval<doubled_after_runs = 16>>
// CHECK: phase = #nn.phase<"compressed", from_update = 1>
// CHECK: phase = #nn.phase<"local", from_update = 9, to = 99>
// CHECK: phase = #nn.phase<"synchronizing", from_update = 9, every = #nn.interval<doubled_after = 32, at_most = 16>, to = 99>
nn.model @intervals family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.step @train.dense() attributes {
      kind = #nn.program<train>, inputs = [], outputs = [],
      phase = #nn.phase<"dense", from_update = 1, every = #nn.interval<doubled_after_runs = 16>>} {
    nn.return
  }
  nn.step @train.compressed() attributes {
      kind = #nn.program<train>, inputs = [], outputs = [], phase = #nn.phase<"compressed", from_update = 1>} {
    nn.return
  }
  nn.step @train.local() attributes {
      kind = #nn.program<train>, inputs = [], outputs = [], phase = #nn.phase<"local", from_update = 9, to = 99>} {
    nn.return
  }
  nn.step @train.synchronizing() attributes {
      kind = #nn.program<train>, inputs = [], outputs = [],
      phase = #nn.phase<"synchronizing", from_update = 9, every = #nn.interval<doubled_after = 32, at_most = 16>, to = 99>} {
    nn.return
  }
}

// -----

// Programs before they are steps, and a single program with a phase.
// CHECK-LABEL: nn.model @functions
// CHECK: nn.func @forward() attributes {{{.*}}phase = #nn.phase<"only", from_step = 1>, program = #nn.program<train>}
nn.model @functions family "gpt2" phase "import" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.func @forward() attributes {
      program = #nn.program<train>, inputs = [], outputs = [], phase = #nn.phase<"only", from_step = 1>} {
    nn.return
  }
}

// -----

// CHECK-LABEL: plan.program @plan
// CHECK: plan.sequence @train.near() attributes {{{.*}}kind = #nn.program<train>, phase = #nn.phase<"near", from_step = 1>}
// CHECK: plan.sequence @train.far() attributes {{{.*}}kind = #nn.program<train>, phase = #nn.phase<"far", from_step = 5>}
plan.program @plan family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @train.near() attributes {
      frame_bytes = 0 : i64, kind = #nn.program<train>, phase = #nn.phase<"near", from_step = 1>} {
    plan.end
  }
  plan.sequence @train.far() attributes {
      frame_bytes = 0 : i64, kind = #nn.program<train>, phase = #nn.phase<"far", from_step = 5>} {
    plan.end
  }
}
